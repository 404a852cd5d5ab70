"""Parts of copilot's records as ostler's words, and its conversations. Pure functions, one per part."""

from collections.abc import Sequence
from typing import Any

from ostler.agents.adapter import Conversation, Record, kind_of
from ostler.errors import ErrorKind
from ostler.words import AnyEvent, FileChange, Limited, Problem

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


def problem(data: Record) -> Problem:
    status, type, message = data.get("statusCode"), string(data, "errorType"), string(data, "message")
    kind: ErrorKind = kind_of(status if isinstance(status, int) else None, message)
    if not isinstance(status, int):
        kind = {"rate_limit": "limited", "quota": "limited", "authentication": "unauthenticated"}.get(type, kind)  # type: ignore[assignment]
        if "prompt budget" in message:
            kind = "bad_request"
    return Problem(kind=kind, message=message or type, hint=string(data, "remediation"))


def limited(data: Record) -> list[AnyEvent]:
    status, message = data.get("statusCode"), string(data, "errorMessage")
    kind = kind_of(status if isinstance(status, int) else None, message)
    attempt = data.get("retryAttempt")
    if kind == "crashed":
        kind = "overloaded"  # no status: the server was not reached
    if kind not in ("limited", "overloaded", "unauthenticated"):
        return []
    return [Limited(error=kind, message=message, attempt=attempt + 1 if isinstance(attempt, int) else None)]


def files(edits: Any) -> tuple[FileChange, ...]:
    kinds: dict[Any, Any] = {"create": "add", "delete": "delete", "rename": "move"}
    found = [e for e in edits if isinstance(e, dict)] if isinstance(edits, list) else []
    return tuple(FileChange(path=string(e, "path"), change=kinds.get(e.get("kind"), "update")) for e in found)


def string(data: Record, key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def inner(data: Record, key: str) -> Record:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


# -- adoption ---------------------------------------------------------------------------------------


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A conversation from the head of its events file; one without a prompt is none."""
    start = next((inner(r, "data") for r in records if r.get("type") == "session.start"), {})
    prompt = next((string(inner(r, "data"), "content") for r in records if r.get("type") == "user.message"), "")
    if not prompt.strip() or not string(start, "sessionId"):
        return None
    title = prompt.strip().splitlines()[0][:200]
    return Conversation(id=string(start, "sessionId"), folder=string(inner(start, "context"), "cwd"), title=title)
