"""ostler drives every coding agent through one API.

    async with ostler.open() as o:
        session = await o.session("claude", access="write")
        envelope = await session.run("fix the failing test")
        print(envelope.status, envelope.summary)

`async for event in session.run("…")` shows the same turn as it happens. `ostler.run("…", "claude")` is one turn in
one blocking call.
"""

# `import ostler` is quick: what is named here is imported when it is first used, by `__getattr__` below.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from ostler.access import Access
    from ostler.errors import ErrorKind, OstlerError
    from ostler.model import (
        Answered,
        AnyEvent,
        Asked,
        AskOption,
        AskOptionKind,
        AskRow,
        Attachment,
        Callback,
        Denial,
        Ended,
        Enforcement,
        Envelope,
        Event,
        Exit,
        FileChange,
        Forwarded,
        Hook,
        HookMode,
        Host,
        Launch,
        Limited,
        LimitedBy,
        Limits,
        McpServer,
        McpTransport,
        Notice,
        Offer,
        Offered,
        Outcome,
        Owner,
        PlainAgent,
        Plan,
        PlanStep,
        PoolLimits,
        Problem,
        Raw,
        Session,
        SessionState,
        SignalName,
        Started,
        StepStatus,
        SystemMode,
        TerminalClosed,
        TerminalOpened,
        TerminalRow,
        TerminalSource,
        Text,
        TextDelta,
        Thought,
        ThoughtDelta,
        ToolEnded,
        ToolStarted,
        TransportName,
        Turn,
        TurnDefaults,
        TurnOptions,
        TurnRow,
        TurnState,
        Usage,
        UsageReport,
        Verdict,
        WaitFor,
        Waiting,
        Wall,
    )
    from ostler.settings import Settings
    from ostler.work import LiveSession, Ostler
    from ostler.work.terminals.terminal import Terminal
    from ostler.work.turns.handle import TurnHandle
    from ostler.work.turns.keywords import SingleRunKeywords

__version__ = "0.1.0"

__all__ = [
    "Access",
    "Answered",
    "AnyEvent",
    "AskOption",
    "AskOptionKind",
    "AskRow",
    "Asked",
    "Attachment",
    "Callback",
    "Denial",
    "Ended",
    "Enforcement",
    "Envelope",
    "ErrorKind",
    "Event",
    "Exit",
    "FileChange",
    "Forwarded",
    "Hook",
    "HookMode",
    "Host",
    "Launch",
    "Limited",
    "LimitedBy",
    "Limits",
    "LiveSession",
    "McpServer",
    "McpTransport",
    "Notice",
    "Offer",
    "Offered",
    "Ostler",
    "OstlerError",
    "Outcome",
    "Owner",
    "PlainAgent",
    "Plan",
    "PlanStep",
    "PoolLimits",
    "Problem",
    "Raw",
    "Session",
    "SessionState",
    "Settings",
    "SignalName",
    "Started",
    "StepStatus",
    "SystemMode",
    "Terminal",
    "TerminalClosed",
    "TerminalOpened",
    "TerminalRow",
    "TerminalSource",
    "Text",
    "TextDelta",
    "Thought",
    "ThoughtDelta",
    "ToolEnded",
    "ToolStarted",
    "TransportName",
    "Turn",
    "TurnDefaults",
    "TurnHandle",
    "TurnOptions",
    "TurnRow",
    "TurnState",
    "Usage",
    "UsageReport",
    "Verdict",
    "WaitFor",
    "Waiting",
    "Wall",
    "__version__",
    "open",
    "run",
]

_SESSION_KEYWORDS = ("folder", "session", "name", "resume_last", "agent_session")


def open(settings: "Settings | None" = None, *, folder: str = ".", role: str = "api") -> "Ostler":
    """An `Ostler` for `async with`. Each turn has the settings of its folder, unless some are given for all.

    `folder` says which state folder it works on, where its settings name one.
    """
    import os

    from ostler.settings import load_settings
    from ostler.work import Ostler
    from ostler.work.folder_settings import loader

    if settings is not None:
        return Ostler(settings, os.environ, role)
    loaded = load_settings(folder=folder, environ=os.environ)
    return Ostler(loaded.settings, os.environ, role, loader(os.environ))


def run(
    prompt: str,
    agent: str | None = None,
    *,
    settings: "Settings | None" = None,
    **options: "Unpack[SingleRunKeywords]",
) -> "Envelope":
    """One turn from beginning to end; takes the options of `Ostler.session` and `LiveSession.run`.

    It blocks, also where an event loop runs already, as in a notebook.
    """
    import asyncio

    async def turn() -> "Envelope":
        from ostler.model import OF_SESSION

        of_session = {name: value for name, value in options.items() if name in _SESSION_KEYWORDS + OF_SESSION}
        of_turn = {name: value for name, value in options.items() if name not in of_session}
        async with open(settings, folder=options.get("folder") or ".") as o:
            session = await o.session(agent, **of_session)  # type: ignore[arg-type]
            return await session.run(prompt, **of_turn)  # type: ignore[arg-type]

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(turn())
    from ostler.work.other_loop import run_in_thread

    return run_in_thread(turn())


if not TYPE_CHECKING:  # for a type checker there is nothing beside what is named above

    def __getattr__(name: str) -> object:
        # `from ostler import model` would ask this very function for `model`.
        if name not in __all__:
            raise AttributeError(f"module 'ostler' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES.get(name, "ostler.model")), name)


_HOMES = {
    "Access": "ostler.access",
    "ErrorKind": "ostler.errors",
    "LiveSession": "ostler.work",
    "Ostler": "ostler.work",
    "OstlerError": "ostler.errors",
    "Settings": "ostler.settings",
    "Terminal": "ostler.work.terminals.terminal",
    "TurnHandle": "ostler.work.turns.handle",
}
