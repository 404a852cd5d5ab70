"""A session and a run as the store keeps them."""

from ostler.export.record import RunRecord, SessionRecord, TurnRecord
from ostler.model import (
    Envelope,
    Problem,
    Session,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    Turn,
    TurnRow,
    Usage,
)
from ostler.pipelines.model import Node, NodeResult, NodeRow, Pipeline, RunRow

EVENTS = (
    Thought(seq=1, at=101.0, text="let me look"),
    Text(seq=2, at=102.0, text="I look."),
    ToolStarted(seq=3, at=103.0, id="c1", name="Bash", category="shell", input={"command": "ls"}),
    ToolStarted(seq=4, at=103.5, id="c2", name="Read", category="read", input="a.txt"),
    ToolEnded(seq=5, at=104.0, id="c2", ok=False, output="no such file"),
    ToolEnded(seq=6, at=105.0, id="c1", output="b.txt"),
    Text(seq=7, at=106.0, text="There is b.txt."),
)


def envelope(**fields: object) -> Envelope:
    base = {
        "status": "ok",
        "outcome": "done",
        "text": "There is b.txt.",
        "summary": "There is b.txt.",
        "turn": "s1-t1",
        "session": "s1",
        "agent": "claude",
        "served_by": "claude",
        "started_at": 100.5,
        "duration_ms": 6500,
        "model": "big",
        "usage": Usage(input_tokens=10, output_tokens=4, cached_tokens=2),
        "cost_usd": 0.25,
    }
    return Envelope(**{**base, **fields})


def turn_row(id: str, answer: Envelope | None, **fields: object) -> TurnRow:
    turn = Turn(id=id, session="s1", agent="claude", prompt="what is here?", folder="/f", **fields)
    ended = 107.0 if answer is not None else None
    state = "ended" if answer is not None else "running"
    return TurnRow(id=id, session="s1", state=state, turn=turn, created_at=100.0, ended_at=ended, envelope=answer)


FAILED = envelope(
    status="error", outcome="failed", text="", usage=None, cost_usd=None, error=Problem(kind="limited", message="no")
)
SESSION = SessionRecord(
    row=Session(id="s1", agent="claude", folder="/f", created_at=100.0, used_at=107.0, name="k3"),
    turns=(
        TurnRecord(row=turn_row("s1-t1", envelope(), system="be brief"), events=EVENTS),
        TurnRecord(row=turn_row("s1-t2", FAILED, first=False)),
        TurnRecord(row=turn_row("s1-t3", None, first=False)),
    ),
)
RUN = RunRecord(
    row=RunRow(
        id="r1",
        pipeline=Pipeline(name="review", nodes=(Node(name="look", agent="claude", prompt="x"),)),
        folder="/f",
        created_at=99.0,
        state="done",
        ended_at=110.0,
    ),
    nodes=(
        NodeRow(
            run="r1",
            node="look",
            state="done",
            started_at=99.5,
            ended_at=109.0,
            sessions={"": "s1"},
            result=NodeResult(state="done"),
        ),
        NodeRow(run="r1", node="later"),
    ),
    sessions={"look": (SESSION,)},
)
