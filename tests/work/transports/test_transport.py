"""How a turn that ostler ended is judged."""

import pytest

from ostler.model import Problem, Verdict
from ostler.work.transports.transport import nobody, stopped_verdict


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("cancelled", "cancelled"), ("timed_out", "timed_out"), ("over_budget", "failed"), ("limited", "failed")],
)
def test_the_reason_counts_whatever_the_agent_said(kind: str, outcome: str) -> None:
    problem = Problem(kind=kind, message="why")  # type: ignore[arg-type]
    said = Verdict(outcome="done", text="all is well")
    assert stopped_verdict(said, problem) == Verdict(outcome=outcome, text="all is well", error=problem)  # type: ignore[arg-type]


def test_output_that_nobody_is_shown() -> None:
    nobody("stdout", b"x")
