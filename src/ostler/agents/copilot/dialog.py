"""copilot in a dialog: `copilot --acp`, with the denials of a turn without --dialog and none of its allowances."""

from collections.abc import Callable

from ostler.agents.acp.face import acp_face, bare
from ostler.agents.acp.protocol import Acp
from ostler.agents.dialog import DialogFace
from ostler.agents.values import table
from ostler.model import AnyEvent, Host, Launch, Limited, Notice, Turn


def aside(said: str) -> AnyEvent | None:
    """It tells of itself in the midst of the model's words, each time in a piece of its own."""
    if said.startswith("Info: Request failed"):
        return Limited(error="overloaded", message=said.removeprefix("Info: "))
    return Notice(code="agent", text=said) if said.startswith(("Info: ", "Warning: ")) else None


ACP = Acp(
    modes={"read": "agent", "write": "agent", "full": "agent"},
    safe_modes=("plan",),
    options={"allow_all": "off"},  # a user's settings may turn it on
    model_by_flag=True,
    mcp_by_flag=True,  # of those that come by the protocol, it takes no programs
    system="launch",
    counts="process",
    embeds=False,  # it puts them into files in /tmp, and may not read those
    aside=aside,
    error_mark="Error: ",  # a refused key ends the turn well, with a message that says so
    denied=lambda call, output: table(call.get("rawOutput")).get("code") == "denied",
)


def face(launch: Callable[[Turn, Host], Launch]) -> DialogFace:
    def launched(turn: Turn, host: Host) -> Launch:
        once = launch(bare(turn), host)
        flags = [flag for flag in once.argv[1:] if not flag.startswith(("--output-format=", "--allow-"))]
        return Launch(argv=(host.executable, "--acp", *flags), env=once.env, files=once.files, notices=once.notices)

    kept = "`--acp`, with its denials and none of its allowances; `allow_all` off"
    return acp_face(ACP, launched, access=kept)
