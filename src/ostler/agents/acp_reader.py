"""What an ACP agent tells during a turn, as events. Lenient: a bad optional field costs that field alone."""

from typing import Any

from ostler.agents.adapter import Reader, Record, kind_of, title_of
from ostler.agents.proposals import unified
from ostler.agents.values import number, table, tables, text
from ostler.words import (
    AnyEvent,
    Exit,
    FileChange,
    Plan,
    PlanStep,
    Problem,
    Raw,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    UsageReport,
)

STATUS: dict[Any, Any] = {"in_progress": "active", "completed": "done"}
# What an agent tells of itself; the dialog keeps it, the journal does not need it.
STATE = frozenset(
    (
        *("available_commands_update", "current_mode_update", "config_option_update", "session_info_update"),
        *("user_message_chunk", "usage_update"),
    )
)
STOPS: dict[str, tuple[Any, str]] = {
    "refusal": ("denied", "the model refused to answer"),
    "max_tokens": ("over_budget", "the answer reached the limit of tokens"),
    "max_turn_requests": ("over_budget", "the turn reached the limit of requests"),
    "cancelled": ("cancelled", "cancelled"),
}


class AcpReader(Reader):
    """Events of `session/update`, and the verdict of a stop reason."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.said: list[str] = []
        self.thought: list[str] = []
        self.calls: dict[str, dict[str, Any]] = {}  # tool calls, each as all its updates make it
        self.worked = False  # something came that only a model can have said

    def read(self, update: Record) -> list[AnyEvent]:
        """Events of one update."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            return self._chunk(update, self.said, TextDelta)
        if kind == "agent_thought_chunk":
            return self._chunk(update, self.thought, ThoughtDelta)
        if kind == "tool_call" or kind == "tool_call_update":
            self.worked = True
            return [*self._owed(), *self._tool(update)]
        if kind == "plan":
            return [self._plan(update)]
        if kind in STATE:
            self.worked = self.worked or kind == "usage_update"
            return []
        return [Raw(record=update)]

    def flush(self) -> list[AnyEvent]:
        return [*self._owed(), *super().flush()]

    def stopped(self, reason: str, result: Record) -> list[AnyEvent]:
        """The answer to the prompt: it ends the turn."""
        events = self._owed()
        self._count(table(result.get("usage")))
        if reason == "end_turn" and (self.worked or self.usage is not None):
            self.succeed("stop reason end_turn")
        elif reason == "end_turn":
            # copilot answers a refused key like this: nothing was said, nothing was done.
            message = f"{self.turn.agent} ended the turn without a word"
            self.fail("empty end_turn", "unproven", message, "Is it logged in? Try `ostler doctor`")
        else:
            kind, message = STOPS.get(reason, ("unproven", f"{self.turn.agent} stopped: {reason or 'no reason'}"))
            self.fail(f"stop reason {reason}", kind, message)
        return [*events, *([UsageReport(usage=self.usage)] if self.usage else [])]

    def refused(self, error: Record) -> list[AnyEvent]:
        """An error instead of an answer."""
        events = self._owed()
        details = table(error.get("data"))
        said = text(details.get("details")) or text(details.get("message")) or text(error.get("message"))
        code = number(error.get("code"))
        kind: Any = {-32000: "unauthenticated", -32002: "not_found", -32800: "cancelled"}.get(code or 0)
        kind = kind or kind_of(number(details.get("code")), f"{text(error.get('message'))} {said}")
        self.fail(f"error {code}", kind, said or "refused", "Log in first" if kind == "unauthenticated" else "")
        return events

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        """A dialog's process ended in the middle of a turn, whatever its exit code."""
        problem = super().no_result(exit, stderr_tail)
        if problem.kind == "unproven":
            return Problem(kind="crashed", message=f"{self.turn.agent} ended in the middle of the turn")
        return problem

    # -- words

    def _chunk(self, update: Record, kept: list[str], delta: type[TextDelta] | type[ThoughtDelta]) -> list[AnyEvent]:
        content = table(update.get("content"))
        piece = text(content.get("text"))
        if content.get("type") != "text":
            return [Raw(record=update)]
        if not piece:
            return []
        self.worked = True
        events: list[AnyEvent] = []
        if kept is self.said and self.thought:
            events = self._owed()
        kept.append(piece)
        return [*events, delta(text=piece)]

    def _owed(self) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        if self.thought:
            events.append(Thought(text="".join(self.thought)))
        if self.said:
            events.append(self.whole("".join(self.said)))
        self.thought, self.said = [], []
        return events

    # -- tools

    def _tool(self, update: Record) -> list[AnyEvent]:
        id = text(update.get("toolCallId"))
        if not id:
            return [Raw(record=update)]
        known = id in self.calls
        call = self.calls.setdefault(id, {})
        call.update({name: value for name, value in update.items() if value is not None})
        events: list[AnyEvent] = []
        if not known:
            events.append(self.tool_started(started_tool(id, call, self.turn.folder)))
        if call.get("status") in ("completed", "failed") and id in self.open_tools:
            events.append(self.tool_ended(self._ended(id, call)))
        return events

    def _ended(self, id: str, call: dict[str, Any]) -> ToolEnded:
        diffs = diffs_of(call, self.turn.folder)
        exit = number(table(table(call.get("rawOutput")).get("metadata")).get("exit"))
        return ToolEnded(
            id=id,
            ok=call.get("status") == "completed" and exit in (None, 0),
            output=output_of(call),
            diff="".join(diff for _, diff in diffs),
            files=tuple(FileChange(path=path) for path, _ in diffs),
            exit_code=exit,
        )

    def _plan(self, update: Record) -> Plan:
        steps = [
            PlanStep(text=text(entry.get("content")), status=STATUS.get(entry.get("status"), "pending"))
            for entry in tables(update.get("entries"))
        ]
        return Plan(steps=tuple(steps))

    def _count(self, usage: Record) -> None:
        """Tokens of this prompt, where the agent tells them; `usage_update` counts the context, not the turn."""
        if number(usage.get("inputTokens")) is None and number(usage.get("outputTokens")) is None:
            return
        self.usage = Usage(
            input_tokens=number(usage.get("inputTokens")),
            output_tokens=number(usage.get("outputTokens")),
            cached_tokens=number(usage.get("cachedReadTokens")),
            reasoning_tokens=number(usage.get("thoughtTokens")),
        )


def started_tool(id: str, call: dict[str, Any], folder: str) -> ToolStarted:
    """A tool call as it begins. Its name is the agent's own where it tells one, else its kind."""
    input = call.get("rawInput")
    name = name_of(call)
    return ToolStarted(
        id=id,
        name=name,
        title=(title_of(name, input) or text(call.get("title")))[:200],
        input=input,
        files=tuple(FileChange(path=path) for path, _ in diffs_of(call, folder)),
    )


def name_of(call: dict[str, Any]) -> str:
    own = text(call.get("name")) or text(table(table(call.get("_meta")).get("claudeCode")).get("toolName"))
    return own or text(call.get("kind")) or "tool"


def diffs_of(call: dict[str, Any], folder: str) -> list[tuple[str, str]]:
    """(path, unified diff) of each diff in the call's content."""
    root = folder.rstrip("/") + "/"
    found = []
    for content in tables(call.get("content")):
        if content.get("type") == "diff" and isinstance(content.get("newText"), str):
            path, old = text(content.get("path")), content.get("oldText")
            found.append(
                (path, unified(path.removeprefix(root), old if isinstance(old, str) else None, content["newText"]))
            )
    return found


def output_of(call: dict[str, Any]) -> str:
    said = [
        text(table(content.get("content")).get("text"))
        for content in tables(call.get("content"))
        if content.get("type") == "content"
    ]
    whole = "\n".join(part for part in said if part)
    raw = call.get("rawOutput")
    return whole or text(raw) or text(table(raw).get("output"))
