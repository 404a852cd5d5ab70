"""What `codex app-server` tells of a turn, as events: its items are those of `codex exec --json` in other clothes."""

import json
import re
from typing import Any

from msgspec import structs

from ostler.access import Access
from ostler.agents.codex.reader import CodexReader, kind_of_message, usage_of
from ostler.agents.failures import kind_of, limited_by
from ostler.agents.paths import relative_to
from ostler.agents.proposals import unified
from ostler.agents.reader import decode
from ostler.agents.values import Record, number, table, tables, text
from ostler.errors import ErrorKind
from ostler.model import (
    AnyEvent,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Raw,
    TextDelta,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    UsageReport,
)

KINDS = {
    "agentMessage": "agent_message",
    "commandExecution": "command_execution",
    "fileChange": "file_change",
    "mcpToolCall": "mcp_tool_call",
    "collabAgentToolCall": "collab_tool_call",
    "webSearch": "web_search",
}
OURS = frozenset(("userMessage", "hookPrompt"))  # items that repeat what was said to codex
STEPS: dict[Any, Any] = {"inProgress": "active", "completed": "done"}
ERRORS: dict[str, ErrorKind] = {
    "unauthorized": "unauthenticated",
    "usageLimitExceeded": "limited",
    "rateLimitExceeded": "limited",
    "serverOverloaded": "overloaded",
    "internalServerError": "overloaded",
    "contextWindowExceeded": "bad_request",
    "modelNotFound": "bad_request",
    "badRequest": "bad_request",
    "sessionBudgetExceeded": "over_budget",
}
# What codex tells of its state, and of output that comes whole with the item.
STATE = re.compile(
    r"(thread|account|remoteControl|mcpServer|skills|hook|app|fs|project|model|modelProvider|deprecationNotice)\b"
    r"|turn/(started|diff/updated|moderationMetadata)|item/(commandExecution|fileChange|mcpToolCall|plan)/"
    r"|item/(autoApprovalReview|reasoning/summaryPartAdded)|rawResponse"
)


class AppServerReader(CodexReader):
    """Reads the notifications of one turn. The dialog tells it of what it refused and how the turn ended."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.cumulative = False
        self.requests = 0  # to the model
        self.refused: dict[str, tuple[str, Access | None]] = {}  # item → why, and the access that would allow it
        self.unsandboxed: dict[str, str] = {}  # item that could not run → what the sandbox said that did not start
        self._completed: set[str] = set()  # items that were completed
        self._said: dict[str, str] = {}  # message → its deltas
        self._before: dict[str, int] = {}  # the thread's counters when the turn began

    def read(self, record: Record) -> list[AnyEvent]:
        params = table(record.get("params"))
        match record.get("method"):
            case "item/started" | "item/completed" as phase if isinstance(params.get("item"), dict):
                return self._app_item(record, phase.replace("/", "."), params["item"])
            case "item/agentMessage/delta":
                return self._delta(text(params.get("itemId")), text(params.get("delta")))
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                return [ThoughtDelta(text=text(params.get("delta")), id=text(params.get("itemId")))]
            case "turn/plan/updated":
                return self._steps(params)
            case "thread/tokenUsage/updated":
                return self._count(table(params.get("tokenUsage")))
            case "error":
                return self._trouble(table(params.get("error")), params.get("willRetry") is True)
            case "warning" | "configWarning" | "guardianWarning":
                said = text(params.get("message")) or text(params.get("summary"))
                return [Notice(text=said, code="warning")]
            case str(method) if STATE.match(method):
                return []
        return [Raw(record=record)]

    def ended(self, turn: Record) -> list[AnyEvent]:
        """`turn/completed`: how the turn went."""
        events, status = self._owed(), text(turn.get("status"))
        if status == "completed":
            self.succeed("turn/completed")
        elif status == "interrupted":
            self.fail("turn interrupted", "cancelled", "cancelled")
        elif status == "failed":
            self._fail(table(turn.get("error")))
        else:
            self.fail(f"turn {status}", "unproven", f"codex ended the turn as {status or 'nothing'}")
        return events

    def missed(self, lines: str) -> list[AnyEvent]:
        """Refused calls, out of the turn's records in codex's own history: no item tells of them."""
        calls: dict[str, Record] = {}
        outputs: dict[str, str] = {}
        for payload in payloads(lines):
            id, kind = text(payload.get("call_id")), text(payload.get("type"))
            if kind.endswith("_output"):
                outputs[id] = text(payload.get("output")) or json.dumps(payload.get("output"))
            else:
                calls[id] = payload
        events: list[AnyEvent] = []
        for id, call in calls.items():
            if id not in self._completed:
                events += self._missed_call(id, call, outputs.get(id, ""))
        return events

    def flush(self) -> list[AnyEvent]:
        return [*self._owed(), *super().flush()]

    # -- items

    def _app_item(self, record: Record, phase: str, item: Record) -> list[AnyEvent]:
        if text(item.get("type")) in OURS:
            return []
        id = text(item.get("id"))
        if phase == "item.completed":
            self._completed.add(id)
            self._said.pop(id, None)
        if id in self.unsandboxed:
            item = {**item, "status": "failed", "aggregatedOutput": self.unsandboxed[id]}
        events = self._item(record, phase, exec_item(item))
        diff = diff_of(item, self.turn.folder)
        return [structs.replace(e, diff=diff) if diff and isinstance(e, ToolEnded) and e.ok else e for e in events]

    def _refusal(self, item: Record, output: str) -> str:
        if self._declined(item):
            return self.refused.get(text(item.get("id")), ("declined", None))[0]
        return super()._refusal(item, output)

    def _remedy(self, item: Record, reason: str) -> Access | None:
        if self._declined(item):
            return self.refused.get(text(item.get("id")), ("", None))[1]
        return super()._remedy(item, reason)

    def no_sandbox(self, why: str) -> list[AnyEvent]:
        """The notice that its sandbox does not start, unless it was told in this turn."""
        return self._no_sandbox(why)

    def _declined(self, item: Record) -> bool:
        """A tool of an MCP server that was refused has merely failed."""
        refused_tool = item.get("type") == "mcp_tool_call" and text(item.get("id")) in self.refused
        return item.get("status") == "declined" or refused_tool

    def _missed_call(self, id: str, call: Record, output: str) -> list[AnyEvent]:
        patch = call.get("type") == "custom_tool_call"
        if not patch and "cmd" in text(call.get("arguments")) and re.search(r"exited with code|andbox", output):
            self.refused_calls.add(id)  # a command that ran has an item, unless the sandbox stopped it at once
        events = self._logged_call(id, text(call.get("input" if patch else "arguments")), output)
        known = self.open_tools.pop(id, None) is not None
        return [e for e in events if not (known and isinstance(e, ToolStarted))]

    # -- words

    def _delta(self, id: str, piece: str) -> list[AnyEvent]:
        self._said[id] = self._said.get(id, "") + piece
        return [TextDelta(text=piece, id=id)] if piece else []

    def _owed(self) -> list[AnyEvent]:
        """Whole texts of messages that broke off."""
        said, self._said = self._said, {}
        return [self.whole(words, id) for id, words in said.items() if words]

    def _steps(self, params: Record) -> list[AnyEvent]:
        steps = [(text(s.get("step")), STEPS.get(text(s.get("status")), "pending")) for s in tables(params.get("plan"))]
        return [Plan(steps=tuple(PlanStep(text=step, status=status) for step, status in steps))]

    def _count(self, usage: Record) -> list[AnyEvent]:
        """codex counts the whole thread: what stood there before this turn's first request is subtracted."""
        total, last = snake_counts(table(usage.get("total"))), snake_counts(table(usage.get("last")))
        if self.requests == 0:
            self._before = {name: count - last.get(name, 0) for name, count in total.items()}
        self.requests += 1
        self.usage = usage_of({name: count - self._before.get(name, 0) for name, count in total.items()})
        return [UsageReport(usage=self.usage)]

    # -- failures

    def _trouble(self, error: Record, retries: bool) -> list[AnyEvent]:
        if not retries:
            return [*self._owed(), self._error_record(text(error.get("message")))]
        return [*self._owed(), retry_of(error)]

    def _fail(self, error: Record) -> None:
        self._failed(error)
        if self.problem is not None:
            kind = error_kind(error, self.problem.message)
            hint = "Log in: codex login" if kind == "unauthenticated" else ""
            self.problem = structs.replace(self.problem, kind=kind, hint=hint)


# -- what records say -------------------------------------------------------------------------------


def exec_item(item: Record) -> Record:
    """An item as `codex exec --json` would write it."""
    kind = text(item.get("type"))
    words = "\n\n".join(s for s in (*_strings(item.get("summary")), *_strings(item.get("content"))) if s)
    return {
        **item,
        "type": KINDS.get(kind, kind),
        "text": words if kind == "reasoning" else item.get("text"),
        "aggregated_output": item.get("aggregatedOutput"),
        "exit_code": item.get("exitCode"),
        "changes": [{"path": path, "kind": change} for path, change in changed(item)],
    }


def changed(item: Record) -> list[tuple[str, str]]:
    """(path, add | update | delete) of a patch; a move is both ends of it."""
    found: list[tuple[str, str]] = []
    for change in tables(item.get("changes")):
        kind, path = table(change.get("kind")), text(change.get("path"))
        if target := text(kind.get("move_path")):
            found += [(path, "delete"), (target, "add")]
        else:
            found.append((path, text(kind.get("type"))))
    return found


def diff_of(item: Record, folder: str) -> str:
    """The unified diff of a patch; codex gives the hunks of an update, and the bare text of a new or a gone file."""
    diffs = []
    for change in tables(item.get("changes")):
        kind, hunks = table(change.get("kind")), text(change.get("diff"))
        path = relative_to(text(change.get("path")), folder)
        target = relative_to(text(kind.get("move_path")), folder) or path
        if kind.get("type") == "add":
            diffs.append(unified(path, None, hunks))
        elif kind.get("type") == "delete":
            diffs.append(unified(path, hunks, "").replace(f"+++ b/{path}", "+++ /dev/null", 1))
        else:
            hunks = hunks.partition("\n\nMoved to: ")[0].rstrip("\n")
            diffs.append(f"--- a/{path}\n+++ b/{target}\n{hunks}\n")
    return "".join(diffs)


def payloads(lines: str) -> list[Record]:
    """The response items among lines of codex's history."""
    records = [table(decode(line.encode())) for line in lines.splitlines()]
    return [table(r.get("payload")) for r in records if r.get("type") == "response_item"]


def snake_counts(counts: Record) -> dict[str, int]:
    named = ((re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), name), number(n)) for name, n in counts.items())
    return {name: count for name, count in named if count is not None}


def retry_of(error: Record) -> Limited:
    """An error after which codex tries again."""
    said, details = text(error.get("message")), text(error.get("additionalDetails"))
    kind = error_kind(error, details or said)
    attempt = re.search(r"(\d+)/\d+", said)
    return Limited(
        error=limited_by(kind),
        message=f"{said} ({details})" if details else said,
        attempt=int(attempt[1]) if attempt else None,
    )


def error_kind(error: Record, said: str) -> ErrorKind:
    """By the status or the word that codex gives, else by what it says."""
    info = error.get("codexErrorInfo")
    for details in table(info).values():
        if (status := number(table(details).get("httpStatusCode"))) is not None:
            return kind_of(status, said)
    return ERRORS.get(text(info)) or kind_of_message(said)


def _strings(value: Any) -> list[str]:
    return [text(part) for part in value] if isinstance(value, list) else []
