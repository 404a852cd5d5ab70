"""What an error of ostler is to an ACP client; and that only proven work is an end of turn."""

from typing import Any

import pytest

from ostler.acp.errors import AcpError, refusal_of, stop_of
from ostler.errors import KINDS as ERROR_KINDS
from ostler.errors import OstlerError
from ostler.model import Envelope, Problem


def envelope(outcome: Any, error: Problem | None = None, evidence: tuple[str, ...] = ()) -> Envelope:
    ok = outcome == "done"
    return Envelope(
        status="ok" if ok else "error",
        outcome=outcome,
        summary="",
        text="",
        turn="k3ab-f00d",
        session="k3ab",
        agent="claude",
        served_by="claude",
        started_at=0,
        duration_ms=1,
        error=error,
        evidence=evidence,
    )


@pytest.mark.parametrize(
    ("outcome", "evidence", "stop"),
    [
        ("done", (), "end_turn"),
        ("cancelled", (), "cancelled"),
        ("failed", ("stop reason refusal",), "refusal"),
        ("failed", ("stop reason max_tokens",), "max_tokens"),
        ("failed", ("result error_max_turns, max_turns",), "max_turn_requests"),
    ],
)
def test_stop_reasons(outcome: str, evidence: tuple[str, ...], stop: str) -> None:
    assert stop_of(envelope(outcome, evidence=evidence)) == stop


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "unproven", "crashed"])
@pytest.mark.parametrize("kind", list(ERROR_KINDS))
def test_what_is_not_done_is_never_an_end_of_turn(outcome: str, kind: Any) -> None:
    with pytest.raises(AcpError) as refused:
        stop_of(envelope(outcome, Problem(kind=kind, message="it broke", hint="Mend it")))
    code = -32000 if kind == "unauthenticated" else -32603
    assert refused.value.as_record() == {
        "code": code,
        "message": "it broke. Mend it",
        "data": {"kind": kind, "hint": "Mend it", "details": "it broke", "outcome": outcome, "turn": "k3ab-f00d"},
    }


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        *(("unauthenticated", -32000), ("not_found", -32002), ("bad_request", -32602), ("unsupported", -32602)),
        *(("busy", -32600), ("cancelled", -32800), ("store", -32603), ("missing", -32603)),
    ],
)
def test_codes_of_errors(kind: Any, code: int) -> None:
    assert refusal_of(OstlerError(kind, "x")).code == code


def test_a_whole_refusal() -> None:
    error = OstlerError("limited", "slow down", "Wait a minute", retry_at=5.0)
    assert refusal_of(error).as_record() == {
        "code": -32603,
        "message": "slow down. Wait a minute",
        "data": {"kind": "limited", "hint": "Wait a minute", "retry_at": 5.0, "details": "slow down"},
    }
    own = AcpError(-32601, "no such method")
    assert refusal_of(own) is own and own.as_record() == {"code": -32601, "message": "no such method"}


def test_a_fault_of_ours_is_an_error_too() -> None:
    told = refusal_of(ValueError("boom")).as_record()
    assert (told["code"], told["data"]) == (-32603, {"kind": "crashed"}) and "ValueError" in told["message"]


@pytest.mark.parametrize(
    "evidence", ["stop reason end_turn", "the stop reason refusal", "stop reason refusals", "refusal"]
)
def test_evidence_that_only_looks_like_a_stop_reason(evidence: str) -> None:
    with pytest.raises(AcpError):
        stop_of(envelope("failed", Problem(kind="denied", message="no"), (evidence,)))


def test_a_failure_that_says_nothing_is_unproven() -> None:
    with pytest.raises(AcpError) as refused:
        stop_of(envelope("crashed"))
    assert refused.value.as_record()["data"] == {
        "kind": "unproven",
        "details": "crashed",
        "outcome": "crashed",
        "turn": "k3ab-f00d",
    }


def test_what_was_done_is_done_whatever_was_said_on_the_way() -> None:
    assert stop_of(envelope("done", evidence=("stop reason refusal",))) == "end_turn"
    assert stop_of(envelope("cancelled", evidence=("stop reason max_tokens",))) == "cancelled"
