"""A disk that is full while turns run, and has room again later: a real one, of a few megabytes."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import Ended, TurnRow
from ostler.process import tree
from ostler.work import Ostler
from ostler.work.sessions.rows import new_session_row
from ostler.work.turns import unwritten
from ostler.work.turns.journal import Journal
from waiting import until
from work.scripted import Stable, collect


class Disk:
    """4 MB, and something that can be put in the way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Until nothing at all can be written: the store keeps room of its own in files that were longer."""
        with self._ballast.open("ab", buffering=0) as file:
            while shutil.disk_usage(self.folder).free:
                file.write(b"\0" * 4096)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(mounted: Callable[[int], Path], stable: Stable) -> Disk:
    """The state folder is on it."""
    folder = mounted(4)
    stable.state = folder / "state"
    return Disk(folder)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten, "_LAST_TRY", 0.5)


def seqs(o: Ostler, session: str) -> list[int]:
    return [event.seq for event in o.events(session)]


def flood(stable: Stable) -> Path:
    """An agent that waits for the gate, and then says more than the disk holds."""
    gate = stable.folder / "gate"
    stable.script.plays([{"say": "begun"}, {"wait_for": str(gate)}, {"flood": 20_000}, {"say": "done"}])
    return gate


def has_begun(o: Ostler, session: str) -> bool:
    return any(getattr(event, "text", "") == "begun" for event in o.events(session))


def ended(o: Ostler, turn: str) -> TurnRow | None:
    row = o.store.turn(turn)
    return row if row is not None and row.state == "ended" else None


async def test_the_owner_ends_its_turns_when_it_can_write_again(stable: Stable, disk: Disk) -> None:
    gate = flood(stable)
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        task = asyncio.create_task(collect(session, "go"))
        await until(lambda: has_begun(o, session.id))
        turn = o.store.next_turn(session.id)
        assert turn
        disk.fill()
        gate.touch()
        with pytest.raises(OstlerError) as raised:
            await task
        assert raised.value.kind == "store"
        assert tree.marked(turn) == [] and not ended(o, turn)
        other = await asyncio.wait_for(o.doctor(["script"]), 60)  # nothing else of the process waits for the disk
        assert other
        disk.free()
        row = await until(lambda: ended(o, turn))
        error = row.envelope.error
        assert (row.envelope.outcome, error.kind) == ("failed", "store"), row.envelope
        assert "full" in error.message and "gone" not in error.message
        journal = o.events(session.id)
        assert [e.seq for e in journal] == list(range(1, len(journal) + 1))
        assert isinstance(journal[-1], Ended) and journal[-1].error == error
        await until(lambda: not o.store.terminals(live=True))
        stable.script.plays([{"say": "again"}])
        again = await o.session(session=session.id)
        await collect(again, "once more")
        assert again.last and again.last.ok
        assert seqs(o, session.id) == list(range(1, len(o.events(session.id)) + 1))


async def test_a_turn_that_cannot_even_start_is_ended_too(stable: Stable, disk: Disk) -> None:
    """It was stored as starting, then the disk was full: it stayed so for ever."""
    stable.script.plays([{"flood": 20_000}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        begin = o.store.begin_turn

        async def begin_and_fill(row: TurnRow, *gate: object) -> int | None:
            seq = await begin(row, *gate)
            disk.fill()
            return seq

        o.store.begin_turn = begin_and_fill
        with pytest.raises(OstlerError) as raised:
            await collect(session, "go")
        assert raised.value.kind == "store"
        (row,) = o.store.turns(session.id)
        assert row.state == "starting"
        disk.free()
        row = await until(lambda: ended(o, row.id))
        assert row.envelope and row.envelope.error and row.envelope.error.kind == "store"
        assert seqs(o, session.id) == list(range(1, len(o.events(session.id)) + 1))


async def test_a_queued_turn_that_is_cancelled_on_a_full_disk_is_ended_later(stable: Stable, disk: Disk) -> None:
    gate = stable.folder / "gate"
    stable.script.plays([{"say": "begun"}, {"wait_for": str(gate)}])
    async with stable.ostler() as o, stable.ostler() as other:
        session = await o.session("script", folder=str(stable.folder))
        first = asyncio.create_task(collect(session, "first"))
        await until(lambda: has_begun(o, session.id))
        rival = await other.session(session=session.id)
        second = asyncio.create_task(collect(rival, "second", wait=True))
        await until(lambda: len(o.store.turns(session.id)) == 2)
        disk.fill()
        await rival.cancel()
        with pytest.raises(OstlerError) as raised:
            await second
        assert raised.value.kind == "cancelled"
        disk.free()
        row = await until(lambda: ended(other, o.store.turns(session.id)[1].id))
        assert row.envelope.outcome == "cancelled"
        gate.touch()
        await first
        assert session.last and session.last.ok


async def test_what_could_not_be_written_before_the_process_ended_is_ended_at_the_next_start(
    stable: Stable, disk: Disk
) -> None:
    gate = flood(stable)
    with pytest.raises(OstlerError) as raised:
        async with stable.ostler() as o:
            session = await o.session("script", folder=str(stable.folder))
            task = asyncio.create_task(collect(session, "go"))
            await until(lambda: has_begun(o, session.id))
            disk.fill()
            gate.touch()
            await task
    assert raised.value.kind == "store"
    disk.free()
    async with stable.ostler() as later:
        (row,) = later.store.turns(session.id)
        assert row.envelope and row.envelope.outcome == "crashed" and row.envelope.error
        assert "did not write how it ended" in row.envelope.error.message
        assert later.store.owners() == [later.store.owner(later.desk.id)]
        assert later.store.terminals(live=True) == []
        assert seqs(later, session.id) == list(range(1, len(later.events(session.id)) + 1))


async def test_a_terminal_whose_end_cannot_be_written_is_ended_later(stable: Stable, disk: Disk) -> None:
    async with stable.ostler() as o:
        row = new_session_row(o.store, o.settings, agent="script", folder=str(stable.folder))
        await o.store.add_session(row)
        terminal = await o.terminals.open(row.id, ["cat"])
        disk.fill()
        await o.terminals.kill(terminal.row.id)
        stored = o.store.terminal(terminal.row.id)
        assert stored and stored.state == "live" and terminal.row.id in o.unwritten
        disk.free()
        await until(lambda: o.store.terminal(terminal.row.id).state == "ended")


async def test_a_write_that_fails_gives_its_numbers_back(stable: Stable, disk: Disk) -> None:
    """Once a failed write kept them: the journal went from 74 to 715."""
    from ostler.model import Raw, Session, Turn
    from ostler.store import Redactor, Store

    with Store.open(stable.state) as store:
        await store.add_session(Session(id="s", agent="script", folder="/", access="read", created_at=0, used_at=0))
        turn = Turn(id="t", session="s", agent="script", prompt="x", folder="/")
        first = await store.begin_turn(TurnRow(id="t", session="s", state="starting", turn=turn, created_at=0))
        journal = Journal(store, "s", "t", first, Redactor(set()))
        await journal.add([Raw(line="one")], first=True)
        disk.fill()
        failures = 0
        for _ in range(50):
            try:
                await journal.add([Raw(line="x" * 2000)] * 20)
            except OstlerError:
                failures += 1
        assert failures
        disk.free()
        await journal.add([Raw(line="after")])
        found = [event.seq for event in store.events("s")]
        assert found == list(range(1, len(found) + 1))
