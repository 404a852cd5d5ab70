"""What an error of ostler is to an ACP client: a code, a message for people, and its kind for programs."""

from typing import Any

from ostler.errors import ErrorKind, OstlerError, internal_error
from ostler.model import Envelope, Problem

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
CANCELLED = -32800

CODES: dict[ErrorKind, int] = {
    "unauthenticated": AUTH_REQUIRED,
    "not_found": NOT_FOUND,
    "bad_request": INVALID_PARAMS,
    "unsupported": INVALID_PARAMS,
    "cancelled": CANCELLED,
    **dict.fromkeys(("busy", "denied", "exists", "too_many"), INVALID_REQUEST),
}
STOPS = ("refusal", "max_tokens", "max_turn_requests")


class AcpError(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def as_record(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, **({"data": self.data} if self.data else {})}


def refusal_of(error: BaseException) -> AcpError:
    """Any error as an answer."""
    if isinstance(error, AcpError):
        return error
    if isinstance(error, OstlerError):
        problem = Problem.of(error)
        return AcpError(CODES.get(error.kind, INTERNAL), str(error), _data(problem))
    return AcpError(INTERNAL, internal_error(error), {"kind": "crashed"})


def stop_of(envelope: Envelope) -> str:
    """The stop reason of a turn. Raises AcpError for one that failed: `end_turn` is said of proven work alone."""
    if envelope.outcome == "done":
        return "end_turn"
    if envelope.outcome == "cancelled":
        return "cancelled"
    said = [stop for stop in STOPS if f"stop reason {stop}" in envelope.evidence]
    if said:
        return said[0]
    if any("error_max_turns" in evidence for evidence in envelope.evidence):
        return "max_turn_requests"
    problem = envelope.error or Problem(kind="unproven", message=envelope.outcome)
    code = AUTH_REQUIRED if problem.kind == "unauthenticated" else INTERNAL
    message = f"{problem.message}. {problem.hint}" if problem.hint else problem.message
    raise AcpError(code, message, {**_data(problem), "outcome": envelope.outcome, "turn": envelope.turn})


def _data(problem: Problem) -> dict[str, Any]:
    fields = {"kind": problem.kind, "hint": problem.hint, "retry_at": problem.retry_at, "details": problem.message}
    return {name: value for name, value in fields.items() if value}
