"""Turns that go on by themselves: committed before anybody is told, queued, once per key, ended with the Ostler."""

import asyncio

import pytest

from ostler.errors import OstlerError
from ostler.model import Session, Text, TurnOptions, TurnRow
from ostler.process import tree
from ostler.store.once import Once
from ostler.work import LiveSession, Ostler
from ostler.work.transports.stop import Stop
from ostler.work.turns.begin import Begun, begin
from waiting import until
from work.scripted import Stable, collect


async def new_session(o: Ostler, stable: Stable, **options: str) -> Session:
    return await (await o.session("script", folder=str(stable.folder), **options)).keep()


async def post(o: Ostler, row: Session, prompt: str, wait: bool = False, key: str | None = None) -> Begun:
    once = Once(key=key, digest=prompt) if key else None
    return await begin(await o.session(session=row.id), prompt, TurnOptions(), wait=wait, once=once)


async def ended(o: Ostler, turn: str) -> TurnRow:
    return await until(lambda: (row := o.find_turn(turn)).state == "ended" and row)


async def test_a_session_is_kept_before_its_first_turn(stable: Stable) -> None:
    async with stable.ostler() as o:
        row = await new_session(o, stable, name="barn")
        assert o.find("barn") == row and (row.turns, row.served_by, row.title) == (0, "script", "")
        begun = await post(o, row, "[[say:hi]]\nmore")
        await ended(o, begun.row.id)
        assert (o.find("barn").turns, o.find("barn").title) == (1, "[[say:hi]]")
        for make in (new_session(o, stable, name="barn"), (await o.session(session="barn")).fork(name="barn")):
            with pytest.raises(OstlerError) as caught:
                await make
            assert caught.value.kind == "exists"


async def test_two_sessions_of_one_name_cannot_be_made_at_once(stable: Stable) -> None:
    async with stable.ostler() as o:
        made = await asyncio.gather(*(new_session(o, stable, name="x") for _ in range(5)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in made) == ["OstlerError"] * 4 + ["Session"]


async def test_the_turn_goes_on_when_nobody_reads_it(stable: Stable) -> None:
    gate = stable.folder / "gate"
    stable.script.plays([{"wait_for": str(gate)}, {"say": "done"}])
    async with stable.ostler() as o:
        row = await new_session(o, stable)
        begun = await post(o, row, "go")
        assert begun.row == o.find_turn(begun.row.id) or o.find_turn(begun.row.id).state == "running"
        assert not begun.repeated and begun.row.owner == o.desk.id
        gate.touch()
        found = await ended(o, begun.row.id)
        assert found.envelope.ok and found.envelope.text == "done"
        assert tree.marked(begun.row.id) == []


async def test_what_cannot_begin_leaves_nothing(stable: Stable) -> None:
    async with stable.ostler(OSTLER_ONLY="") as o:
        missing = await (await o.session("gemini", folder=str(stable.folder))).keep()
        for prompt, kind in ((" ", "bad_request"), ("go", "missing")):
            with pytest.raises(OstlerError) as caught:
                await post(o, missing, prompt, key="k")
            assert caught.value.kind == kind
        assert o.store.turns(missing.id) == [] and o.find(missing.id).state == "idle"


async def test_a_busy_session_refuses_or_queues_and_the_queue_goes_on_with_the_conversation(stable: Stable) -> None:
    gate = stable.folder / "gate"
    stable.script.plays(
        {"match": "first", "steps": [{"wait_for": str(gate)}, {"say": "1"}]}, {"steps": [{"history": True}]}
    )
    async with stable.ostler() as o:
        row = await new_session(o, stable)
        first = await post(o, row, "first")
        with pytest.raises(OstlerError) as caught:
            await post(o, row, "refused")
        assert caught.value.kind == "busy"
        # Queued before the agent told its own id: the turn must join the conversation that there is by then.
        second, third = await post(o, row, "second", wait=True), await post(o, row, "third", wait=True)
        assert (second.row.state, third.row.state) == ("queued", "queued")
        gate.touch()
        for begun in (first, second, third):
            assert (await ended(o, begun.row.id)).envelope.ok
        texts = [event.text for event in o.events(row.id) if isinstance(event, Text)]
        assert "first" in texts[1] and "first" in texts[2] and "second" in texts[2]
        sessions = {o.find_turn(begun.row.id).envelope.agent_session for begun in (first, second, third)}
        assert len(sessions) == 1
        assert (o.find(row.id).state, o.find(row.id).turns) == ("idle", 3)


async def test_one_key_begins_one_turn(stable: Stable) -> None:
    async with stable.ostler() as o, stable.ostler() as other:
        row = await new_session(o, stable)
        begun = await asyncio.gather(*(post(each, row, "[[say:hi]]", key="k") for each in (o, other) for _ in range(5)))
        assert len({each.row.id for each in begun}) == 1
        assert [each.repeated for each in begun].count(False) == 1
        assert len(o.store.turns(row.id)) == 1
        await ended(o, begun[0].row.id)
        with pytest.raises(OstlerError) as caught:
            await post(o, row, "another", key="k")
        assert caught.value.kind == "exists"
    async with stable.ostler() as again:
        repeated = await post(again, row, "[[say:hi]]", key="k")
        assert repeated.repeated and repeated.row.id == begun[0].row.id and repeated.row.envelope.ok


async def test_one_turn_of_many_is_cancelled(stable: Stable) -> None:
    stable.script.plays([{"say": "…"}, {"never_end": True}])
    async with stable.ostler() as o, stable.ostler() as other:
        row = await new_session(o, stable)
        first = await post(o, row, "first")
        second, third = await post(o, row, "second", wait=True), await post(o, row, "third", wait=True)
        await other.cancel_turn(second.row.id)
        assert (await ended(o, second.row.id)).envelope.outcome == "cancelled"
        assert o.find_turn(first.row.id).state != "ended" and o.find_turn(third.row.id).state == "queued"
        await other.cancel_turn(first.row.id)
        assert (await ended(o, first.row.id)).envelope.outcome == "cancelled"
        await until(lambda: o.find_turn(third.row.id).state == "running")
        numbers = [o.store.turn_number(each.row.id) for each in (first, second, third)]
        assert numbers == [1, 2, 3], "what was taken back keeps its number"
        shown = await until(lambda: {t.turn: t.name for t in o.terminals.list(row.id)}.get(third.row.id))
        assert shown == "turn 3"
        again = await o.cancel_turn(first.row.id)
        assert again.state == "ended", "one that has ended is left alone"
        with pytest.raises(OstlerError) as caught:
            await o.cancel_turn("nobody")
        assert caught.value.kind == "not_found"


async def test_closing_ends_what_was_begun_and_what_waits(stable: Stable) -> None:
    stable.script.plays([{"say": "…"}, {"never_end": True}])
    async with stable.ostler() as o:
        row = await new_session(o, stable)
        first, second = await post(o, row, "first"), await post(o, row, "second", wait=True)
    async with stable.ostler() as o:
        for begun in (first, second):
            found = o.find_turn(begun.row.id)
            assert (found.state, found.envelope.outcome) == ("ended", "cancelled")
            assert tree.marked(begun.row.id) == []
        assert o.find(row.id).state == "idle"


async def test_who_leaves_while_it_is_committed_loses_nothing(stable: Stable) -> None:
    async with stable.ostler() as o:
        row = await new_session(o, stable)
        live = await o.session(session=row.id)
        asking = asyncio.create_task(begin(live, "[[say:hi]]", TurnOptions()))
        prepared = live.prepare

        async def prepare(prompt: str, options: TurnOptions, stop: Stop) -> object:
            found = await prepared(prompt, options, stop)
            asyncio.get_running_loop().call_soon(asking.cancel)
            return found

        live.prepare = prepare  # type: ignore[method-assign,assignment]
        with pytest.raises(asyncio.CancelledError):
            await asking
        turn = await until(lambda: o.store.turns(row.id))
        assert (await ended(o, turn[0].id)).envelope.ok


async def test_a_queued_turn_that_cannot_be_prepared_any_more_fails(stable: Stable) -> None:
    gate = stable.folder / "gate"
    stable.script.plays([{"wait_for": str(gate)}, {"say": "1"}])
    async with stable.ostler() as o:
        row = await new_session(o, stable)
        first = await post(o, row, "first")
        queued = await begin(
            await o.session(session=row.id),
            "second",
            TurnOptions(attachments=(str(_file(stable)),)),
            wait=True,
        )
        _file(stable).unlink()
        gate.touch()
        assert (await ended(o, first.row.id)).envelope.ok
        found = await ended(o, queued.row.id)
        assert (found.envelope.outcome, found.envelope.error.kind) == ("failed", "not_found")
        assert o.find(row.id).state == "idle"
        assert [event.seq for event in o.events(row.id)] == list(range(1, len(o.events(row.id)) + 1))


def _file(stable: Stable):  # type: ignore[no-untyped-def]
    path = stable.folder / "note.txt"
    if not path.exists():
        path.write_text("hay")
    return path


async def test_a_removed_session_is_gone_and_a_busy_one_stays(stable: Stable) -> None:
    stable.script.plays({"match": "long", "steps": [{"never_end": True}]}, {"steps": [{"say": "hi"}]})
    async with stable.ostler() as o:
        row = await new_session(o, stable)
        live: LiveSession = await o.session(session=row.id)
        await collect(live, "short")
        begun = await post(o, row, "long")
        with pytest.raises(OstlerError) as caught:
            await o.remove(row.id)
        assert caught.value.kind == "busy" and o.find(row.id).state == "busy"
        await o.cancel_turn(begun.row.id)
        await ended(o, begun.row.id)
        assert (await o.remove(row.id)).id == row.id
        with pytest.raises(OstlerError) as caught:
            o.find(row.id)
        assert caught.value.kind == "not_found"
        assert not (stable.state / "sessions" / row.id).exists()
