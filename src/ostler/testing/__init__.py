"""What ostler is tested with, for its users too: scripted model and agent, cassettes, clock, conformance.

Names are imported when they are used: the scripted agent starts through this package and must start fast.
"""

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from ostler.testing.cassettes import Cassette, Recorder, cassette_agent
    from ostler.testing.clock import Clock
    from ostler.testing.conformance import Report, assert_conforms, check_adapter
    from ostler.testing.launched import ScriptedAgent, ScriptLaunch, launches
    from ostler.testing.model import Exchange, ScriptedModel, serve

__all__ = [
    "Cassette",
    "Clock",
    "Exchange",
    "Recorder",
    "Report",
    "ScriptLaunch",
    "ScriptedAgent",
    "ScriptedModel",
    "assert_conforms",
    "cassette_agent",
    "check_adapter",
    "launches",
    "serve",
]

_HOMES = {
    "cassettes": ("Cassette", "Recorder", "cassette_agent"),
    "clock": ("Clock",),
    "conformance": ("Report", "assert_conforms", "check_adapter"),
    "launched": ("ScriptLaunch", "ScriptedAgent", "launches"),
    "model": ("Exchange", "ScriptedModel", "serve"),
}


if not TYPE_CHECKING:  # for a type checker there is nothing beside what is named above

    def __getattr__(name: str) -> object:
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{home}"), name)
