"""Errors as answers: what the one who asked is told, and what nobody is."""

import logging

import pytest

from ostler.errors import KINDS, ErrorKind, OstlerError
from ostler.server.problems import ProblemAnswer, Refusal, answer_to, headers_of, log_error


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_error_is_a_problem(kind: ErrorKind) -> None:
    answer = answer_to(OstlerError(kind, "it failed", "Do this", retry_at=5.0))
    assert (answer.status, answer.kind, answer.detail) == (KINDS[kind].http, kind, "it failed")
    assert (answer.hint, answer.retry_at, answer.type) == ("Do this", 5.0, "about:blank")


def test_a_refusal_of_the_door() -> None:
    refusal = Refusal(429, "too fast", "Wait", {"retry-after": "5"})
    assert answer_to(refusal) == ProblemAnswer(
        title="Too Many Requests", status=429, kind="too_many", detail="too fast", hint="Wait"
    )
    assert headers_of(refusal) == {"retry-after": "5"} and headers_of(Refusal(403, "no")) == {}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((400, "bad_request"), (401, "unauthenticated"), (403, "denied"), (404, "not_found"), (405, "unsupported")),
        *((408, "timed_out"), (409, "busy"), (413, "bad_request"), (415, "bad_request"), (429, "too_many")),
    ],
)
def test_statuses_that_only_http_has(status: int, kind: str) -> None:
    answer = answer_to(Refusal(status, "so"))
    assert (answer.status, answer.kind, answer.detail) == (status, kind, "so")


@pytest.mark.parametrize("error", [ValueError("the key is hunter2"), KeyError("hunter2")])
def test_of_a_fault_of_ours_nothing_is_told(error: Exception) -> None:
    assert answer_to(error) == ProblemAnswer(
        title="Internal Server Error",
        status=500,
        kind="crashed",
        detail="internal error (this is a bug in ostler)",
        hint="See the server's log",
    )


def test_only_faults_of_ours_are_errors_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ostler.server"):
        for error in (OstlerError("store", "full"), Refusal(500, "no")):
            log_error(error, "GET /x")
        assert {record.levelname for record in caplog.records} == {"DEBUG"}
        assert caplog.records[0].getMessage() == "GET /x was refused: full"
        caplog.clear()
        log_error(ValueError("boom"), "GET /x")
    assert [record.getMessage() for record in caplog.records] == ["GET /x failed"]
