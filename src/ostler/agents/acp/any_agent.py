"""Any ACP agent by a command line of the settings (`[acp]`): it has no turns of one process each, only dialogs."""

from collections.abc import Sequence

from msgspec import structs

from ostler.agents import all_project_config, all_project_config_above
from ostler.agents.acp.face import acp_face
from ostler.agents.acp.known import known
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.reader import AcpReader
from ostler.agents.adapter import Agent, State
from ostler.agents.launches import refuse_tool_lists, refuse_untrusted
from ostler.model import Host, Launch, Turn

UNASKED = "ostler cannot confine what it does without asking"


def launch(turn: Turn, host: Host) -> Launch:
    """The command line stands in the settings."""
    refuse_tool_lists(turn)
    refuse_untrusted(turn, host)
    return Launch(argv=(host.executable,))


def agent_of(name: str, argv: Sequence[str]) -> Agent:
    """The agent of a command line."""
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
    project_config=all_project_config(),  # nobody knows what it takes from a folder: whatever any agent would
    project_config_above=all_project_config_above(),
    without_git=True,
    access={
        "read": "asks: whatever it asks for beyond reading is refused",
        "write": "asks: edits outside of the folder are refused, and without a wall commands",
        "full": "asks",
    },
    state=State(),  # nobody knows what it keeps where: `wall_paths` opens it
    unpromised={"read": UNASKED, "write": UNASKED},
    unconfined={"read": UNASKED, "write": UNASKED, "full": "everything"},
    images="native",
    deltas=True,
    cost=True,
)
