"""What prompts and conditions can read: inputs, the results of other nodes, the item, the last round. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ostler.errors import quoted
from ostler.model import Envelope
from ostler.pipelines.expressions import BadExpression, evaluated
from ostler.pipelines.model import Node, NodeResult


def values_of(inputs: Mapping[str, str], needed: Mapping[str, NodeResult]) -> dict[str, Any]:
    return {"inputs": dict(inputs), "nodes": {name: readable(result) for name, result in needed.items()}}


def readable(result: NodeResult) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(result, name) for name in result.__struct_fields__}
    return {**fields, "ok": result.ok, "items": [readable(item) for item in result.items]}


def items_of(node: Node, values: Mapping[str, Any]) -> list[Any]:
    """The list that a node runs for. Raises BadExpression for what is none."""
    found = evaluated(node.each, values)
    if not isinstance(found, list | tuple):
        raise BadExpression(f"each = {quoted(node.each[:60])} is not a list")
    if len(found) > 1000:
        raise BadExpression(f"each has {len(found)} items, and at most 1000 are run")
    return list(found)


def result_of(envelope: Envelope, diff: str = "") -> NodeResult:
    """What a turn gave."""
    problem = envelope.error
    cancelled = envelope.outcome == "cancelled"
    return NodeResult(
        state="done" if envelope.ok else "cancelled" if cancelled else "failed",
        text=envelope.text,
        summary=envelope.summary,
        structured=msgspec.to_builtins(envelope.structured),
        diff=diff,
        artifacts=dict(envelope.artifacts),
        stdout=envelope.stdout or "",
        exit=envelope.exit.code if envelope.exit else None,
        error=problem.message if problem else "" if envelope.ok else envelope.outcome,
        kind=problem.kind if problem else "",
        session=envelope.session,
        turn=envelope.turn,
        agent=envelope.agent,
        folder=envelope.folder,
        cost_usd=envelope.cost_usd,
        duration_ms=envelope.duration_ms,
    )


def joined(results: list[NodeResult]) -> NodeResult:
    """The results of all items as one: done if all are."""
    failed = [result for result in results if not result.ok]
    return NodeResult(
        state=failed[0].state if failed else "done",
        text="\n\n".join(result.text for result in results if result.text),
        structured=[result.structured for result in results],
        diff="\n".join(result.diff for result in results if result.diff),
        error=failed[0].error if failed else "",
        kind=failed[0].kind if failed else "",
        cost_usd=total_cost(result.cost_usd for result in results),
        duration_ms=max((result.duration_ms for result in results), default=0),
        items=tuple(results),
    )


def failed_expression(error: BadExpression) -> NodeResult:
    """Of a node whose expression cannot be evaluated with the values that there are."""
    return NodeResult(state="failed", error=str(error), kind="bad_request")


def total_cost(costs: Iterable[float | None]) -> float | None:
    """None if none of them is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
