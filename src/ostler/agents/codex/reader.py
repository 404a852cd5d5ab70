"""What `codex exec --json` prints, as events: its records on stdout, and of its log on stderr what was refused."""

import json
import re
import shlex
from typing import Any, Literal

from ostler.access import Access
from ostler.agents.failures import kind_of, limited_by
from ostler.agents.reader import Reader
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, number, table, tables, text
from ostler.errors import ErrorKind
from ostler.model import (
    AnyEvent,
    Denial,
    Exit,
    FileChange,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Thought,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
)

WIDER: dict[Access, Access | None] = {"read": "write", "write": "full", "full": None}
CHANGES: dict[str, Literal["add", "delete"]] = {"add": "add", "delete": "delete"}

READ_ONLY = "Read-only file system"
NO_SANDBOX = "codex could not start its sandbox, so no command ran"
NEEDS = "Its sandbox needs bubblewrap (apt install bubblewrap) and the right to create user namespaces"
BROKEN = re.compile(r"(?:\A|^Output:\n)(bwrap: .*)", re.M)  # what a command's output begins with that never ran


class CodexReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.cumulative = True
        self.last_error = ""
        self.plan: Plan | None = None
        self.logged = ""  # the record of the log that is being read
        self.refused_calls: set[str] = set()
        self.broken = False  # its sandbox is, and that was told

    def read(self, record: Record) -> list[AnyEvent]:
        match record.get("type"):
            case "thread.started":
                self.agent_session = text(record.get("thread_id")) or None
                return [self.started()]
            case "turn.started":
                return []
            case "item.started" | "item.updated" | "item.completed" as phase if isinstance(record.get("item"), dict):
                return self._item(record, phase, record["item"])
            case "error":
                return [self._error_record(text(record.get("message")))]
            case "turn.completed":
                self.usage = usage_of(table(record.get("usage")))
                self.succeed("turn.completed")
                return []
            case "turn.failed":
                self._failed(record.get("error"))
                return []
        return [Raw(record=record)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """A command or patch that the sandbox refused stands in codex's log alone; a record may have several lines."""
        if line.startswith("warning: "):
            return [Notice(text=line.removeprefix("warning: "), code="warning")]
        events = self._logged() if re.match(STAMP, line) else []
        if found := OUTCOME.match(line):
            self.refused_calls.add(found[1])
            return events
        if re.match(STAMP, line):
            self.logged = line
        elif self.logged and len(self.logged) < 1 << 20:
            self.logged += "\n" + line
        return [*events, *(self._logged() if " mcp_server=" in line else [])]

    def flush(self) -> list[AnyEvent]:
        return [*self._logged(), *super().flush()]

    def _logged(self) -> list[AnyEvent]:
        """What the record of the log that is now whole tells."""
        found, self.logged = RESULT.match(self.logged), ""
        return self._logged_call(*found.groups()) if found else []

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        if self.last_error and exit is not None and exit.signal is None:
            return Problem(kind=kind_of_message(self.last_error), message=words_of(self.last_error))
        said = _without_log(stderr_tail)
        for pattern, kind, hint in ENDINGS:
            if found := re.search(f"^.*(?:{pattern}).*$", said, re.M):
                return Problem(kind=kind, message=found[0].strip()[:500], hint=hint)
        return super().no_result(exit, said)

    # -- items

    def _item(self, record: Record, phase: str, item: Record) -> list[AnyEvent]:
        said, id = text(item.get("text")), text(item.get("id"))
        match item.get("type"):
            case "agent_message":
                return [self.whole(said, id)] if phase == "item.completed" else []
            case "reasoning":
                return [Thought(text=said, id=id)] if phase == "item.completed" else []
            case "error":  # only ever a warning: unknown model, untrusted hooks
                return [Notice(text=text(item.get("message")), code="warning")]
            case "todo_list":
                return self._todo(item)
        if (tool := _tool_of(item)) is None:
            return [Raw(record=record)]
        events: list[AnyEvent] = []
        if tool.id not in self.open_tools and phase != "item.updated":
            events.append(self.tool_started(tool))
        if phase == "item.completed":
            events += self._tool_completed(item, tool)
        return events

    def _tool_completed(self, item: Record, tool: ToolStarted) -> list[AnyEvent]:
        code = item.get("exit_code")
        ok = item.get("status") == "completed" and code in (0, None)
        output = _output_of(item)
        refused = "" if ok else self._refusal(item, output)
        code = code if isinstance(code, int) else None
        ended = ToolEnded(id=tool.id, ok=ok, output=output, files=tool.files, exit_code=code, denied=bool(refused))
        events: list[AnyEvent] = [self.tool_ended(ended)]
        if refused:
            access = self._remedy(item, refused)
            self.denied.append(Denial(tool=tool.name, target=tool.title, access=access, reason=refused))
        if not ok and (broken := BROKEN.search(output)):
            events += self._no_sandbox(broken[1])
        elif item.get("type") == "mcp_tool_call" and ok and self.turn.access != "full":
            events.append(Notice(text=f"{tool.name} ran unconfined, as every MCP server does", code="unconfined"))
        return events

    def _refusal(self, item: Record, output: str) -> str:
        """Why a failed item was refused, or "". A command that the sandbox stopped late has an item after all."""
        if item.get("status") == "declined" or "requires approval" in _message_of(item.get("error")):
            return output
        stopped = self.turn.access != "full" and item.get("type") == "command_execution" and READ_ONLY in output
        return READ_ONLY if stopped else ""

    def _remedy(self, item: Record, reason: str) -> Access | None:
        return WIDER[self.turn.access]

    def _no_sandbox(self, why: str) -> list[AnyEvent]:
        """A sandbox that cannot start refuses nothing: no wider access is the remedy."""
        first, self.broken = not self.broken, True
        return [Notice(text=f"{NO_SANDBOX}: {why.strip()}. {NEEDS}", code="no_sandbox")] if first else []

    def _todo(self, item: Record) -> list[AnyEvent]:
        todo = [(text(s.get("text")), s.get("completed")) for s in tables(item.get("items"))]
        plan = Plan(steps=tuple(PlanStep(text=step, status="done" if done else "pending") for step, done in todo))
        if plan == self.plan:
            return []
        self.plan = plan
        return [plan]

    # -- failures

    def _logged_call(self, id: str, arguments: str, said: str) -> list[AnyEvent]:
        escalated = said.startswith("approval policy is Never")  # the model asked to leave the sandbox
        name, target = _call_of(arguments)
        started = ToolStarted(id=id, name=name, title=target[:200])
        if id in self.refused_calls and (broken := BROKEN.search(said)):
            return [started, ToolEnded(id=id, ok=False, output=broken[1]), *self._no_sandbox(broken[1])]
        if id in self.refused_calls:
            reason = "the sandbox refused it"
        elif escalated or said.startswith("patch rejected"):
            reason = said.partition(" mcp_server=")[0]
        else:
            return []
        access = "full" if escalated else WIDER[self.turn.access]
        self.denied.append(Denial(tool=name, target=target, access=access, reason=reason))
        return [started, ToolEnded(id=id, ok=False, output=reason, denied=True)]

    def _error_record(self, message: str) -> AnyEvent:
        """`Reconnecting... 2/5 (…)` is a retry; anything else is repeated by `turn.failed`."""
        if not message.startswith("Reconnecting"):
            self.last_error = message
            return Notice(text=words_of(message), code="error", quiet=True)
        attempt = re.search(r"(\d+)/\d+", message)
        kind = kind_of_message(message.partition("(")[2])
        return Limited(
            error=limited_by(kind),
            message=message,
            attempt=int(attempt[1]) if attempt else None,
        )

    def _failed(self, error: Any) -> None:
        whole = _message_of(error) or self.last_error
        message, kind = words_of(whole), kind_of_message(whole)
        self.fail("turn.failed", kind, message, "Log in: codex login" if kind == "unauthenticated" else "")


# -- what records say -------------------------------------------------------------------------------


def _tool_of(item: Record) -> ToolStarted | None:
    """The tool call that an item is about, or None where it is no tool that we know."""
    id, category = text(item.get("id")), ""
    match item.get("type"):
        case "command_execution":
            input: Any = {"command": text(item.get("command"))}
            return ToolStarted(id=id, name="command_execution", title=_typed(input["command"]), input=input)
        case "file_change":
            changes = [(text(c.get("path")), text(c.get("kind"))) for c in tables(item.get("changes"))]
            files = tuple(FileChange(path=path, change=CHANGES.get(kind, "update")) for path, kind in changes)
            return ToolStarted(id=id, name="file_change", title=", ".join(f.path for f in files)[:200], files=files)
        case "mcp_tool_call":
            name, input = f"{text(item.get('server'))}.{text(item.get('tool'))}", item.get("arguments")
            category = "mcp"
        case "collab_tool_call":
            name, input = text(item.get("tool")) or "agent", {"prompt": item.get("prompt")}
            category = "agent"
        case "web_search":
            name, input = "web_search", {"query": item.get("query")}
        case _:
            return None
    return ToolStarted(id=id, name=name, category=category, title=title_of(name, input), input=input)


def _typed(command: str) -> str:
    return title_of("", {"command": script_of(command)})


def script_of(command: str) -> str:
    """`/bin/bash -lc 'touch x'` as people would type it."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else command


def _output_of(item: Record) -> str:
    if item.get("type") == "command_execution":
        return text(item.get("aggregated_output"))
    said = [text(c.get("text")) for c in tables(table(item.get("result")).get("content"))]
    return "\n".join(part for part in said if part) or _message_of(item.get("error"))


def usage_of(counts: Record) -> Usage:
    return Usage(
        input_tokens=number(counts.get("input_tokens")),
        output_tokens=number(counts.get("output_tokens")),
        cached_tokens=number(counts.get("cached_input_tokens")),
        reasoning_tokens=number(counts.get("reasoning_output_tokens")),
    )


ENDINGS: tuple[tuple[str, ErrorKind, str], ...] = (
    ("no rollout found|Session not found|invalid session id", "not_found", "Start a new session"),
    ("Input exceeds the maximum length", "bad_request", ""),
    ("Error loading config|failed to load configuration", "bad_request", "Fix ~/.codex/config.toml"),
    ("output schema", "bad_request", ""),
    (r"\bbwrap: ", "missing", NEEDS),
)


def kind_of_message(said: str) -> ErrorKind:
    kind = kind_of(None, said)
    broken = kind == "crashed" and re.search(r"disconnected|connection|network|timed? ?out", said, re.I)
    return "overloaded" if broken else kind


def _message_of(error: Any) -> str:
    return text(error) or text(table(error).get("message"))


def words_of(said: str) -> str:
    """The words inside a model server's JSON error body, which codex passes on whole."""
    try:
        return _message_of(table(json.loads(said)).get("error")) or said
    except (ValueError, RecursionError):
        return said


# -- the log on stderr ------------------------------------------------------------------------------

# The first of each name counts, once and for all (`(?>…)`): a command or its output may be full of such names.
OUTCOME = re.compile(r'(?>.*?event\.name="codex\.sandbox_outcome" )(?>.*?call_id=)(\S+) outcome=denied')
RESULT = re.compile(
    r'(?>.*?event\.name="codex\.tool_result" )(?>.*?call_id=)(\S+) (?>.*? arguments=)'
    r"(\{.*?\}|.*\*\*\* End Patch\s*) output=(.*)",
    re.S,
)
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
STAMP = r"^\d{4}-\d\d-\d\dT\S+Z +[A-Z]+ "
LOGGED = re.compile(rf"{STAMP}.*?(?={STAMP}|^Error|\Z)", re.M | re.S)


def _call_of(arguments: str) -> tuple[str, str]:
    """The tool, as the records on stdout call it, and its target."""
    if files := PATCHED.findall(arguments.replace("\\n", "\n")):
        return "file_change", ", ".join(files)
    try:
        return "command_execution", title_of("", json.loads(arguments))
    except (ValueError, RecursionError):  # the log cuts long ones
        return "command_execution", arguments[:200]


def _without_log(stderr: str) -> str:
    """What codex said itself: its log holds numbers and outputs that tell nothing of why a turn failed."""
    return LOGGED.sub("", stderr).replace("Reading additional input from stdin...\n", "")
