"""What `opencode run --format=json` prints, as events: its records on stdout and its log on stderr."""

import re
from typing import Any

from ostler.access import Access
from ostler.agents.failures import kind_of, last_line, limited_by
from ostler.agents.paths import may_be_inside
from ostler.agents.reader import Reader
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, number, table, tables, text
from ostler.errors import ErrorKind, quoted
from ostler.model import (
    AnyEvent,
    Denial,
    Exit,
    FileChange,
    Limited,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Thought,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    UsageReport,
    Verdict,
)

EDITS = ("write", "edit", "apply_patch", "multiedit", "patch")
SERVANTS = ("compaction", "title", "summary")  # agents that opencode itself calls; they have no tools


def own_agent(turn: Turn) -> str:
    """The agent that keeps the access. Nobody can guess its name, so no project can add rules to it."""
    return f"ostler-{turn.id}"


def access_agent(turn: Turn) -> str:
    """The agent of a turn of one process; "" where opencode's own will do."""
    needed = turn.access != "full" or turn.tools_allowed or turn.tools_denied or turn.system_mode == "replace"
    return own_agent(turn) if needed else ""


FIELD = re.compile(r'(?<![\w.])([\w.]+)=("(?:[^"\\]|\\.)*"|\S*)')  # of a line of the log


class OpencodeReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.begun = False
        self.finish = ""  # the reason of the last step
        self.left_loop = False
        self.causes: dict[str, str] = {}  # what the log says of errors that records only refer to
        self.counted: dict[str, int] = {}

    def read(self, record: Record) -> list[AnyEvent]:
        events: list[AnyEvent] = self._begin(record.get("sessionID"))
        part = table(record.get("part"))
        match record.get("type"):
            case "step_start":
                return events
            case "text" if isinstance(part.get("text"), str):
                return [*events, self.whole(part["text"], str(part.get("id", "")))]
            case "reasoning" if isinstance(part.get("text"), str):
                return [*events, Thought(text=part["text"], id=str(part.get("id", "")))]
            case "tool_use" if isinstance(part.get("state"), dict):
                return [*events, *self._tool(part, part["state"])]
            case "step_finish":
                return [*events, *self._step(part)]
            case "error" if isinstance(record.get("error"), dict):
                self._fail(record["error"])
                return events
            case _:
                return [*events, Raw(record=record)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """Events of one line of the log; lines about subagents and titles tell nothing."""
        found = _fields_of(line)
        if found.get("message") == "failed" and "ref" in found:
            self.causes[found["ref"]] = found.get("error", "")
        if "Falling back to default agent" in line:
            self._wrong_agent(line.strip())
        session = found.get("session.id")
        if session is None or session != (self.agent_session or session) or found.get("small") == "true":
            return []
        match found.get("message"):
            case "stream" if found.get("mode") == "primary":
                self.model = f"{found.get('providerID')}/{found.get('modelID')}"
                if (own := access_agent(self.turn)) and found.get("agent") not in (own, *SERVANTS):
                    self._wrong_agent(f"it ran its agent {quoted(found.get('agent'))}")
                return self._begin(session)
            case "stream error":
                return [_limited(found.get("error.error", ""))]
            case "exiting loop":
                self.left_loop = True
                self._settle()
        return []

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        if self.result is None and exit is not None and exit.ok:
            self.left_loop = True
            self._settle()
        return super().end(exit, stderr_tail)

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        if self.denied and (exit is None or exit.ok):
            refused = self.denied[-1]
            return Problem(
                kind="denied",
                message=f"opencode stopped: {refused.tool} {refused.target} was refused",
                hint=f"Run again with --access {refused.access}" if refused.access else "",
            )
        said = "\n".join(_plain(line) for line in stderr_tail.splitlines() if not line.startswith("timestamp="))
        if "Session not found" in said:
            return Problem(kind="not_found", message=f"opencode has no conversation {self.turn.agent_session}")
        return super().no_result(exit, last_line(said))

    def _begin(self, session: Any) -> list[AnyEvent]:
        if isinstance(session, str) and session:
            self.agent_session = session
        if self.begun or not self.agent_session:
            return []
        self.begun = True
        return [self.started()]

    def _settle(self) -> None:
        """A step that stops is no proof by itself: after a compaction the turn goes on."""
        if self.left_loop and self.finish == "stop" and self.result is None:
            self.succeed("step_finish: stop")

    def _step(self, part: Record) -> list[AnyEvent]:
        self.finish = str(part.get("reason") or "")
        self.steps = (self.steps or 0) + 1
        for name, count in _tokens_of(part.get("tokens")).items():
            self.counted[name] = self.counted.get(name, 0) + count
        self.usage = Usage(**self.counted) if self.counted else None
        if isinstance(cost := part.get("cost"), int | float) and cost > 0:  # 0: it knows no price
            self.cost_usd = round((self.cost_usd or 0.0) + cost, 9)
        self._settle()
        return [UsageReport(usage=self.usage, cost_usd=self.cost_usd)] if self.usage else []

    def _tool(self, part: Record, state: Record) -> list[AnyEvent]:
        """A tool is told of once it has ended."""
        id, name = str(part.get("callID") or part.get("id")), str(part.get("tool"))
        input, meta = state.get("input"), table(state.get("metadata"))
        output = str(state.get("error") or state.get("output") or "")
        title = title_of(name, input) or str(state.get("title") or "").partition("\n")[0]
        files, code = _files_of(name, input, meta), meta.get("exit")
        denied = state.get("status") == "error" and self._refused(name, output)
        if denied:
            self.denied.append(Denial(tool=name, target=title, access=self._remedy(name, input), reason=output[:200]))
        ended = ToolEnded(
            id=id,
            ok=state.get("status") == "completed" and code in (None, 0),
            output=output,
            diff=str(meta.get("diff") or ""),
            files=files,
            exit_code=code if isinstance(code, int) else None,
            duration_ms=_duration_of(table(state.get("time"))),
            denied=denied,
        )
        started = self.tool_started(ToolStarted(id=id, name=name, title=title, input=input, files=files))
        return [started, self.tool_ended(ended), *_plan_of(name, input)]

    def _refused(self, name: str, error: str) -> bool:
        if error.startswith("Model tried to call unavailable tool"):
            return self.turn.access != "full" and name in ("bash", "task", "webfetch", "websearch")
        return error.startswith(("The user has specified a rule", "The user rejected permission"))

    def _remedy(self, name: str, input: Any) -> Access | None:
        if self.turn.access == "full":
            return None
        path = str(table(input).get("filePath", ""))
        inside = name in EDITS and may_be_inside(path, self.turn.folder)
        runs = name == "bash" and self.turn.walled
        return "write" if self.turn.access == "read" and (inside or runs) else "full"

    def _fail(self, error: Record) -> None:
        data = table(error.get("data"))
        name = str(error.get("name") or error.get("_tag") or "error")
        message = self.causes.get(str(data.get("ref"))) or str(data.get("message") or name)
        self.fail(f"error: {name}", _kind_of_error(name, data.get("statusCode"), message), message)

    def _wrong_agent(self, why: str) -> None:
        self.fail("another agent", "denied", f"opencode does not keep access {self.turn.access}: {_plain(why)}")


def _tokens_of(tokens: Any) -> dict[str, int]:
    """opencode counts cached input and reasoning apart; elsewhere they are parts of input and output."""
    if not isinstance(tokens, dict) or number(tokens.get("output")) is None:
        return {}
    cache = table(tokens.get("cache"))
    read, reasoning = number(cache.get("read")) or 0, number(tokens.get("reasoning")) or 0
    return {
        "input_tokens": (number(tokens.get("input")) or 0) + read + (number(cache.get("write")) or 0),
        "output_tokens": (number(tokens.get("output")) or 0) + reasoning,
        "cached_tokens": read,
        "reasoning_tokens": reasoning,
    }


def _files_of(name: str, input: Any, meta: Record) -> tuple[FileChange, ...]:
    if isinstance(meta.get("files"), list):
        kinds: dict[str, Any] = {"add": "add", "delete": "delete", "move": "move"}
        changed = [f for f in tables(meta["files"]) if isinstance(f.get("filePath"), str)]
        return tuple(FileChange(path=f["filePath"], change=kinds.get(text(f.get("type")), "update")) for f in changed)
    path = table(input).get("filePath")
    if name in EDITS and isinstance(path, str):
        return (FileChange(path=path, change="add" if meta.get("exists") is False else "update"),)
    return ()


def _duration_of(time: Record) -> int | None:
    start, end = time.get("start"), time.get("end")
    return end - start if isinstance(start, int) and isinstance(end, int) else None


def _plan_of(name: str, input: Any) -> list[AnyEvent]:
    todos = table(input).get("todos")
    if name != "todowrite" or not isinstance(todos, list):
        return []
    states: dict[str, Any] = {"in_progress": "active", "completed": "done", "cancelled": "done"}
    steps = (
        PlanStep(text=str(t.get("content", "")), status=states.get(text(t.get("status")), "pending"))
        for t in tables(todos)
    )
    return [Plan(steps=tuple(steps))]


def _kind_of_error(name: str, status: Any, message: str) -> ErrorKind:
    if name == "ProviderAuthError":
        return "unauthenticated"
    if name in ("BadRequest", "ContextOverflowError") or "ModelNotFound" in message:
        return "bad_request"
    return kind_of(number(status), message)


def _limited(message: str) -> Limited:
    kind = kind_of(None, message)
    return Limited(error=limited_by(kind), message=message.removeprefix("AI_APICallError: "))


def _fields_of(line: str) -> dict[str, str]:
    """The fields of a line of opencode's log: `key=value key="quoted value"`."""
    if not line.startswith("timestamp="):
        return {}
    return {key: value[1:-1] if value[:1] == '"' else value for key, value in FIELD.findall(line)}


def _plain(said: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", said).strip()
