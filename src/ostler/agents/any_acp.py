"""Any ACP agent by a command line of the settings (`[acp]`): it has no turns of one process each, only dialogs."""

from collections.abc import Iterable

from ostler.agents.acp import acp_face
from ostler.agents.acp_reader import AcpReader
from ostler.agents.acp_words import Acp
from ostler.agents.adapter import Agent
from ostler.errors import OstlerError
from ostler.words import Host, Launch, Turn

UNASKED = "what it does without asking is nothing that ostler could confine"


def launch(turn: Turn, host: Host) -> Launch:
    """The command line stands in the settings."""
    return Launch(argv=(host.executable,))


def add(agents: dict[str, Agent], names: Iterable[str]) -> None:
    """Adds agents of these names, once. Raises exists for a name that another kind of agent has."""
    for name in names:
        if name in agents and agents[name].one_shot:
            raise OstlerError("exists", f"acp.{name}: there is an agent named {name!r} already", "Choose another name")
        agents.setdefault(name, named(name))


def named(name: str) -> Agent:
    return Agent(
        name=name,
        title=f"{name} (ACP)",
        binaries=(name,),
        install=f"name its command line: acp.{name} in your settings",
        launch=launch,
        reader=AcpReader,
        one_shot=False,
        dialog=acp_face(Acp(), launch),
        login_elsewhere=True,
        access={
            "read": "asks: whatever it asks for beyond reading is refused",
            "write": "asks: edits outside of the folder and commands are refused",
            "full": "asks",
        },
        unpromised={"read": UNASKED, "write": UNASKED},
        unconfined={"read": UNASKED, "write": UNASKED, "full": "everything"},
        images="native",
        deltas=True,
        cost=True,
    )
