"""Any ACP agent by a command line of the settings (`[acp]`): it has no turns of one process each, only dialogs."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from ostler.agents.acp import acp_face
from ostler.agents.acp_known import known
from ostler.agents.acp_reader import AcpReader
from ostler.agents.acp_words import Acp
from ostler.agents.adapter import Agent, refuse_tool_lists
from ostler.errors import OstlerError
from ostler.words import Host, Launch, Turn

UNASKED = "what it does without asking is nothing that ostler could confine"


def launch(turn: Turn, host: Host) -> Launch:
    """The command line stands in the settings."""
    refuse_tool_lists(turn)
    return Launch(argv=(host.executable,))


def add(agents: dict[str, Agent], named: Mapping[str, Sequence[str]]) -> None:
    """Adds agents by their command lines. Raises exists for a name that another kind of agent has."""
    for name, argv in named.items():
        if name in agents and agents[name].one_shot:
            raise OstlerError("exists", f"acp.{name}: there is an agent named {name!r} already", "Choose another name")
        agents[name] = agent_of(name, argv)


def agent_of(name: str, argv: Sequence[str]) -> Agent:
    return structs.replace(
        known(argv) or UNKNOWN,
        name=name,
        title=f"{name} (ACP)",
        binaries=(name,),
        install=f"name its command line: acp.{name} in your settings",
    )


UNKNOWN = Agent(
    name="",
    title="",
    binaries=(),
    install="",
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
