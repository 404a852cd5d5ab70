"""gemini in a dialog: `gemini --acp`, confined by the same policy as a turn of its own."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from ostler.agents.acp import AcpDialog, bare
from ostler.agents.acp_words import Acp, told_tool
from ostler.agents.adapter import Record
from ostler.agents.dialog import DialogFace
from ostler.agents.mcp import TRANSPORTS
from ostler.agents.values import text
from ostler.words import Attachment, Host, Launch, Turn


def tool(call: Record) -> tuple[str, Any]:
    """gemini puts a tool's name before its id, and the whole command where others have a title."""
    name, mark, _ = text(call.get("toolCallId")).partition("__")
    if not mark:
        return told_tool(call)
    return name, {"command": call.get("title")} if name == "run_shell_command" else call.get("rawInput")


ACP = Acp(
    modes={"read": "default", "write": "default", "full": "default"},
    safe_modes=("plan",),
    model_by_flag=True,
    reads=False,  # no error that JSON-RPC knows means "there is no such file" to it
    embeds=False,
    marks="/$",
    tool=tool,
    denied=lambda call, output: output.startswith("Path not in workspace"),
    # Loading a session begins a file named after its id and the minute. In the minute in which the session
    # itself began that is its own file, and gemini forgets all; an id with a blank has another name.
    loads_as=" ",
    replays_late=True,
)


class GeminiDialog(AcpDialog):
    acp = ACP

    def block(self, attached: Attachment) -> Record:
        """An image beside a file or an embedded text is lost; one of the folder goes as a file, too."""
        inside = attached.path.startswith(self.first.folder.rstrip("/") + "/")
        block = super().block(structs.replace(attached, data="") if inside else attached)
        return {**block, "uri": f"file://{attached.path}"} if "uri" in block else block  # it takes `%20` as it stands


def face(launch: Callable[[Turn, Host], Launch]) -> DialogFace:
    def launched(turn: Turn, host: Host) -> Launch:
        once = launch(bare(turn), host)
        others = ("--output-format=", "--approval-mode=")
        flags = [flag for flag in once.argv[1:] if not flag.startswith(others)]
        argv = (host.executable, "--acp", "--approval-mode=default", *flags)
        return Launch(argv=argv, env=once.env, files=once.files, notices=once.notices)

    kept = "`--acp --approval-mode=default`, the `--policy` of the access"
    return DialogFace(launch=launched, dialog=GeminiDialog, images=True, mcp=TRANSPORTS, protocol="acp", access=kept)
