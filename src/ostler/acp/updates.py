"""ostler's events as ACP session updates. Pure: one `UpdateTranslator` for each turn, live or from the journal."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ostler.acp.hunks import diffs_of
from ostler.acp.kinds import kind_of, locations_of
from ostler.agents.proposals import proposed
from ostler.agents.tool_input import title_of
from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    Ended,
    Limited,
    Notice,
    Plan,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
)

SessionUpdate = dict[str, Any]
OUTPUT = 128 * 1024  # characters of a tool's output that a client is told
_STATUS = {"pending": "pending", "active": "in_progress", "done": "completed"}


class UpdateContext(Struct, frozen=True, kw_only=True):
    """What the translation depends on: the session, and what the client can show."""

    folder: str
    terminals: bool = False  # it shows output told in `_meta.terminal_*`
    notices: bool = False
    cost_usd: float | None = None  # of the turns before


class _Call(Struct):
    """A tool call as the client knows it."""

    id: str
    kind: str
    input: Any
    diffs: list[SessionUpdate]
    open: bool = True
    ask: str = ""  # made by this ask, and no tool has come of it yet


class UpdateTranslator:
    """The updates of one turn. Ids are told with the turn's: agents may count anew in each."""

    def __init__(self, look: UpdateContext, turn: str) -> None:
        self.look = look
        self._prefix = turn.rpartition("-")[2]
        self._calls: dict[str, _Call] = {}  # by the agent's id, or by `ask:…`
        self._asks: dict[str, str] = {}  # ask → key of its call
        self._streamed: dict[tuple[str, str], list[str]] = {}
        self._messages: dict[tuple[str, str], str] = {}  # (chunk, id) → message id
        self._count = 0

    def of(self, event: AnyEvent) -> list[SessionUpdate]:
        match event:
            case TextDelta():
                return self._delta("agent_message_chunk", event.id, event.text)
            case ThoughtDelta():
                return self._delta("agent_thought_chunk", event.id, event.text)
            case Text():
                return self._whole("agent_message_chunk", event.id, event.text)
            case Thought():
                return self._whole("agent_thought_chunk", event.id, event.text)
            case ToolStarted():
                return [self._started(event)]
            case ToolEnded():
                return self._ended(event)
            case Asked():
                return self._asked(event)
            case Answered():
                return self._answered(event)
            case Plan():
                return [_plan(event)]
            case UsageReport():
                return self._usage(event)
            case Notice() | Limited() if self.look.notices and not event.quiet:
                return _notice(event)
            case Ended():
                return self._left_over()
        return []

    def permission(self, asked: Asked) -> dict[str, Any]:
        """The params of `session/request_permission`, but for the session; after `of(asked)`."""
        call = self._calls[self._asks[asked.id]]
        diffs = diffs_of(asked.diff, self.look.folder) or call.diffs
        reason = [_text(asked.reason)] if asked.reason else []
        tool = {
            "toolCallId": call.id,
            "title": asked.title or title_of(asked.tool, asked.input) or asked.tool,
            "kind": call.kind,
            "status": "pending",
            "content": [*diffs, *reason],
            "locations": locations_of(asked.input, asked.files, self.look.folder),
            **_raw_input(asked.input),
        }
        options = [{"optionId": option.id, "name": option.name, "kind": option.kind} for option in asked.options]
        return {"toolCall": tool, "options": options}

    # -- words

    def _delta(self, chunk: str, id: str, text: str) -> list[SessionUpdate]:
        if not text:
            return []
        self._streamed.setdefault((chunk, id), []).append(text)
        return [self._chunk(chunk, id, text)]

    def _whole(self, chunk: str, id: str, text: str) -> list[SessionUpdate]:
        """What its deltas have not told yet: all of it where there were none."""
        streamed = "".join(self._streamed.pop((chunk, id), ()))
        rest = text.removeprefix(streamed) if text.startswith(streamed) else ""
        updates = [self._chunk(chunk, id, rest)] if rest else []
        self._messages.pop((chunk, id), None)
        return updates

    def _chunk(self, chunk: str, id: str, text: str) -> SessionUpdate:
        key = (chunk, id)
        if key not in self._messages:
            self._count += 1
            self._messages[key] = f"{self._prefix}.{self._count}"
        content = {"type": "text", "text": text}
        return {"sessionUpdate": chunk, "content": content, "messageId": self._messages[key]}

    # -- tools

    def _started(self, event: ToolStarted) -> SessionUpdate:
        if event.id in self._calls:
            return {"sessionUpdate": "tool_call_update", **self._call_fields(event, self._calls[event.id])}
        call = self._of_an_ask(event)
        if call is not None:
            self._calls[event.id] = call
            return {"sessionUpdate": "tool_call_update", **self._call_fields(event, call)}
        call = self._calls[event.id] = self._new_call(event.id, kind_of(event.name, event.category), event.input)
        return {"sessionUpdate": "tool_call", **self._call_fields(event, call)}

    def _call_fields(self, event: ToolStarted, call: _Call) -> dict[str, Any]:
        shown = self.look.terminals and call.kind == "execute"
        meta: dict[str, Any] = {}
        if event.parent:
            meta["ostler"] = {"parent": f"{self._prefix}.{event.parent}"}
        if shown:
            meta["terminal_info"] = {"terminal_id": call.id, "cwd": self.look.folder}
        return {
            "toolCallId": call.id,
            "title": event.title or event.name,
            "name": event.name,
            "kind": call.kind,
            "status": "in_progress",
            "content": [_terminal(call)] if shown else call.diffs,
            "locations": locations_of(event.input, event.files, self.look.folder),
            **_raw_input(event.input),
            **({"_meta": meta} if meta else {}),
        }

    def _ended(self, event: ToolEnded) -> list[SessionUpdate]:
        updates: list[SessionUpdate] = []
        if event.id not in self._calls:  # its beginning was never told
            updates.append(self._started(ToolStarted(id=event.id, name="tool", title=event.id)))
        call = self._calls[event.id]
        if not call.open:
            return []
        call.open = False
        output = _cut(event.output)
        shown = self.look.terminals and call.kind == "execute"
        diffs = diffs_of(event.diff, self.look.folder) or call.diffs
        content = [_terminal(call)] if shown else [*diffs, *([_text(output)] if output else [])]
        update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call.id,
            "status": "completed" if event.ok else "failed",
            "content": content,
            "rawOutput": _raw_output(event, output),
        }
        if event.files:
            update["locations"] = locations_of(call.input, event.files, self.look.folder)
        if shown:
            update["_meta"] = _exit_of(call, event, output)
        return [*updates, update]

    def _new_call(self, id: str, kind: str, input: Any) -> _Call:
        _, diff = proposed(input, self.look.folder) if isinstance(input, dict) else ((), "")
        return _Call(
            id=f"{self._prefix}.{id}", kind=kind, input=input, diffs=diffs_of(diff, self.look.folder) if diff else []
        )

    # -- asks

    def _asked(self, event: Asked) -> list[SessionUpdate]:
        """An ask is about the open call with the same input; without one, it is a call of its own."""
        known = [key for key, call in self._calls.items() if call.open and not call.ask and _same(call, event)]
        if known:
            self._asks[event.id] = known[-1]
            return []
        key = f"ask:{event.id}"
        call = self._calls[key] = self._new_call(key, kind_of(event.tool, event.category), event.input)
        call.ask, self._asks[event.id] = event.id, key
        return [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": call.id,
                "title": event.title or title_of(event.tool, event.input) or event.tool,
                "name": event.tool,
                "kind": call.kind,
                "status": "pending",
                "content": diffs_of(event.diff, self.look.folder) or call.diffs,
                "locations": locations_of(event.input, event.files, self.look.folder),
                **_raw_input(event.input),
            }
        ]

    def _of_an_ask(self, event: ToolStarted) -> _Call | None:
        """The call that an ask made for this tool before it began."""
        for key, call in list(self._calls.items()):
            if call.ask and call.open and call.input == event.input and event.input is not None:
                del self._calls[key]
                self._asks[call.ask] = event.id
                call.ask = ""
                return call
        return None

    def _answered(self, event: Answered) -> list[SessionUpdate]:
        call = self._calls.get(self._asks.get(event.id, ""))
        if call is None or not call.ask or event.option.startswith("allow"):
            return []
        call.open = False
        said = "cancelled" if event.option == "cancelled" else f"refused by {event.by}"
        return [_closed(call, "failed", said)]

    def _left_over(self) -> list[SessionUpdate]:
        """What was allowed and never told as a tool: it has been done, or the turn ended first."""
        left = [call for call in self._calls.values() if call.ask and call.open]
        for call in left:
            call.open = False
        return [_closed(call, "completed", "") for call in left]

    # -- the rest

    def _usage(self, event: UsageReport) -> list[SessionUpdate]:
        """Tokens of the turn so far. The size of the model's window is not known to ostler: 0."""
        used = (event.usage.input_tokens or 0) + (event.usage.output_tokens or 0)
        update: SessionUpdate = {"sessionUpdate": "usage_update", "used": used, "size": 0}
        if event.cost_usd is not None:
            amount = round(event.cost_usd + (self.look.cost_usd or 0), 9)
            update["cost"] = {"amount": amount, "currency": "USD"}
        return [update]


def merged(updates: Iterable[SessionUpdate]) -> list[SessionUpdate]:
    """Chunks of one message as one: history is told whole."""
    found: list[SessionUpdate] = []
    for update in updates:
        last = found[-1] if found else {}
        if "messageId" in update and all(last.get(name) == update[name] for name in ("messageId", "sessionUpdate")):
            text = last["content"]["text"] + update["content"]["text"]
            found[-1] = {**last, "content": {"type": "text", "text": text}}
        else:
            found.append(update)
    return found


def usage_of(usage: Usage) -> dict[str, int]:
    """Tokens of a turn as the answer to its prompt tells them."""
    counts = {
        "inputTokens": usage.input_tokens or 0,
        "outputTokens": usage.output_tokens or 0,
        "totalTokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
        "cachedReadTokens": usage.cached_tokens,
        "thoughtTokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _plan(event: Plan) -> SessionUpdate:
    entries = [{"content": s.text, "priority": "medium", "status": _STATUS[s.status]} for s in event.steps]
    return {"sessionUpdate": "plan", "entries": entries}


def _notice(event: Notice | Limited) -> list[SessionUpdate]:
    text = event.text if isinstance(event, Notice) else event.message or event.error
    severity = "info" if isinstance(event, Notice) else "warning"
    return [{"sessionUpdate": "notice", "severity": severity, "title": text}] if text.strip() else []


def _same(call: _Call, asked: Asked) -> bool:
    return call.input is not None and call.input == asked.input


def _closed(call: _Call, status: str, said: str) -> SessionUpdate:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": status}
    return {**update, "content": [*call.diffs, _text(said)]} if said else update


def _text(text: str) -> SessionUpdate:
    return {"type": "content", "content": {"type": "text", "text": text}}


def _terminal(call: _Call) -> SessionUpdate:
    return {"type": "terminal", "terminalId": call.id}


def _raw_input(input: Any) -> dict[str, Any]:
    return {"rawInput": input} if input is not None else {}


def _raw_output(event: ToolEnded, output: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"output": output or None, "exit_code": event.exit_code, "duration_ms": event.duration_ms}
    fields["denied"] = event.denied or None
    return {name: value for name, value in fields.items() if value is not None}


def _exit_of(call: _Call, event: ToolEnded, output: str) -> dict[str, Any]:
    """The terminal's output and end, as a client that shows such terminals reads them."""
    code = event.exit_code if event.exit_code is None or event.exit_code >= 0 else None
    meta: dict[str, Any] = {"terminal_exit": {"terminal_id": call.id, "exit_code": code, "signal": None}}
    return {"terminal_output": {"terminal_id": call.id, "data": output}, **meta} if output else meta


def _cut(output: str) -> str:
    if len(output) <= OUTPUT:
        return output
    return f"{output[: OUTPUT // 2]}\n… {len(output) - OUTPUT:,} characters left out …\n{output[-OUTPUT // 2 :]}"
