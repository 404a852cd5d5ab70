"""Asks: answered once, by a rule, a person or the time limit; and journaled with who it was."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ostler.agents.dialog import AnswerKind
from ostler.errors import OstlerError
from ostler.model import Answered, Asked, AskOption, Envelope, ToolEnded
from ostler.testing import Clock
from ostler.work.dialogs.asks import AskAnswer, Asks, kind_for
from waiting import until
from work.scripted import Stable

ALL: tuple[AnswerKind, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")
ASK = '[[ask:{"tool": "shell", "input": {"command": "%s"}, "then": [{"run": "touch made"}]}]]'


def asked(*kinds: Any, id: str = "1") -> Asked:
    """Options in an order and with ids that mislead: only their kinds count."""
    options = tuple(AskOption(id=f"allow-{n}", name="Yes", kind=kind) for n, kind in enumerate(reversed(kinds)))
    return Asked(id=id, tool="Bash", options=options)


class Given:
    """Asks whose answers are kept."""

    def __init__(self, ruling: str = "ask", limit: float | None = None) -> None:
        self.given: list[tuple[str, str, str, str]] = []
        self.asks = Asks(lambda asked: (ruling, "rule 1"), self._give, limit)

    async def _give(self, ask: str, kind: AnswerKind, by: str, message: str) -> None:
        self.given.append((ask, kind, by, message))


@pytest.mark.parametrize(
    ("option", "kinds", "kind"),
    [
        ("allow", ALL, "allow_once"),
        ("deny", ALL, "reject_once"),
        ("always", ALL, "allow_always"),
        ("never", ALL, "reject_always"),
        ("deny", ("allow_once", "reject_always"), "reject_always"),
        ("deny", ("allow_once",), "reject_once"),
        ("deny", (), "reject_once"),
        ("reject_always", ALL, "reject_always"),
    ],
)
def test_an_answer_is_found_by_kind(option: str, kinds: tuple[str, ...], kind: str) -> None:
    assert kind_for(asked(*kinds), option) == kind


@pytest.mark.parametrize(
    ("option", "kinds"),
    [
        ("allow", ("allow_always", "reject_once")),  # one yes never becomes a lasting one
        ("always", ("allow_once", "reject_once")),
        ("allow", ()),
        ("allow-0", ALL),  # nor is an id an answer
        ("", ALL),
        ("cancelled", ALL),
    ],
)
def test_an_answer_that_is_not_offered_is_refused(option: str, kinds: tuple[str, ...]) -> None:
    with pytest.raises(OstlerError) as refused:
        kind_for(asked(*kinds), option)
    assert refused.value.kind == "bad_request"


async def test_a_rule_answers_at_once() -> None:
    assert Given("allow").asks.opened(asked(*ALL)) == ("allow_once", "rule 1")
    assert Given("deny").asks.opened(asked(*ALL)) == ("reject_once", "rule 1")
    assert Given("ask").asks.opened(asked(*ALL)) is None


async def test_a_rule_that_an_ask_has_no_option_for_leaves_it_to_a_person() -> None:
    given = Given("allow")
    assert given.asks.opened(asked("allow_always", "reject_once")) is None
    await given.asks.answer(AskAnswer(ask="1", option="always"))
    assert given.given == [("1", "allow_always", "you", "")]


class TakenBack(Given):
    """The agent takes the first one back while it is being answered."""

    async def _give(self, ask: str, kind: AnswerKind, by: str, message: str) -> None:
        if ask == "1":
            raise OstlerError("not_found", "the ask '1' is not open")
        await super()._give(ask, kind, by, message)


async def test_one_that_was_taken_back_does_not_keep_a_cancel_from_the_others() -> None:
    given = TakenBack()
    for id in ("1", "2"):
        given.asks.opened(asked(*ALL, id=id))
    await given.asks.cancel("you")
    assert given.given == [("2", "cancelled", "you", "")] and len(given.asks) == 0


async def test_the_first_answer_counts() -> None:
    it = Given()
    it.asks.opened(asked(*ALL))
    with pytest.raises(OstlerError):
        await it.asks.answer(AskAnswer(ask="1", option="maybe"))
    await it.asks.answer(AskAnswer(ask="1", option="deny", by="ann", message="no"))
    for ask in ("1", "2"):
        with pytest.raises(OstlerError) as refused:
            await it.asks.answer(AskAnswer(ask=ask, option="allow", by="bob"))
        assert refused.value.kind == "not_found"
    assert it.given == [("1", "reject_once", "ann", "no")]
    assert len(it.asks) == 0


async def test_the_limit_denies_and_cancel_answers_all() -> None:
    it = Given(limit=0.01)
    it.asks.opened(asked(*ALL))
    await until(lambda: it.given)
    assert it.given == [("1", "reject_once", "time limit", "nobody answered in time")]
    it = Given(limit=1000)
    it.asks.opened(asked(*ALL, id="1"))
    it.asks.opened(asked(*ALL, id="2"))
    await it.asks.cancel("cancelled")
    assert it.given == [("1", "cancelled", "cancelled", ""), ("2", "cancelled", "cancelled", "")]


# -- in a turn --------------------------------------------------------------------------------------


async def answered(
    stable: Stable, prompt: str, asked: Callable[[], Awaitable[None]] | None = None, **env: str
) -> tuple[Envelope, list[tuple[str, str]]]:
    async with stable.ostler(**env) as o:
        live = await o.session("script", folder=str(stable.folder), access="write")
        events = []
        async for event in live.run(prompt, transport="dialog"):
            events.append(event)
            if asked is not None and isinstance(event, Asked):
                await asked()
        assert live.last is not None
        return live.last, [(e.option, e.by) for e in events if isinstance(e, Answered)]


@pytest.mark.parametrize(("command", "kind", "made"), [("make", "allow_once", True), ("rm x", "reject_once", False)])
async def test_rules_of_the_settings(stable: Stable, command: str, kind: str, made: bool) -> None:
    config = stable.home / ".config/ostler/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[[asks]]\nanswer = "deny"\ncommand = "rm *"\n[[asks]]\nanswer = "allow"\ntool = "shell"\n')
    envelope, answers = await answered(stable, ASK % command)
    assert envelope.ok
    assert answers == [(kind, f"rule {2 if made else 1}")]
    assert (stable.folder / "made").exists() is made


async def test_an_ask_that_nobody_answers_is_denied(clock: Clock, stable: Stable) -> None:
    envelope, answers = await answered(stable, ASK % "ls", lambda: clock.turn(601), OSTLER_ASK_LIMIT="600")
    assert envelope.ok
    assert answers == [("reject_once", "time limit")]
    assert not (stable.folder / "made").exists()


async def test_the_time_that_a_person_takes_is_not_the_tools(clock: Clock, stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder), access="write")
        events = []
        async for event in live.run('[[tool:{"name": "Bash", "ended": false}]]' + ASK % "ls", transport="dialog"):
            events.append(event)
            if isinstance(event, Asked):
                await clock.turn(200)
                await o.answer(live.id, AskAnswer(ask=event.id, option="allow"))
    tools = [event for event in events if isinstance(event, ToolEnded)]
    assert len(tools) == 2 and all(tool.duration_ms is not None and tool.duration_ms < 200_000 for tool in tools)


async def test_an_answer_of_another_session_or_process(stable: Stable) -> None:
    async with stable.ostler() as o, stable.ostler() as elsewhere:
        live = await o.session("script", folder=str(stable.folder), access="write", name="one")
        other = await o.session("script", folder=str(stable.folder), name="two")
        await other.keep()
        running = asyncio.create_task(anext_ended(live))
        await until(lambda: any(isinstance(e, Asked) for e in o.events(live.id)))
        (ask,) = elsewhere.open_asks(o.store.turns(live.id)[-1].id)
        with pytest.raises(OstlerError) as refused:
            await elsewhere.answer("two", AskAnswer(ask=ask.id, option="allow"))
        assert refused.value.kind == "not_found"
        await elsewhere.answer("one", AskAnswer(ask="", option="allow", by="ann"))
        await running
        assert [(e.option, e.by) for e in o.events(live.id) if isinstance(e, Answered)] == [("allow_once", "ann")]
        assert (stable.folder / "made").exists()


async def anext_ended(live: Any) -> None:
    async for _ in live.run(ASK % "ls", transport="dialog"):
        pass
