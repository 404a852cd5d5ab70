"""Makes the envelope of a turn: never more than was proven, never a guessed figure."""

import re
from typing import Any

from msgspec import Struct, structs

from ostler import clock
from ostler.model import Denial, Envelope, Exit, FileChange, Outcome, Problem, Turn, TurnRow, Usage, Verdict

Counters = dict[str, float]
NONE_YET: Counters = dict.fromkeys((*Usage.__struct_fields__, "cost_usd"), 0.0)


class Sums(Struct, kw_only=True):
    """Usage and cost of a turn over its attempts. None once a figure is unknown."""

    usage: Usage | None = None
    cost_usd: float | None = None
    steps: int | None = None
    counters: Counters | None = None
    counted: int = 0

    def add(self, turn: Turn, verdict: Verdict, before: Counters | None) -> None:
        """Adds an attempt; `before` is where the agent's own counters stood when it began."""
        usage, cost = verdict.usage, verdict.cost_usd
        if verdict.cumulative:
            self.counters = _counters(verdict) or None  # a turn that told none leaves nothing to subtract
            usage, cost = _since(verdict, before if turn.resume else NONE_YET)
        first = self.counted == 0
        self.counted += 1
        self.usage = usage if first else _sum(self.usage, usage)
        self.cost_usd = cost if first else _plus(self.cost_usd, cost)
        self.steps = verdict.steps if first else _plus(self.steps, verdict.steps)


def counters_before(last: TurnRow | None, agent_session: str | None) -> Counters | None:
    """The agent's counters at the end of its last turn, if that turn was ours."""
    if last is None or last.envelope is None or last.envelope.agent_session != agent_session:
        return None
    return last.counters


def _counters(verdict: Verdict) -> Counters:
    figures: dict[str, Any] = structs.asdict(verdict.usage) if verdict.usage else {}
    figures["cost_usd"] = verdict.cost_usd
    return {name: float(value) for name, value in figures.items() if value is not None}


def _since(verdict: Verdict, before: Counters | None) -> tuple[Usage | None, float | None]:
    """What was added to the counters. A figure that is not known of before is not known of the turn."""
    if before is None:
        return None, None
    usage: dict[str, Any] = structs.asdict(verdict.usage) if verdict.usage else {}
    turn = {name: _plus(n, _less(before.get(name))) for name, n in usage.items()}
    cost = _plus(verdict.cost_usd, _less(before.get("cost_usd")))
    if any(n is not None and n < 0 for n in (*turn.values(), cost)):
        return None, None  # somebody else's turn came between
    part = {name: None if n is None else int(n) for name, n in turn.items()}
    return (Usage(**part) if any(n is not None for n in part.values()) else None), cost


def _less(count: float | None) -> float | None:
    return None if count is None else -count


def _sum(a: Usage | None, b: Usage | None) -> Usage | None:
    if a is None or b is None:
        return None
    return Usage(**{name: _plus(n, getattr(b, name)) for name, n in structs.asdict(a).items()})


def _plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


class Findings(Struct, kw_only=True):
    """All that is known of a turn when it ends."""

    turn: Turn
    served_by: str
    started_at: float
    seconds: float  # how long it took, by a clock that nobody sets
    verdict: Verdict
    sums: Sums
    exit: Exit | None = None
    leaked: tuple[str, ...] = ()
    artifacts: dict[str, str] = {}
    name: str | None = None
    handed_from: str | None = None
    structured: Any = None
    files: tuple[FileChange, ...] = ()
    planted: tuple[FileChange, ...] = ()


def envelope_of(found: Findings) -> Envelope:
    verdict, turn = found.verdict, found.turn
    done = verdict.outcome == "done"
    return Envelope(
        status="ok" if done else "error",
        outcome=verdict.outcome,
        summary=summary(verdict.text, verdict.error),
        text=verdict.text,
        turn=turn.id,
        session=turn.session,
        name=found.name,
        agent=turn.agent,
        served_by=found.served_by,
        agent_session=verdict.agent_session,
        model=verdict.model or turn.model,
        folder=turn.folder,
        access=turn.access,
        started_at=found.started_at,
        duration_ms=max(0, round(found.seconds * 1000)),
        structured=found.structured if done else None,
        denied=_once(verdict.denied),
        artifacts=found.artifacts,
        usage=found.sums.usage,
        cost_usd=found.sums.cost_usd,
        steps=found.sums.steps,
        exit=found.exit,
        error=verdict.error,
        evidence=verdict.evidence,
        leaked=found.leaked,
        files=found.files,
        planted=found.planted,
        stdout=verdict.stdout,
        stderr=verdict.stderr,
        handed_from=found.handed_from,
    )


def unwatched_envelope(row: TurnRow, outcome: Outcome, problem: Problem, agent_session: str | None) -> Envelope:
    """For a turn that nobody carries: nobody was there to see how it ended."""
    return envelope_of(
        Findings(
            turn=row.turn,
            served_by=row.turn.agent,
            started_at=row.created_at,
            seconds=clock.now() - row.created_at,  # whoever began it is not here: there is no other clock
            verdict=Verdict(outcome=outcome, error=problem, agent_session=agent_session),
            sums=Sums(),
        )
    )


def summary(text: str, error: Problem | None) -> str:
    """One to three sentences: what failed, else the beginning of the answer."""
    if error is not None:
        return error.message
    plain = re.sub(r"```.*?```", " ", text, flags=re.S)
    plain = re.sub(r"\s+", " ", re.sub(r"[#*`>]+", "", plain)).strip()
    sentences = re.split(r"(?<=[.!?。！？])\s+", plain)
    short = " ".join(sentences[:3])
    return short if len(short) <= 400 else short[:399].rstrip() + "…"


def _once(denied: tuple[Denial, ...]) -> tuple[Denial, ...]:
    return tuple(dict.fromkeys(denied))
