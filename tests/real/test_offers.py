"""What real agents offer in a dialog, modes that are set and hold, and conversations that an agent lists itself."""

from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Asked, Envelope, Offered
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from real.yard import Yard
from waiting import until

pytestmark = pytest.mark.timeout(240)


async def turn(o: Ostler, live: LiveSession, prompt: str, **options: Any) -> tuple[Envelope, list[AnyEvent]]:
    """One turn in a dialog; whatever it asks of a person is allowed."""
    events: list[AnyEvent] = []
    async for event in live.run(prompt, transport="dialog", **options):
        events.append(event)
        if isinstance(event, Asked) and event.id in {ask.id for ask in o.open_asks(event.turn)}:
            await o.answer(live.id, AskAnswer(ask=event.id, option="allow", by="a person"))
    assert live.last is not None
    return live.last, events


def offers(events: list[AnyEvent]) -> list[Offered]:
    return [event for event in events if isinstance(event, Offered)]


def ids(found: tuple[Any, ...]) -> list[str]:
    return [offer.id for offer in found]


def pid_of(o: Ostler, live: LiveSession) -> int:
    return o.dialogs._live[live.id].dialog.process.pid


@pytest.mark.parametrize("agent", ["claude"])
async def test_claude_plans_and_then_acts(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        envelope, events = await turn(o, live, "[[write:planned.py]]", mode="plan")
        told = offers(events)[-1]
        assert (ids(told.modes), told.mode) == (["default", "plan", "acceptEdits"], "plan")
        assert {"compact", "context"} <= {*ids(told.commands)} and "opus" in ids(told.models)
        assert any("Plan mode is active" in request.text for request in yard.model.asked)
        pid = pid_of(o, live)
        yard.model.requests.clear()
        envelope, events = await turn(o, live, "[[write:default.py]]", mode="default")
        assert envelope.ok and (yard.folder / "default.py").exists()
        assert [e.by for e in events if isinstance(e, Answered)] == ["a person"]
        assert [offer.mode for offer in offers(events)] == ["default"]
        envelope, events = await turn(o, live, "[[write:accepted.py]]", mode="acceptEdits")
        assert envelope.ok and (yard.folder / "accepted.py").exists()
        assert not any(isinstance(e, Asked) for e in events)
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "[[write:never.py]]", mode="bypassPermissions")
        assert refused.value.kind == "bad_request"
        envelope, events = await turn(o, live, "/context", command=True)
        assert envelope.ok and pid_of(o, live) == pid


@pytest.mark.parametrize("agent", ["claude"])
async def test_planning_claude_writes_nothing_with_access_read(yard: Yard, permissive: bool) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="read")
        for mode in ("plan", "dontAsk"):
            for prompt in ("[[write:app.py]]", "[[shell:echo x > app.py]]"):
                envelope, _ = await turn(o, live, prompt, mode=mode)
                assert envelope.outcome in ("done", "failed"), envelope
        assert not (yard.folder / "app.py").exists()


@pytest.mark.parametrize("agent", ["gemini"])
async def test_gemini_plans_and_then_acts(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        envelope, events = await turn(o, live, "[[write:planned.py]]", mode="plan")
        told = offers(events)[-1]
        assert (ids(told.modes), told.mode) == (["default", "plan"], "plan")
        assert "memory show" in ids(told.commands) and len(told.models) > 1
        assert not (yard.folder / "planned.py").exists()
        pid = pid_of(o, live)
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "[[write:never.py]]", mode="yolo")
        assert refused.value.kind == "denied"
        envelope, events = await turn(o, live, "[[write:app.py]]", mode="default")
        assert envelope.ok and (yard.folder / "app.py").exists()
        assert [e.by for e in events if isinstance(e, Answered)] == ["a person"]
        assert pid_of(o, live) == pid


@pytest.mark.parametrize("agent", ["copilot"])
async def test_a_command_that_allows_everything_ends_the_dialog(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        _, events = await turn(o, live, "hello")
        assert "allow-all" in ids(offers(events)[-1].commands)
        pid = pid_of(o, live)
        envelope, _ = await turn(o, live, "/allow-all on", command=True)
        if envelope.ok:  # it told of the change after its answer
            await until(lambda: not o.dialogs.holds(live.id))
        else:
            assert envelope.error is not None
            assert (envelope.error.kind, envelope.error.hint != "") == ("denied", True)
        outside = yard.home / "made.txt"
        await turn(o, live, f"[[shell:echo x > {outside}]]")
        assert pid_of(o, live) != pid and not outside.exists()


@pytest.mark.parametrize("agent", ["codex"])
async def test_codex_lists_its_models_and_has_no_modes(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        told: list[Offered] = []
        for _ in range(2):  # nothing waits for the list: it may come with the second turn
            envelope, events = await turn(o, live, "hello")
            assert envelope.ok
            told += offers(events)
        (offered,) = told
        assert len(offered.models) > 1 and offered.model
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "hello", mode="plan")
        assert refused.value.kind == "unsupported"


@pytest.mark.parametrize("agent", ["qwen"])
async def test_qwen_plans_and_then_acts(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        _, events = await turn(o, live, "[[write:planned.py]]", mode="plan")
        told = offers(events)[-1]
        assert (ids(told.modes), told.mode) == (["default", "plan"], "plan")
        assert "compress" in ids(told.commands) and told.model == "fake-model"
        assert not (yard.folder / "planned.py").exists()
        pid = pid_of(o, live)
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "[[write:never.py]]", mode="auto-edit")
        assert refused.value.kind == "denied"
        envelope, events = await turn(o, live, "[[write:app.py]]", mode="default")
        assert envelope.ok and (yard.folder / "app.py").exists()
        assert [e.by for e in events if isinstance(e, Answered)] == ["a person"]
        assert pid_of(o, live) == pid


@pytest.mark.parametrize("agent", ["opencode"])
async def test_opencode_lists_what_it_keeps_and_refuses_a_model(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, "remember the word palomino")
        told = offers(events)[-1]
        assert envelope.ok and "fake/fake-model" in ids(told.models) and "review" in ids(told.commands)
        assert told.modes == ()  # its mode is what keeps the access
        pid = pid_of(o, live)
        envelope, _ = await turn(o, live, "hello", model="fake/nonesuch")
        assert envelope.error is not None and envelope.error.kind == "bad_request"
        assert "fake/fake-model" in envelope.error.hint
        assert (await turn(o, live, "hello"))[0].ok and pid_of(o, live) == pid
        kept = live.row.agent_session
        await o.dialogs.close()
        await o.remove(live.id)
        adopted = await o.adopt("opencode", folder=str(yard.folder))
        assert [(row.agent_session, row.folder) for row in adopted] == [(kept, str(yard.folder))]
        again = await o.session(session=adopted[0].id)
        yard.model.requests.clear()
        assert (await turn(o, again, "which word was it?"))[0].ok
        assert any("palomino" in x.text and "which word was it?" in x.text for x in yard.model.asked)
