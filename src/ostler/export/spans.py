"""Sessions and runs as spans, by OpenTelemetry's conventions for generative AI. Pure.

A turn is `invoke_agent`, a tool call `execute_tool` within it, a run of a pipeline `invoke_workflow`. Ids come from
those of ostler: whoever exports something twice gets the same spans.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from ostler.export.record import RunRecord, SessionRecord, TurnRecord
from ostler.model import Envelope, ToolEnded, ToolStarted
from ostler.pipelines.model import NodeRow


class Span(Struct, frozen=True, kw_only=True):
    """A span that has ended. Times are seconds since 1970."""

    trace: str  # 32 hex digits
    id: str  # 16
    parent: str = ""
    name: str
    start: float
    end: float
    attributes: dict[str, Any] = {}
    error: str | None = None  # None: it went well


def spans(record: SessionRecord | RunRecord, content: bool) -> list[Span]:
    """Without `content` no prompt, answer, argument or output is in them. What has not ended yet is left out."""
    if isinstance(record, RunRecord):
        return list(_run_spans(record, content))
    trace = _hex(record.row.id, 16)
    return [span for turn in record.turns for span in _turn_spans(trace, "", record, turn, content)]


def _run_spans(record: RunRecord, content: bool) -> Iterator[Span]:
    run = record.row
    trace, root = _hex(run.id, 16), _hex(run.id, 8)
    name = run.pipeline.name
    if run.ended_at is not None:
        operation = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name}
        failed = None if run.state == "done" else run.error or run.state
        yield Span(
            trace=trace,
            id=root,
            name=f"invoke_workflow {name}",
            start=run.created_at,
            end=run.ended_at,
            attributes={**operation, "ostler.run": run.id},
            error=failed,
        )
    for node in record.nodes:
        if node.started_at is None or node.ended_at is None:
            continue
        id = _hex(f"{run.id}/{node.node}", 8)
        yield _node_span(node, trace, id, root)
        for session in record.sessions.get(node.node, ()):
            for turn in session.turns:
                yield from _turn_spans(trace, id, session, turn, content)


def _node_span(node: NodeRow, trace: str, id: str, parent: str) -> Span:
    result = node.result
    return Span(
        trace=trace,
        id=id,
        parent=parent,
        name=f"node {node.node}",
        start=node.started_at or 0.0,
        end=node.ended_at or 0.0,
        attributes={"ostler.node": node.node, "ostler.state": node.state},
        error=None if result is None or result.ok or not result.error else result.error,
    )


def _turn_spans(trace: str, parent: str, session: SessionRecord, turn: TurnRecord, content: bool) -> Iterator[Span]:
    row, envelope = turn.row, turn.row.envelope
    if envelope is None or row.ended_at is None:
        return
    id, agent = _hex(row.id, 8), session.row.agent
    yield Span(
        trace=trace,
        id=id,
        parent=parent,
        name=f"invoke_agent {agent}",
        start=envelope.started_at,
        end=row.ended_at,
        attributes=_turn_attributes(session, turn, envelope, content),
        error=None if envelope.ok else _error_type(envelope),
    )
    started = {event.id: event for event in turn.events if isinstance(event, ToolStarted)}
    for event in turn.events:
        if isinstance(event, ToolEnded) and (begun := started.pop(event.id, None)) is not None:
            yield _tool_span(trace, id, row.id, begun, event, content)


def _turn_attributes(session: SessionRecord, turn: TurnRecord, envelope: Envelope, content: bool) -> dict[str, Any]:
    agent, asked, usage = session.row.agent, turn.row.turn, envelope.usage
    known = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": agent,  # whose models it uses is not always known
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": session.row.id,
        "gen_ai.request.model": asked.model,
        "gen_ai.response.model": envelope.model,
        "gen_ai.usage.input_tokens": usage.input_tokens if usage else None,
        "gen_ai.usage.output_tokens": usage.output_tokens if usage else None,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens if usage else None,
        "error.type": None if envelope.ok else _error_type(envelope),
        "ostler.turn": turn.row.id,
        "ostler.access": envelope.access,
        "ostler.outcome": envelope.outcome,
        "ostler.cost_usd": envelope.cost_usd,
        "gen_ai.input.messages": _message("user", asked.prompt) if content else None,
        "gen_ai.output.messages": _message("assistant", envelope.text) if content else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _tool_span(trace: str, parent: str, turn: str, begun: ToolStarted, ended: ToolEnded, content: bool) -> Span:
    known = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": begun.name,
        "gen_ai.tool.call.id": begun.id,
        "gen_ai.tool.type": "function",
        "error.type": None if ended.ok else "denied" if ended.denied else "failed",
        "gen_ai.tool.call.arguments": _json(begun.input) if content and begun.input is not None else None,
        "gen_ai.tool.call.result": ended.output if content else None,
    }
    return Span(
        trace=trace,
        id=_hex(f"{turn}/{begun.id}", 8),
        parent=parent,
        name=f"execute_tool {begun.name}",
        start=begun.at,
        end=max(begun.at, ended.at),
        attributes={name: value for name, value in known.items() if value is not None},
        error=None if ended.ok else "denied" if ended.denied else "failed",
    )


def _error_type(envelope: Envelope) -> str:
    return envelope.error.kind if envelope.error is not None else envelope.outcome


def _message(role: str, text: str) -> str:
    return _json([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _hex(key: str, size: int) -> str:
    return hashlib.sha256(key.encode()).digest()[:size].hex()
