"""What running turns ask, and what they are told: asks, answers, and words on the way."""

from typing import Annotated

from msgspec import Meta, Struct

from ostler.errors import OstlerError
from ostler.model import Asked, AskRow, TurnRow
from ostler.server.auth import Person
from ostler.server.request_body import RequestBody
from ostler.server.routing import Routes
from ostler.work import Ostler
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.transports.facts import TRANSPORT_FACTS

asks = Routes("asks")


class NewAnswer(RequestBody, frozen=True, kw_only=True):
    """`option`: allow, deny, always, never, or the kind of an option that the ask has."""

    ask: Annotated[str, Meta(min_length=1, max_length=1000)]
    option: Annotated[str, Meta(min_length=1, max_length=100)]
    message: Annotated[str, Meta(max_length=10_000)] = ""


class Steering(RequestBody, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=65_536)]


class AskList(Struct, frozen=True, kw_only=True):
    items: list[Asked]


class AskRowList(Struct, frozen=True, kw_only=True):
    items: list[AskRow]


@asks("GET /api/sessions/{session}/asks", "Its newest questions and who answered them, the oldest first")
async def list_asks_of_session(
    ostler: Ostler,
    session: str,
    since: Annotated[float, Meta(ge=0, description="seconds since the epoch")] = 0.0,
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200,
) -> AskRowList:
    return AskRowList(items=ostler.store.asks_of_session(ostler.find(session).id, since, limit))


@asks("GET /api/turns/{turn}/asks", "Its unanswered questions, the oldest first")
async def list_asks(ostler: Ostler, turn: str) -> AskList:
    return AskList(items=ostler.open_asks(ostler.find_turn(turn).id))


@asks("POST /api/turns/{turn}/answer", "Answers an ask; the first answer counts", status=204, problems=(502,))
async def answer_ask(ostler: Ostler, person: Person, turn: str, data: NewAnswer) -> None:
    """An ask that is not open, or no longer, is not found. What is allowed never goes beyond the turn's access."""
    row = _running(ostler, turn)
    await ostler.answer(row.id, AskAnswer(ask=data.ask, option=data.option, by=person.name, message=data.message))


@asks(
    "POST /api/turns/{turn}/steer",
    "Steers a running turn, if its agent supports that",
    status=204,
    problems=(422, 502),
)
async def steer_turn(ostler: Ostler, person: Person, turn: str, data: Steering) -> None:
    row = _running(ostler, turn)
    if not TRANSPORT_FACTS[row.turn.transport].is_dialog:
        raise OstlerError("unsupported", f"turn {row.id} is not running in a dialog", "Queue it as the next prompt")
    if row.state == "queued":
        raise OstlerError("not_found", f"turn {row.id} has not begun yet")
    await ostler.steer(row.session, data.text, person.name)


def _running(ostler: Ostler, turn: str) -> TurnRow:
    row = ostler.find_turn(turn)
    if row.state == "ended":
        raise OstlerError("not_found", f"turn {row.id} has ended", "Send it as the next prompt")
    return row
