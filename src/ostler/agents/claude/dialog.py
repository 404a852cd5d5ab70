"""claude in a dialog: stream-json with control requests, and what no answer may allow."""

from collections.abc import Callable
from typing import Any

from ostler.access import Access
from ostler.agents.claude.reader import COMMANDS, EDITS
from ostler.agents.dialog import AnswerKind, Ask, Emit, Step
from ostler.agents.paths import is_inside
from ostler.agents.reader import Reader
from ostler.agents.stream_dialog import StreamDialog
from ostler.agents.tool_input import paths_in
from ostler.agents.values import table, tables, text
from ostler.model import Answered, Host, Turn

# In a dialog: the first is the one that a process begins with; none lets it do more than a turn without --dialog.
DIALOG_MODES: dict[Access, tuple[str, ...]] = {
    "read": ("dontAsk", "plan"),
    "write": ("default", "plan", "acceptEdits"),
    "full": ("default", "plan", "acceptEdits"),
}


class ClaudeDialog(StreamDialog):
    """claude with its stdin open. Asks come through `--permission-prompt-tool stdio`."""

    modes = DIALOG_MODES

    def __init__(self, turn: Turn, host: Host, reader_of: Callable[[Turn], Reader]) -> None:
        super().__init__(turn, host, reader_of)
        self._always: set[str] = set()  # commands; claude's own rules do not cover those that write by `>`

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        command = _command(self._asks.get(ask, {}))
        steps = super().answer(ask, kind, message)
        if kind == "allow_always" and command:
            self._always.add(command)
        return steps

    def usual_model(self) -> list[Step]:
        return [self._request("set_model", model=None)]

    def _asked(self, id: str, request: dict[str, Any]) -> list[Step]:
        """No answer widens the access: what it does not reach is refused before anybody is asked."""
        steps, access = super()._asked(id, request), self.first.access
        if not isinstance(steps[0], Ask):
            return steps
        if access == "full" or not beyond(request, access, self.first.folder):
            return self._allowed_before(steps[0].asked) if _command(request) in self._always else steps
        refused = Emit([steps[0].asked, Answered(id=id, option="reject_once", by=f"access {access}")])
        self._asks.pop(id)
        return [refused, self._respond(id, {"behavior": "deny", "message": f"Access {access} does not allow this."})]


def _command(request: dict[str, Any]) -> str:
    return text(table(request.get("input")).get("command")) if request.get("tool_name") == "Bash" else ""


def beyond(request: dict[str, Any], access: Access, folder: str) -> bool:
    """Whether an edit goes where the access does not reach: outside of the folder, by its path or by a link that
    claude has followed, or to what claude itself guards in the folder, such as its settings and git's hooks.
    """
    name, input = text(request.get("tool_name")), table(request.get("input"))
    if name not in EDITS:
        return access == "read" and name in COMMANDS
    paths = paths_in(input)
    if blocked := text(request.get("blocked_path")):
        paths.append(blocked)
    further = any(each.get("type") == "addDirectories" for each in tables(request.get("permission_suggestions")))
    guarded = request.get("decision_reason_type") in ("workingDir", "safetyCheck")
    return access == "read" or further or guarded or not paths or not all(is_inside(path, folder) for path in paths)
