"""What `copilot --output-format=json` prints, as events."""

from typing import Any, get_args

from ostler.access import Access
from ostler.agents.failures import kind_of, limited_by
from ostler.agents.paths import may_be_inside
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
    LimitedBy,
    Notice,
    Problem,
    Raw,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
)

EDITS = ("create", "edit", "apply_patch", "str_replace_editor")
# Short of `full` only these are offered. A user may have approved an MCP server's tools once and for all;
# no rule of ours can name them, but a tool that is not offered cannot be called, by a subagent neither.
OFFERED = (
    *("view", "grep", "rg", "glob", *EDITS, "bash", "skill", "sql", "update_todo", "web_fetch"),
    *("fetch_copilot_cli_documentation", "task", "read_agent", "list_agents"),
)
# Killed (SIGKILL) before one of these, copilot knows nothing of the conversation; after, it resumes it.
SAVED = ("assistant.message_start", "assistant.message", "tool.execution_start")
KINDS: dict[str, ErrorKind] = {"rate_limit": "limited", "quota": "limited", "authentication": "unauthenticated"}
# What tells nothing that another record does not tell too.
KNOWN = frozenset(
    """
    user.message system.message assistant.turn_start assistant.turn_end assistant.turn_retry assistant.idle
    assistant.message_start assistant.tool_call_delta assistant.streaming_delta assistant.intent assistant.usage
    model.call_start model.call_finished model.call_final_result model.call_failure
    tool.shell_output tool.execution_partial_result tool.execution_progress tool.user_requested tool_search.activated
    session.start session.resume session.shutdown session.idle session.skills_loaded session.mcp_servers_loaded
    session.mcp_server_status_changed session.mcp_server_tools_loaded session.custom_agents_updated
    session.extensions_loaded session.tools_updated session.background_tasks_changed session.todos_changed
    session.title_changed session.plan_changed session.mode_changed session.model_change session.context_changed
    session.usage_info session.usage_record session.usage_checkpoint session.workspace_file_changed
    session.compaction_start session.compaction_complete session.permissions_changed session.quota_observation
    session.completion_receipt session.memory_changed session.managed_settings_resolved session.indexed_search
    permission.requested permission.completed hook.start hook.end hook.progress skill.invoked skill.context_delivered
    subagent.started subagent.configured subagent.selected subagent.deselected subagent.completed subagent.failed
    system.notification commands.changed capabilities.changed pending_messages.modified prompt_cache_break
    sandbox.decision abort agent.interrupted
    """.split()  # noqa: SIM905
)


class CopilotReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.begun = False
        self.last_error: Problem | None = None
        self.deltas: dict[str, str] = {}

    def read(self, record: Record) -> list[AnyEvent]:
        data = table(record.get("data"))
        kind = text(record.get("type"))
        if kind == "result":
            return self._result(record)
        events = self._begin(kind, data)
        if "agentId" in record and kind in ("assistant.message_delta", "assistant.reasoning_delta"):
            return events  # a subagent's: its whole message follows
        return [*events, *self._read(kind, data, record)]

    def _read(self, kind: str, data: Record, record: Record) -> list[AnyEvent]:
        match kind:
            case "assistant.message_delta":
                return self._delta(text(data.get("messageId")), text(data.get("deltaContent")))
            case "assistant.message":
                return self._message(data, "agentId" in record)
            case "assistant.reasoning_delta":
                return [ThoughtDelta(text=text(data.get("deltaContent")), id=text(data.get("reasoningId")))]
            case "assistant.reasoning":
                return [Thought(text=text(data.get("content")), id=text(data.get("reasoningId")))]
            case "tool.execution_start":
                return [self._tool_started(data)]
            case "tool.execution_complete":
                return [self._tool_ended(data)]
            case "model.call_failure":
                return _limited(data)
            case "session.error":
                self.last_error = _problem_of(data)
                return []
            case "session.warning":
                return [Notice(text=text(data.get("message")), code=text(data.get("warningType")))]
            case "session.info":
                return []  # files that were made, tools that were left out
            case _ if kind in KNOWN:
                return []
            case _:
                return [Raw(record=record)]

    def flush(self) -> list[AnyEvent]:
        whole = [self.whole(said, id) for id, said in self.deltas.items() if said]
        self.deltas.clear()
        return [*whole, *super().flush()]

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        if "No session" in stderr_tail and "matched" in stderr_tail:
            return Problem(kind="not_found", message=f"copilot has no conversation {self.turn.agent_session}")
        return self.last_error or super().no_result(exit, stderr_tail)

    def _begin(self, kind: str, data: Record) -> list[AnyEvent]:
        """Started when it speaks, and again once a conversation with a chosen id is sure to be on disk."""
        self.model = text(data.get("model")) or self.model
        speaks, saved = kind == "session.tools_updated", kind in SAVED
        if self.agent_session is None and self.turn.agent_session and (saved or (speaks and self.turn.resume)):
            self.agent_session = self.turn.agent_session
        elif self.begun or not (speaks or saved):
            return []
        self.begun = True
        return [self.started()]

    def _delta(self, id: str, said: str) -> list[AnyEvent]:
        self.deltas[id] = self.deltas.get(id, "") + said
        return [TextDelta(text=said, id=id)]

    def _message(self, data: Record, of_subagent: bool) -> list[AnyEvent]:
        id, said = text(data.get("messageId")), text(data.get("content"))
        if of_subagent:
            return [Text(text=said, id=id, quiet=True)] if said else []
        self.steps = (self.steps or 0) + 1
        self.deltas.pop(id, None)
        self.last_error = None
        return [self.whole(said, id)] if said else []

    def _tool_started(self, data: Record) -> ToolStarted:
        name, input = text(data.get("toolName")), data.get("arguments")
        id, parent = text(data.get("toolCallId")), text(data.get("parentToolCallId"))
        title = title_of(name, input) or text(data.get("toolTitle"))
        return self.tool_started(ToolStarted(id=id, name=name, title=title, input=input, parent=parent))

    def _tool_ended(self, data: Record) -> ToolEnded:
        id = text(data.get("toolCallId"))
        started = self.open_tools.get(id) or ToolStarted(id=id, name="")
        error, result = table(data.get("error")), table(data.get("result"))
        details, code = text(result.get("detailedContent")), table(data.get("shellExecution")).get("exitCode")
        wrong = text(error.get("message"))
        denied = error.get("code") == "denied" or self._taken_away(started.name, wrong)
        if denied:
            access = self._remedy(started)
            self.denied.append(Denial(tool=started.name, target=started.title, access=access, reason=wrong))
        return self.tool_ended(
            ToolEnded(
                id=id,
                ok=data.get("success") is True and code in (None, 0),
                output=wrong or text(result.get("content")),
                diff=details.lstrip("\n") if data.get("fileEdits") and "diff --git" in details else "",
                files=_files_of(data.get("fileEdits")),
                exit_code=code if isinstance(code, int) else None,
                denied=denied,
            )
        )

    def _taken_away(self, name: str, error: str) -> bool:
        return self.turn.access != "full" and name not in OFFERED and error.endswith("does not exist.")

    def _remedy(self, tool: ToolStarted) -> Access | None:
        if self.turn.access == "full":
            return None
        inside = tool.name in EDITS and may_be_inside(tool.title, self.turn.folder)
        runs = self.turn.walled and tool.name == "bash"
        return "write" if self.turn.access == "read" and (inside or runs) else "full"

    def _result(self, record: Record) -> list[AnyEvent]:
        self.agent_session = text(record.get("sessionId")) or self.agent_session
        code = record.get("exitCode")
        if code == 0 and self.last_error is None:
            self.succeed("result: exitCode 0")
            return []
        error = self.last_error or Problem(kind="crashed", message=f"copilot ended its turn with exit code {code}")
        self.fail(f"result: exitCode {code}", error.kind, error.message, error.hint)
        return []


def _limited(data: Record) -> list[AnyEvent]:
    attempt, message = number(data.get("retryAttempt")), text(data.get("errorMessage"))
    kind = kind_of(number(data.get("statusCode")), message)
    if kind == "crashed":
        kind = "overloaded"  # no status: the server was not reached
    if kind not in get_args(LimitedBy):
        return []
    return [Limited(error=limited_by(kind), message=message, attempt=None if attempt is None else attempt + 1)]


def _problem_of(data: Record) -> Problem:
    status, type, message = number(data.get("statusCode")), text(data.get("errorType")), text(data.get("message"))
    kind = kind_of(status, message)
    if status is None:
        kind = "bad_request" if "prompt budget" in message else KINDS.get(type, kind)
    return Problem(kind=kind, message=message or type, hint=text(data.get("remediation")))


def _files_of(edits: Any) -> tuple[FileChange, ...]:
    kinds: dict[str, Any] = {"create": "add", "delete": "delete", "rename": "move"}
    found = ((text(edit.get("path")), text(edit.get("kind"))) for edit in tables(edits))
    return tuple(FileChange(path=path, change=kinds.get(kind, "update")) for path, kind in found)
