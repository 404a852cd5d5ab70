"""What `claude --output-format=stream-json` prints, as events."""

import re
from collections.abc import Sequence
from typing import Any

from ostler.access import Access
from ostler.agents.claude.tasks import CHANGES, Tasks
from ostler.agents.messages import MessagesReader, kind_said
from ostler.agents.values import Record, items, number, table, text
from ostler.errors import ErrorKind
from ostler.model import AnyEvent, Limited, Raw, ToolStarted, Turn, Usage, UsageReport

# An allow-list of built-in tools: it holds against every setting, in subagents too, and a tool that a
# later claude adds stays out. Permission modes alone yield to `permissions.allow` of the user.
# TodoWrite in older ones; Task… since 2.1.3xx. They write claude's own list, and nothing else.
PLANS = ("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet")
READING = ("Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "Task", "Skill", *PLANS)
EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
SHELL = ("Bash",)
# What runs commands without being named Bash; an allow-list of tools leaves it out, this says so twice.
COMMANDS = (*SHELL, "Monitor", "PowerShell")


class ClaudeReader(MessagesReader):
    EDITS = frozenset(EDITS)
    PLANS = frozenset(("TodoWrite",))
    STRUCTURED = "StructuredOutput"
    MISSING = re.compile(r"No such tool available")
    LOGIN = "Run `claude` and type /login, or set ANTHROPIC_API_KEY"

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.tasks = Tasks(turn.plan)

    def _after(self, started: ToolStarted, detail: dict[str, Any], output: str) -> list[AnyEvent]:
        if started.name not in CHANGES or started.parent:
            return []  # a subagent has a list of its own
        return self.tasks.changed(started.name, started.input, detail, output)

    def read(self, record: Record) -> list[AnyEvent]:
        if record.get("type") == "rate_limit_event":
            return _quota(table(record.get("rate_limit_info")))
        return super().read(record)

    def remedy(self, name: str) -> Access | None:
        if self.turn.access == "read" and name in (*EDITS, *COMMANDS):
            return "write"
        known = (*READING, *EDITS, *COMMANDS)
        return "full" if self.turn.access != "full" and (name in known or name.startswith("mcp__")) else None

    def _result(self, record: Record) -> list[AnyEvent]:
        self.steps = number(record.get("num_turns"))
        self._denials(record)
        self._count(record)
        said, events = text(record.get("result")), self._owed()
        evidence = f"result {text(record.get('subtype'))}, {text(record.get('terminal_reason')) or 'no reason'}"
        if record.get("is_error") or record.get("subtype") != "success":
            self._failed(record, evidence, said)
        elif self.steps == 0 and not self.turn.command:
            self.fail(evidence + ", num_turns 0", "unproven", f"claude did not call the model: {said[:300]}")
        else:
            events += self._answer(said)
            self.structured = record.get("structured_output", self.structured)
            self.agent_session = self.agent_session or text(record.get("session_id")) or None
            self.succeed(evidence)
        return [*events, *([UsageReport(usage=self.usage, cost_usd=self.cost_usd)] if self.usage else [])]

    def _failed(self, record: Record, evidence: str, said: str) -> None:
        reason, subtype = text(record.get("terminal_reason")), text(record.get("subtype"))
        message = said or "; ".join(text(e) for e in items(record.get("errors"))) or reason or subtype
        kind: ErrorKind
        if reason.startswith("aborted"):
            kind, message = "cancelled", "claude was interrupted"
        elif subtype in ("error_max_turns", "error_max_budget_usd"):
            kind = "over_budget"
        elif subtype == "error_max_structured_output_retries":
            kind = "invalid_output"
        else:
            kind = kind_said(record.get("api_error_status"), message)
        self.fail(evidence, kind, message, self.hint(kind))

    def _count(self, record: Record) -> None:
        """Adds what was used since the result before; older claudes only say it for the whole conversation."""
        since = record.get("model_usage_since_last_result")
        models = [m for m in table(since).values() if isinstance(m, dict)]
        if since is None:
            models = [m for m in table(record.get("modelUsage")).values() if isinstance(m, dict)]
            self.usage, self.cost_usd, self.cumulative = None, None, bool(models)
        if not models:
            return
        before = self.usage or Usage(input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0)
        cached = _sum(models, "cacheReadInputTokens")
        read = _sum(models, "inputTokens") + cached + _sum(models, "cacheCreationInputTokens")
        self.usage = Usage(
            input_tokens=(before.input_tokens or 0) + read,
            output_tokens=(before.output_tokens or 0) + _sum(models, "outputTokens"),
            cached_tokens=(before.cached_tokens or 0) + cached,
            reasoning_tokens=(before.reasoning_tokens or 0) + _sum(models, "thinkingTokens"),
        )
        costs = [cost for m in models if isinstance(cost := m.get("costUSD"), int | float)]
        if len(costs) == len(models):
            self.cost_usd = (self.cost_usd or 0.0) + sum(costs)


def _sum(models: Sequence[dict[str, Any]], name: str) -> int:
    return sum(number(m.get(name)) or 0 for m in models)


def _quota(info: dict[str, Any]) -> list[AnyEvent]:
    if info.get("status") != "rejected":
        return [] if info else [Raw(record=info)]
    resets = info.get("resetsAt")
    what = text(info.get("rateLimitType")).replace("_", " ") or "usage"
    return [Limited(message=f"{what} limit reached", retry_at=resets if isinstance(resets, int | float) else None)]
