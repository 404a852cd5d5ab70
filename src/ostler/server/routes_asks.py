"""What running turns ask, and what they are told: asks, answers, and words on the way."""

from typing import Annotated

from litestar import Router, get, post
from msgspec import Meta, Struct

from ostler.errors import OstlerError
from ostler.server.people import Person, require
from ostler.server.routes_sessions import Body
from ostler.words import Asked, TurnRow
from ostler.work import Ostler
from ostler.work.asks import Answer


class AskAnswer(Body, frozen=True, kw_only=True):
    """`option`: allow, deny, always, never, or the kind of an option that the ask has."""

    ask: Annotated[str, Meta(min_length=1, max_length=1000)]
    option: Annotated[str, Meta(min_length=1, max_length=100)]
    message: Annotated[str, Meta(max_length=10_000)] = ""


class Steering(Body, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=65_536)]


class AskList(Struct, frozen=True, kw_only=True):
    items: list[Asked]


@get("/api/turns/{turn:str}/asks", summary="What it asks and nobody has answered, the oldest first")
async def list_asks(ostler: Ostler, turn: str) -> AskList:
    return AskList(items=ostler.open_asks(ostler.find_turn(turn).id))


@post(
    "/api/turns/{turn:str}/answer", summary="Answers an ask; the first answer counts", status_code=204, problems=(502,)
)
async def answer_ask(ostler: Ostler, person: Person, turn: str, data: AskAnswer) -> None:
    """An ask that is not open, or no longer, is not found. What is allowed never goes beyond the turn's access."""
    require(person, "type")
    row = _running(ostler, turn)
    await ostler.answer(row.id, Answer(ask=data.ask, option=data.option, by=person.name, message=data.message))


@post(
    "/api/turns/{turn:str}/steer",
    summary="Tells a running turn more, where the agent can take it",
    status_code=204,
    problems=(422, 502),
)
async def steer_turn(ostler: Ostler, person: Person, turn: str, data: Steering) -> None:
    require(person, "type")
    row = _running(ostler, turn)
    if row.turn.transport != "dialog":
        raise OstlerError("unsupported", f"turn {row.id} runs in no dialog", "Queue it as the next prompt")
    if row.state == "queued":
        raise OstlerError("not_found", f"turn {row.id} has not begun yet")
    await ostler.steer(row.session, data.text, person.name)


def _running(ostler: Ostler, turn: str) -> TurnRow:
    row = ostler.find_turn(turn)
    if row.state == "ended":
        raise OstlerError("not_found", f"turn {row.id} has ended", "Send it as the next prompt")
    return row


asks = Router("/", tags=["asks"], route_handlers=[list_asks, answer_ask, steer_turn])
