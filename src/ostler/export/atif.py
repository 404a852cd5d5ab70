"""A session as an ATIF trajectory (Agent Trajectory Interchange Format, version 1.4). Pure.

Prompts are steps of the user. Each step of the agent has a text, what it thought before, and the tools it called after
it; their results stand in the same step. Tokens and cost are known for whole turns: the last step of a turn has them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ostler.export.record import SessionRecord, TurnRecord
from ostler.model import AnyEvent, Envelope, Text, Thought, ToolEnded, ToolStarted

VERSION = "ATIF-v1.4"
AtifStep = dict[str, Any]


def trajectory(session: SessionRecord, by: str) -> dict[str, Any]:
    """`by` names the program that drove the agent."""
    steps: list[AtifStep] = []
    for turn in session.turns:
        steps += _steps_of(turn)
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    row = session.row
    model = next((step["model_name"] for step in reversed(steps) if "model_name" in step), row.model)
    return {
        "schema_version": VERSION,
        "session_id": row.id,
        # What version of its CLI a turn was run with is not kept.
        "agent": {
            "name": row.agent,
            "version": "unknown",
            **({"model_name": model} if model else {}),
            "extra": {"driven_by": by},
        },
        "steps": numbered,
        "final_metrics": _totals(session, len(numbered)),
        "extra": {"folder": row.folder, "access": row.access, **({"name": row.name} if row.name else {})},
    }


def _steps_of(turn: TurnRecord) -> list[AtifStep]:
    asked, envelope = turn.row.turn, turn.row.envelope
    said: list[AtifStep] = []
    if asked.system and asked.first:
        said.append(_step("system", turn.row.created_at, asked.system))
    said.append({**_step("user", turn.row.created_at, asked.prompt), "extra": {"turn": turn.row.id}})
    steps = _agent_steps(turn.events)
    if envelope is not None:
        steps = steps or [_step("agent", turn.row.ended_at or turn.row.created_at, envelope.text)]
        _finish(steps, envelope)
    return [*said, *steps]


def _agent_steps(events: Iterable[AnyEvent]) -> list[AtifStep]:
    steps: list[AtifStep] = []
    calls: dict[str, AtifStep] = {}  # a tool call → the step that has it
    for event in events:
        match event:
            case Thought(text=text):
                step = _open(steps, event.at, not_after=("message", "tool_calls"))
                step["reasoning_content"] = _joined(step.get("reasoning_content", ""), text)
            case Text(text=text):
                step = _open(steps, event.at, not_after=("tool_calls",))
                step["message"] = _joined(step["message"], text)
            case ToolStarted(id=id, name=name, input=given) if id not in calls:
                calls[id] = step = _open(steps, event.at)
                arguments = given if isinstance(given, dict) else {} if given is None else {"input": given}
                step.setdefault("tool_calls", []).append(
                    {"tool_call_id": id, "function_name": name, "arguments": arguments}
                )
            case ToolEnded(id=id, output=output) if id in calls:
                results = calls[id].setdefault("observation", {"results": []})["results"]
                results.append({"source_call_id": id, "content": output})
    return steps


def _open(steps: list[AtifStep], at: float, not_after: tuple[str, ...] = ()) -> AtifStep:
    """The step that goes on; a new one if the last has any of these already."""
    if not steps or any(steps[-1].get(name) for name in not_after):
        steps.append(_step("agent", at, ""))
    return steps[-1]


def _step(source: str, at: float, message: str) -> AtifStep:
    return {"timestamp": datetime.fromtimestamp(at, UTC).isoformat(), "source": source, "message": message}


def _joined(before: str, text: str) -> str:
    return f"{before}\n\n{text}" if before else text


def _finish(steps: list[AtifStep], envelope: Envelope) -> None:
    """What is known of the whole turn."""
    for step in steps:
        step.update({"model_name": envelope.model} if envelope.model else {})
    usage = envelope.usage
    tokens = {
        "prompt_tokens": usage.input_tokens if usage else None,
        "completion_tokens": usage.output_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None,
        "cost_usd": envelope.cost_usd,
    }
    if known := {name: value for name, value in tokens.items() if value is not None}:
        steps[-1]["metrics"] = known
    steps[-1]["extra"] = {"outcome": envelope.outcome, "duration_ms": envelope.duration_ms}


def _totals(session: SessionRecord, steps: int) -> dict[str, Any]:
    envelopes = [turn.row.envelope for turn in session.turns if turn.row.envelope is not None]
    usages = [envelope.usage for envelope in envelopes if envelope.usage is not None]
    sums = {
        "total_prompt_tokens": _sum(usage.input_tokens for usage in usages),
        "total_completion_tokens": _sum(usage.output_tokens for usage in usages),
        "total_cached_tokens": _sum(usage.cached_tokens for usage in usages),
        "total_cost_usd": _sum(envelope.cost_usd for envelope in envelopes),
    }
    return {**{name: value for name, value in sums.items() if value is not None}, "total_steps": steps}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
