"""Which turn stands behind a mark."""

from ostler.work.turns.asking import asked_by, turn_of_mark
from work.scripted import Stable


async def test_a_turn_is_found_by_the_marks_of_its_processes(stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        first, last = (await live.run("one")).turn, (await live.run("two")).turn
        marks = {first: first, last: last, live.id: last, f"pane-{live.id}": last}
        assert {mark: row.id for mark in marks if (row := turn_of_mark(o.store, mark))} == marks
        assert turn_of_mark(o.store, "nobody's") is None


async def test_what_an_agent_begins_is_one_deeper(stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        asker = (await live.run("one")).turn
        assert asked_by(o.store, {"OSTLER_TURN": asker}) == {"asked_by": asker, "depth": 1}
        assert asked_by(o.store, {}) == asked_by(o.store, {"OSTLER_TURN": "nobody's"}) == {}
