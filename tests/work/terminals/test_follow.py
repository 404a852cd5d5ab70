"""Following a session's primary terminal: none yet, the first, the next, chosen ones, those of other processes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ostler import supervise
from ostler.errors import OstlerError
from ostler.model import Session
from ostler.store.watch import StoreWatch
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import (
    AnyTerminalMessage,
    Gone,
    Hello,
    Refresh,
    RefusedMessage,
    SnapshotMessage,
    Type,
    Viewing,
    Want,
    encode_message,
    read_terminal_message,
)
from ostler.work import Ostler
from ostler.work.sessions.rows import new_session_row
from waiting import until
from work.far import far
from work.scripted import Stable

ANNA = Author("Anna", "person", "anna:1")

Told = AnyTerminalMessage | tuple[int, bytes]


@pytest.fixture
async def ostler(stable: Stable) -> AsyncIterator[Ostler]:
    async with stable.ostler() as o:
        yield o


@pytest.fixture
async def session(ostler: Ostler, stable: Stable) -> Session:
    row = new_session_row(ostler.store, ostler.settings, agent="script", folder=str(stable.folder))
    await ostler.store.add_session(row)
    return row


class Watched:
    """A viewing whose frames are read one after the other."""

    def __init__(self, viewing: Viewing) -> None:
        self.viewing = viewing
        self._frames = viewing.frames()

    async def until(self, wanted: Any) -> Told:
        async with asyncio.timeout(60):
            async for frame in self._frames:
                if wanted(told := read_terminal_message(frame)):
                    return told
        raise AssertionError("it ended before that came")

    async def hello(self, terminal: str | None) -> Hello:
        found = await self.until(lambda told: isinstance(told, Hello))
        assert isinstance(found, Hello)
        assert (found.terminal.id if found.terminal else None) == terminal
        return found

    async def shows(self, text: str) -> None:
        """In a snapshot, or as bytes."""
        await self.until(
            lambda told: (
                (isinstance(told, SnapshotMessage) and text in told.vt)
                or (isinstance(told, tuple) and text.encode() in told[1])
            )
        )


async def test_none_yet_then_the_first_then_the_next(ostler: Ostler, session: Session) -> None:
    watched = Watched(await ostler.terminals.follow(session.id, ANNA, "type"))
    assert (await watched.hello(None)).viewer == "anna:1"
    empty = await watched.until(lambda told: isinstance(told, SnapshotMessage))
    assert (empty.cols, empty.rows, empty.vt, empty.offset) == (80, 24, "", 0)
    first = (await ostler.terminals.open(session.id, ["sh", "-c", "echo one; exec cat"])).row.id
    await watched.hello(first)
    await watched.shows("one")
    second = (await ostler.terminals.open(session.id, ["sh", "-c", "echo two; exec cat"])).row.id
    await watched.hello(second)
    await watched.shows("two")
    await ostler.terminals.set_primary(session.id, first)
    await watched.hello(first)
    await watched.shows("one")
    await ostler.terminals.kill(first)
    await watched.hello(second)
    await watched.viewing.close()


async def test_what_is_typed_reaches_the_one_that_is_shown(ostler: Ostler, session: Session) -> None:
    watched = Watched(await ostler.terminals.follow(session.id, ANNA, "type"))
    await watched.hello(None)
    watched.viewing.receive(encode_message(Type(text="x", n=7)))
    watched.viewing.receive(encode_message(Refresh()))
    watched.viewing.receive("nonsense")
    for number, kind in ((7, "not_found"), (0, "bad_request")):
        refused = await watched.until(lambda told: isinstance(told, RefusedMessage))
        assert (refused.re, refused.problem.kind) == (number, kind)
    id = (await ostler.terminals.open(session.id, ["cat"])).row.id
    await watched.hello(id)
    watched.viewing.receive(encode_message(Want(action="take")))
    watched.viewing.receive(encode_message(Type(text="typed\n")))

    async def said_twice() -> bool:  # by the terminal, which echoes it, and by the program
        return (await ostler.terminals.text(id)).count("typed") == 2

    await until(said_twice)
    await watched.viewing.close()


async def test_it_stays_with_one_that_has_ended_until_there_is_another(ostler: Ostler, session: Session) -> None:
    watched = Watched(await ostler.terminals.follow(session.id, ANNA, "view"))
    await watched.hello(None)
    first = (await ostler.terminals.open(session.id, ["sh", "-c", "echo over"])).row.id
    await watched.hello(first)
    await watched.until(lambda told: isinstance(told, Gone))
    late = Watched(await ostler.terminals.follow(session.id, ANNA, "view"))
    await late.hello(first)  # who comes now sees the last one
    await late.shows("over")
    second = (await ostler.terminals.open(session.id, ["cat"])).row.id
    for each in (watched, late):
        await each.hello(second)
        await each.viewing.close()


async def test_closing_ends_it_and_unknown_sessions_are_not_followed(ostler: Ostler, session: Session) -> None:
    watched = Watched(await ostler.terminals.follow(session.id, ANNA, "view"))
    await watched.hello(None)
    ending = asyncio.create_task(watched.until(lambda told: isinstance(told, Gone)))
    await asyncio.sleep(0)
    await watched.viewing.close()
    with pytest.raises(AssertionError, match="it ended"):
        await ending
    with pytest.raises(OstlerError) as caught:
        await ostler.terminals.follow("nobody", ANNA, "view")
    assert caught.value.kind == "not_found"


async def test_it_goes_to_terminals_of_other_processes_and_comes_back_when_they_die(
    ostler: Ostler, session: Session, stable: Stable
) -> None:
    watched = Watched(await ostler.terminals.follow(session.id, ANNA, "type"))
    await watched.hello(None)
    here = (await ostler.terminals.open(session.id, ["cat"])).row.id
    await watched.hello(here)
    there = await far(stable, ["sh", "-c", "echo far away; exec cat"], session.id)
    try:
        await watched.hello(there.terminal)
        await watched.shows("far away")
    finally:
        there.process.kill()
        await asyncio.to_thread(there.process.communicate)
    await watched.hello(here)
    await watched.viewing.close()


async def test_an_ostler_that_closes_ends_its_followers(stable: Stable) -> None:
    async with stable.ostler() as o:
        row = new_session_row(o.store, o.settings, agent="script", folder=str(stable.folder))
        await o.store.add_session(row)
        watched = Watched(await o.terminals.follow(row.id, ANNA, "view"))
        await watched.hello(None)
    with pytest.raises(AssertionError, match="it ended"):
        await watched.until(lambda told: isinstance(told, Gone))


async def test_a_store_in_trouble_ends_no_following_and_is_told(
    ostler: Ostler, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error of the store once ended the looking for good: followers stayed where they were, unknowing."""
    monkeypatch.setattr(supervise, "LASTING", 0.0)
    first = await ostler.terminals.open(session.id, ["cat"])
    watched = Watched(await ostler.terminals.follow(session.id, ANNA, "type"))
    await watched.hello(first.row.id)
    followed, failures = ostler.terminals._followed, [1, 2, 3]
    look = StoreWatch.version

    def troubled(self: StoreWatch) -> int:
        if failures:
            failures.pop()
            raise OstlerError("store", "the disk is failing")
        return look(self)

    monkeypatch.setattr(StoreWatch, "version", troubled)
    refused = await watched.until(lambda told: isinstance(told, RefusedMessage))
    assert isinstance(refused, RefusedMessage) and refused.problem.message == "the disk is failing"
    await first.input(ANNA, Type(text="still here\r"), take=True)
    await watched.shows("still here")  # the terminal that it shows goes on
    second = await ostler.terminals.open(session.id, ["cat"])
    await watched.hello(second.row.id)
    await until(lambda: failures == [] and followed._looking.trouble is None)
    await watched.viewing.close()


async def test_those_who_follow_leave_nothing_behind(ostler: Ostler, session: Session) -> None:
    await ostler.terminals.open(session.id, ["cat"])
    before = len(ostler.store._watches)
    for _ in range(5):
        watched = Watched(await ostler.terminals.follow(session.id, ANNA, "view"))
        await watched.until(lambda told: isinstance(told, Hello))
        await watched.viewing.close()
    assert len(ostler.store._watches) == before
