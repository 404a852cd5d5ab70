"""ostler drives every coding agent through one API.

    async with ostler.open() as o:
        session = await o.session("claude", access="write")
        async for event in session.run("fix the failing test"):
            print(event)
        print(session.last.status)

`ostler.run("…", "claude")` does the same in one blocking call and returns the envelope.
"""

from typing import TYPE_CHECKING, Any

from ostler.errors import OstlerError

if TYPE_CHECKING:
    from ostler.settings import Settings
    from ostler.words import Envelope
    from ostler.work import LiveSession, Ostler

__version__ = "0.1.0"

_SESSION_OPTIONS = ("folder", "session", "name", "resume_last", "agent_session", "model", "access", "system")


def open(settings: "Settings | None" = None, *, folder: str = ".", role: str = "api") -> "Ostler":
    """An `Ostler` for `async with`, with the settings that hold in `folder` unless some are given."""
    import os

    from ostler.settings import load_settings
    from ostler.work import Ostler

    if settings is None:
        settings = load_settings(folder=folder, environ=os.environ).settings
    return Ostler(settings, os.environ, role)


def run(prompt: str, agent: str | None = None, *, settings: "Settings | None" = None, **options: Any) -> "Envelope":
    """One turn from beginning to end; takes the options of `Ostler.session` and `LiveSession.run`."""
    import asyncio

    async def turn() -> "Envelope":
        async with open(settings, folder=options.get("folder") or ".") as o:
            session = await o.session(agent, **{k: v for k, v in options.items() if k in _SESSION_OPTIONS})
            async for _ in session.run(prompt, **{k: v for k, v in options.items() if k not in _SESSION_OPTIONS}):
                pass
            assert session.last is not None
            return session.last

    return asyncio.run(turn())


def __getattr__(name: str) -> Any:
    # The nouns are there as ostler.Envelope and so on, without making `import ostler` slow.
    # `from ostler import words` would ask this very function for `words`.
    from importlib import import_module

    home = import_module("ostler.work" if name in ("Ostler", "LiveSession") else "ostler.words")
    if name.startswith("_") or not hasattr(home, name):
        raise AttributeError(f"module 'ostler' has no attribute {name!r}")
    return getattr(home, name)


__all__ = ["LiveSession", "Ostler", "OstlerError", "__version__", "open", "run"]
