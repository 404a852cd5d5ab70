"""What becomes of a turn by what ended it, where its records are silent."""

from typing import Any

import pytest

from ostler.agents.hooks import HookFace
from ostler.agents.tui import TranscriptReader
from ostler.model import Turn
from ostler.work.tuis.evidence import Ending, Signal
from ostler.work.tuis.hook_signals import HookSignals
from ostler.work.tuis.judgement import KnownOfTurn, judge

TURN = Turn(id="t", session="s", agent="script", prompt="go", folder="/f")


def judged(how: Any, *, denied: str = "", failure: str = "", answer: str = "", **reader: Any) -> TranscriptReader:
    hooks = HookSignals(HookFace(events=()), "go", set())
    hooks.failure, hooks.answer, hooks.session = failure, answer, "its-id"
    made = TranscriptReader(TURN)
    for name, value in reader.items():
        setattr(made, name, value)
    known = KnownOfTurn(agent="script", hooks=hooks, denied=denied, shown=lambda: "as shown")
    judge(made, Ending(how, (Signal("screen", "ready", 1.0),)), known)
    return made


@pytest.mark.parametrize(
    ("how", "given", "kind", "message"),
    [
        ("interrupted", {}, "cancelled", "script was interrupted at its terminal"),
        ("interrupted", {"result": "ok"}, "cancelled", "script was interrupted at its terminal"),
        ("interrupted", {"denied": "rm"}, "denied", "script stopped: rm was not allowed"),
        ("unproven", {"result": "ok"}, "unproven", "script looks ready, but did not say that it is done"),
        ("failed", {}, "crashed", "script says that the turn failed"),
        ("failed", {"failure": "API Error: 529 Overloaded"}, "overloaded", "API Error: 529 Overloaded"),
    ],
)
def test_what_went_wrong(how: str, given: dict[str, Any], kind: str, message: str) -> None:
    reader = judged(how, **given)
    assert reader.problem is not None and reader.result == "error"
    assert (reader.problem.kind, reader.problem.message, reader.agent_session) == (kind, message, "its-id")


def test_where_the_answer_comes_from() -> None:
    assert (told := judged("done", answer="said")).result == "ok" and told.text == "said"
    assert "text: from a hook" in told.evidence
    assert (seen := judged("done")).text == "as shown" and "text: from the screen" in seen.evidence
    assert judged("done", result="ok", text="read", evidence=["its record"]).evidence == ["its record"]


def test_a_program_that_ended_proves_nothing() -> None:
    assert judged("ended").result is None
    assert judged("ended", result="ok", tentative=True).result is None
    assert judged("ended", result="ok").result == "ok"
    reader = TranscriptReader(TURN)
    judge(reader, None, KnownOfTurn(agent="script", hooks=None, denied="", shown=str))
    assert reader.result is None and reader.evidence == []
