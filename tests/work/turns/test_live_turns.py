"""Turns in line: a store in trouble is waited for, and what a turn is is decided when it begins."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ostler import supervise
from ostler.errors import OstlerError
from ostler.model import Notice, TurnOptions, TurnRow
from ostler.settings import load_settings
from ostler.testing.clock import Clock
from ostler.work import LiveSession, Ostler
from ostler.work.folder_settings import loader
from ostler.work.turns.begin import begin
from waiting import until
from work.scripted import Stable, collect, turn_until


class Line:
    """A session whose first turn waits for a gate."""

    def __init__(self, o: Ostler, gate: Path, session: str) -> None:
        self.o, self.session, self._gate = o, session, gate

    async def queue(self, prompt: str = "[[say:second]]") -> str:
        """A turn that waits in line, begun as the server does it."""
        begun = await begin(await self.live(), prompt, TurnOptions(), wait=True)
        assert begun.row.state == "queued"
        return begun.row.id

    async def live(self) -> LiveSession:
        return await self.o.session(session=self.session)

    def go_on(self) -> None:
        self._gate.touch()

    async def ended(self, turn: str) -> TurnRow:
        return await until(lambda: (row := self.o.find_turn(turn)).state == "ended" and row)


@contextlib.asynccontextmanager
async def in_line(stable: Stable) -> AsyncIterator[Line]:
    gate = stable.folder / "gate"
    settings = load_settings(folder=str(stable.folder), environ=stable.env).settings
    async with Ostler(settings, stable.env, load=loader(stable.env)) as o:
        live = await o.session("script", folder=str(stable.folder))
        first = asyncio.create_task(collect(live, f"[[say:begun]] [[wait_for:{gate}]] [[say:first]]"))
        await until(lambda: any(getattr(event, "text", "") == "begun" for event in o.events(live.id)))
        yield Line(o, gate, live.id)
        gate.touch()
        await first


class Failing:
    """Stands for a method of the store, which fails as often as it is told; `None`: for ever."""

    def __init__(self, real: Callable[..., Any], times: int | None, error: Exception) -> None:
        self.real, self.times, self.error = real, times, error
        self.calls = 0

    def __call__(self, *args: Any, **more: Any) -> Any:
        self.calls += 1
        if self.times is None or self.calls <= self.times:
            raise self.error
        return self.real(*args, **more)


def fail(o: Ostler, method: str, times: int | None = None, error: Exception | None = None) -> Failing:
    failing = Failing(getattr(o.store, method), times, error or OstlerError("store", "the disk is failing"))
    setattr(o.store, method, failing)
    return failing


@pytest.mark.parametrize("method", ["data_version", "next_turn", "claim_turn", "renew_turn"])
async def test_a_store_error_does_not_give_up_a_turn_in_line(
    stable: Stable, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.001)
    async with in_line(stable) as line:
        turn = await line.queue()
        failing = fail(line.o, method, times=3)
        line.go_on()
        row = await line.ended(turn)
        assert failing.calls > 3
        assert (row.envelope.status, row.envelope.text) == ("ok", "second"), row.envelope


async def test_a_claim_that_the_store_called_failed_may_have_been_committed(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.001)
    async with in_line(stable) as line:
        turn, claim, heard = await line.queue(), line.o.store.claim_turn, []

        async def claim_unheard(*args: Any) -> int | None:
            heard.append(await claim(*args))
            if heard == [heard[-1]] and heard[0] is not None:
                raise OstlerError("store", "it failed, or so it seems")
            return heard[-1]

        monkeypatch.setattr(line.o.store, "claim_turn", claim_unheard)
        line.go_on()
        row = await line.ended(turn)
        assert heard[0] is not None and heard[1] is None
        assert (row.envelope.status, row.envelope.text) == ("ok", "second"), row.envelope
        journal = line.o.events(line.session)
        assert [event.seq for event in journal] == list(range(1, len(journal) + 1))


async def test_a_turn_ends_with_the_stores_error_where_that_lasts(stable: Stable, monkeypatch: Any) -> None:
    clock = Clock()
    try:
        async with in_line(stable) as line:
            live = await line.live()
            waiting = asyncio.create_task(collect(live, "[[say:second]]", wait=True))
            await until(lambda: len(line.o.store.turns(line.session)) == 2)
            fail(line.o, "next_turn")
            with pytest.raises(OstlerError) as caught:
                await turn_until(clock, 60, waiting)
            assert (caught.value.kind, caught.value.message) == ("store", "the disk is failing")
            row = await line.ended(line.o.store.turns(line.session)[1].id)
            assert (row.envelope.outcome, row.envelope.error.kind) == ("failed", "store")
    finally:
        clock.close()


async def test_a_cancel_does_not_wait_for_the_next_try(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(supervise, "LONGEST_PAUSE", 3600.0)
    async with in_line(stable) as line:
        live = await line.live()
        waiting = asyncio.create_task(collect(live, "[[say:second]]", wait=True))
        await until(lambda: len(line.o.store.turns(line.session)) == 2)
        failing = fail(line.o, "next_turn")
        await until(lambda: failing.calls)
        await live.cancel()
        with pytest.raises(OstlerError) as caught:
            async with asyncio.timeout(60):
                await waiting
        assert caught.value.kind == "cancelled"
        row = await line.ended(line.o.store.turns(line.session)[1].id)
        assert row.envelope.outcome == "cancelled"


async def test_what_nobody_expected_is_not_called_a_cancel(stable: Stable) -> None:
    async with in_line(stable) as line:
        turn = await line.queue()
        fail(line.o, "next_turn", error=KeyError("oats"))
        row = await line.ended(turn)
        assert (row.envelope.outcome, row.envelope.error.kind) == ("failed", "crashed")
        assert "oats" in row.envelope.error.message


# -- as of its start --------------------------------------------------------------------------------


async def test_a_queued_turn_has_the_settings_of_its_folder_when_it_begins(stable: Stable) -> None:
    file = stable.folder / "ostler.toml"
    file.write_text('tools_denied = ["web"]\n')
    async with in_line(stable) as line:
        turn = await line.queue()
        assert line.o.find_turn(turn).turn.tools_denied == ("web",)
        file.write_text('tools_denied = ["web", "search"]\naccess = "full"\n[limits]\ntotal = 100\n')
        line.go_on()
        row = await line.ended(turn)
        assert row.envelope.ok, row.envelope
        assert (row.turn.tools_denied, row.turn.limits.total) == (("web", "search"), 100.0)
        told = [e.text for e in line.o.store.events(line.session, turn=turn) if isinstance(e, Notice)]
        assert len(told) == 1 and "access ignored" in told[0]


async def test_a_queued_turn_is_refused_by_settings_that_are_wrong_by_then(stable: Stable) -> None:
    async with in_line(stable) as line:
        turn = await line.queue()
        (stable.folder / "ostler.toml").write_text('acces = "read"\n')
        line.go_on()
        row = await line.ended(turn)
        assert (row.envelope.outcome, row.envelope.error.kind) == ("failed", "bad_request")
        (stable.folder / "ostler.toml").unlink()


async def test_work_in_the_background_that_fails_is_logged(stable: Stable, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(error: Exception) -> None:
        raise error

    caplog.set_level("DEBUG", "ostler.work.turns.live_turns")
    async with stable.ostler() as o:
        o.turns.own(fail(ValueError("a slip")))
        o.turns.own(fail(OstlerError("store", "the disk is full")))
    found = {record.levelname: record for record in caplog.records if "in the background" in record.message}
    assert found["DEBUG"].message == "work in the background ended: the disk is full"
    assert found["ERROR"].exc_info is not None and str(found["ERROR"].exc_info[1]) == "a slip"
