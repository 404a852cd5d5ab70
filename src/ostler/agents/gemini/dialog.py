"""gemini in a dialog: `gemini --acp`, confined by the same policy as a turn without --dialog."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from ostler.agents.acp.face import acp_face, bare
from ostler.agents.acp.protocol import Acp, tool_and_input
from ostler.agents.dialog import DialogFace
from ostler.agents.launches import refuse_servers
from ostler.agents.values import Record, text
from ostler.model import Host, Launch, Turn


def tool(call: Record) -> tuple[str, Any]:
    """gemini puts a tool's name before its id, and the whole command where others have a title."""
    name, mark, _ = text(call.get("toolCallId")).partition("__")
    if not mark:
        return tool_and_input(call)
    return name, {"command": call.get("title")} if name == "run_shell_command" else call.get("rawInput")


ACP = Acp(
    modes={"read": "default", "write": "default", "full": "default"},
    safe_modes=("plan",),
    model_by_flag=True,
    reads=False,  # no error that JSON-RPC knows means "there is no such file" to it
    embeds=False,
    images_by_path=True,  # one beside a file or an embedded text is lost
    quotes_paths=False,
    marks="/$",
    tool=tool,
    denied=lambda call, output: output.startswith("Path not in workspace"),
    # Loading a session begins a file named after its id and the minute. In the minute in which the session
    # itself began that is its own file, and gemini forgets all; an id with a blank has another name.
    loads_as=" ",
    replays_late=True,
)


def face(launch: Callable[[Turn, Host], Launch]) -> DialogFace:
    def launched(turn: Turn, host: Host) -> Launch:
        if host.untrusted:
            refuse_servers(turn)
        once = launch(bare(turn), host)
        others = ("--output-format=", "--approval-mode=")
        flags = [flag for flag in once.argv[1:] if not flag.startswith(others)]
        argv = (host.executable, "--acp", "--approval-mode=default", *flags)
        return structs.replace(once, argv=argv, stdin=b"")

    kept = "`--acp --approval-mode=default`, the `--policy` of the access"
    return acp_face(ACP, launched, access=kept)
