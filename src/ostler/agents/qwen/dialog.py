"""qwen in a dialog: stream-json with control requests, as claude speaks it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs
from msgspec.json import encode

from ostler.access import Access
from ostler.agents.dialog import AnswerKind, Ask, DialogFace, Emit, Step
from ostler.agents.mcp import MCP_TRANSPORTS
from ostler.agents.messages import MessagesReader
from ostler.agents.paths import is_inside
from ostler.agents.reader import Reader
from ostler.agents.stream_dialog import ALWAYS, ONCE, REJECT, StreamDialog
from ostler.agents.values import table, text
from ostler.model import Answered, Asked, Exit, Host, Launch, Notice, Problem, Turn

PromptOf = Callable[[Turn], tuple[str, tuple[str, ...]]]
# `auto-edit` asks for no edit, and only what it asks for is kept to the folder.
MODES: dict[Access, tuple[str, ...]] = {
    "read": ("default", "plan"),
    "write": ("default", "plan"),
    "full": ("default", "plan", "auto-edit"),
}


class QwenDialog(StreamDialog):
    """It knows no rules for a session: what is allowed for good is kept here."""

    modes = MODES

    def __init__(self, turn: Turn, host: Host, reader_of: Callable[[Turn], Reader], prompt_of: PromptOf) -> None:
        super().__init__(turn, host, reader_of)
        self._prompt_of = prompt_of
        self._always: set[tuple[str, bytes]] = set()

    def prompt(self, turn: Turn) -> list[Step]:
        self.reader = self._reader_of(turn)
        content, notices = self._prompt_of(turn)
        events = [Notice(code="prompt", text=said) for said in notices]
        return [*([Emit([*events])] if events else []), *self._prompt(content)]

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        if kind == "allow_always" and ask in self._asks:
            self._always.add(_key(self._asks[ask]))
            kind = "allow_once"
        request = self._asks.get(ask, {})
        steps = super().answer(ask, kind, message)
        if kind.startswith("reject"):
            self._refused(request, message or "it was refused")
        return steps

    def startup_error(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        if "No saved session found" not in stderr_tail:
            return None
        gone = f"qwen has no conversation {self.first.agent_session}"
        return Problem(kind="not_found", message=gone, hint="Start a new session")

    def _refused(self, request: dict[str, Any], reason: str, access: Access | None = None) -> None:
        """qwen's own result does not list it."""
        id, name = text(request.get("tool_use_id")), text(request.get("tool_name"))
        if isinstance(self.reader, MessagesReader):
            self.reader.refuse(id, name, request.get("input"), reason, access)

    def _asked(self, id: str, request: dict[str, Any]) -> list[Step]:
        steps = super()._asked(id, request)
        if not steps or not isinstance(steps[0], Ask):
            return steps
        asked = structs.replace(steps[0].asked, options=(ONCE, ALWAYS, REJECT))
        if self.first.access == "write" and not _inside(asked, self.first.folder):
            self._refused(self._asks.pop(id), "access write is for the folder alone", "full")
            answered = Answered(id=id, option="reject_once", by="access write")
            refused = {"behavior": "deny", "message": f"Edits are for {self.first.folder} alone."}
            return [Emit([asked, answered]), self._respond(id, refused)]
        if _key(request) in self._always:
            return self._allowed_before(asked)
        return [Ask(asked)]


def _inside(asked: Asked, folder: str) -> bool:
    """Whether all files that it is about lie in the folder; qwen takes absolute paths alone."""
    return all(is_inside(change.path, folder) for change in asked.files)


def _key(request: dict[str, Any]) -> tuple[str, bytes]:
    """What an answer for the session covers: edits of the same file, or the very same call."""
    input = table(request.get("input"))
    return text(request.get("tool_name")), encode(input.get("file_path") or input)


def face(launch: Callable[[Turn, Host], Launch], prompt_of: PromptOf, reader: Callable[[Turn], Reader]) -> DialogFace:
    def launched(turn: Turn, host: Host) -> Launch:
        """The same tools as for one turn; what they leave open is asked."""
        once = launch(structs.replace(turn, prompt="", first=False), host)  # what goes with a prompt comes with it
        flags = [flag for flag in once.argv[1:] if not flag.startswith(("--approval-mode=", "--json-schema="))]
        asking = ("--input-format=stream-json", "--approval-mode=default")
        return structs.replace(once, argv=(host.executable, *asking, *flags), stdin=b"")

    return DialogFace(
        launch=launched,
        dialog=partial(QwenDialog, reader_of=reader, prompt_of=prompt_of),
        needs=("--input-format",),
        mcp=MCP_TRANSPORTS,
        protocol="stream-json",
        access="`--input-format=stream-json --approval-mode=default`. Under `write`, edits outside of the folder are"
        " refused unseen",
    )
