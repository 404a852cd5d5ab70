"""Ends of turns as values."""

import msgspec

from ostler.errors import OstlerError
from ostler.model import Envelope, Exit, Problem


def test_an_envelope_is_ok_by_its_status_alone() -> None:
    plain = {"outcome": "done", "summary": "", "text": "", "turn": "t", "session": "s", "agent": "a"}
    about = {"served_by": "a", "started_at": 0.0, "duration_ms": 0}
    good = Envelope(status="ok", **plain, **about)  # type: ignore[arg-type]
    bad = Envelope(status="error", **{**plain, "outcome": "unproven"}, **about)  # type: ignore[arg-type]
    assert (good.ok, bad.ok) == (True, False)
    problem = Problem(kind="limited", message="x")
    assert msgspec.json.decode(msgspec.json.encode(problem)) == {"kind": "limited", "message": "x"}


def test_an_error_as_a_value_and_back() -> None:
    problem = Problem(kind="limited", message="later", hint="wait", retry_at=9.5)
    error = problem.raised()
    assert isinstance(error, OstlerError) and Problem.of(error) == problem


def test_only_exit_0_is_a_good_one() -> None:
    assert [exit.ok for exit in (Exit(code=0), Exit(code=1), Exit(signal=9))] == [True, False, False]
