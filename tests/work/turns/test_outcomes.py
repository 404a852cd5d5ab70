"""How an attempt went, from what was met."""

import errno
from typing import Any

import pytest

from ostler.model import Problem, Text, ToolEnded, Verdict
from ostler.work.transports.transport import Carried
from ostler.work.turns.outcomes import (
    failed,
    judge_answer,
    os_problem,
    stopped,
    stopped_tool,
    with_evidence,
    with_wall_hint,
)

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Hooks:
    def __init__(self, *fired: str) -> None:
        self.fired = list(fired)


def test_a_stop_and_a_failure_count_as_work() -> None:
    """Nobody else takes a turn over of which something may have been done."""
    problem = Problem(kind="cancelled", message="cancelled")
    assert stopped(problem).worked and failed("failed", problem).worked
    assert stopped(problem).verdict.outcome == "cancelled"
    assert failed("crashed", problem).verdict == Verdict(outcome="crashed", error=problem)


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.ENOSPC, "store", "the disk is full"),
        (errno.EDQUOT, "store", "the disk is full"),
        (errno.ENOEXEC, "crashed", ""),
    ],
)
def test_an_error_of_the_system(number: int, kind: str, says: str) -> None:
    problem = os_problem(OSError(number, "x"))
    assert problem.kind == kind and says in problem.message


def test_hooks_are_evidence() -> None:
    carried = Carried(verdict=Verdict(outcome="done", evidence=("result",)), exit=None, leaked=(), worked=True)
    assert with_evidence(carried, None) is with_evidence(carried, Hooks()) is carried  # type: ignore[arg-type]
    told = with_evidence(carried, Hooks("Stop", "SessionEnd"))  # type: ignore[arg-type]
    assert told.verdict.evidence == ("result", "hooks: Stop, SessionEnd")


def test_a_tool_that_ends_badly_once_its_turn_was_stopped() -> None:
    assert stopped_tool(ToolEnded(id="1", ok=False)) == ToolEnded(id="1", ok=False, stopped=True)
    for event in (ToolEnded(id="1", ok=True), ToolEnded(id="1", ok=False, denied=True), Text(text="x")):
        assert stopped_tool(event) is event


@pytest.mark.parametrize(
    ("verdict", "wrong", "value"),
    [
        (Verdict(outcome="done", structured={"n": 1}), None, {"n": 1}),
        (Verdict(outcome="done", text='Here: {"n": 2}'), None, {"n": 2}),
        (Verdict(outcome="done", text="none"), "no JSON in the answer", None),
    ],
)
def test_an_answer_by_its_schema(verdict: Verdict, wrong: str | None, value: object) -> None:
    assert judge_answer(NUMBER, verdict) == (wrong, value)


def test_an_answer_that_does_not_match() -> None:
    wrong, value = judge_answer(NUMBER, Verdict(outcome="done", structured={"n": "x"}))
    assert wrong and value == {"n": "x"}


@pytest.mark.parametrize(
    ("kind", "message", "hinted"),
    [
        ("crashed", "mine ended with exit code 1: EACCES: permission denied, mkdir '/home/me/.mine'", True),
        ("crashed", "mine ended with exit code 1: PermissionError: [Errno 13] Permission denied", True),
        ("crashed", "mine ended with exit code 1", False),
        ("unauthenticated", "403 permission denied", False),
    ],
)
def test_who_meets_a_wall_is_told_how_to_open_it(kind: Any, message: str, hinted: bool) -> None:
    error = with_wall_hint(failed("crashed", Problem(kind=kind, message=message))).verdict.error
    assert error is not None and ("wall_paths" in error.hint) is hinted
