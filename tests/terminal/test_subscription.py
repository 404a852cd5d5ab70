"""What programs follow of a terminal: numbered, without loss, to the end."""

import asyncio
import gc
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Exit
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.protocol import Snapshot, Update
from ostler.terminal.screen.screens import Screens
from ostler.terminal.subscription import Subscription
from ostler.terminal.viewer_protocol import Gone, ResizeTerminal
from terminal.watching import ANN, LIMIT, Reader, Source, row

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_snapshot_then_updates_then_the_end(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"first line\r\n")
    reader = Reader(terminal.subscribe())
    first = await reader.read()
    assert isinstance(first, Snapshot) and first.text[0] == "first line"
    terminal.output(b"second\x07\x1b]2;title\x07")
    second = await reader.read()
    while not second.changed:  # facts may come before the rows
        second = await reader.read()
    assert ([changed.text for changed in second.changed], second.cursor.x) == (["second"], 6)
    assert (reader.bells, reader.titles) == (1, ["title"])
    terminal.output(b"\r\nlast words")
    await terminal.end(Exit(code=4))
    assert await reader.to_end() == Gone(exit=Exit(code=4), offset=terminal.log.end)
    assert reader.shown() == (await terminal.snapshot()).styled
    with pytest.raises(StopAsyncIteration):
        await anext(reader.subscription)


async def test_what_cannot_be_followed_is_not_kept(own_screens: Screens) -> None:
    await own_screens.close()
    terminal = LiveTerminal(row(), own_screens)
    for _ in range(3):
        with pytest.raises(OstlerError, match="screens are closed"):
            terminal.subscribe()
    subscribers = terminal._subscribers  # those of other tests may be there still
    assert not [o for o in gc.get_objects() if isinstance(o, Subscription) and o._subscribers is subscribers]


async def test_a_resize_is_an_update(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    terminal.output(b"x" * 90)
    reader = Reader(terminal.subscribe())
    await reader.read()
    terminal.input(ANN, ResizeTerminal(cols=100, rows=30))
    update = await reader.read()
    assert isinstance(update, Update)
    assert (update.cols, update.rows, update.whole, update.changed[0].text) == (100, 30, True, "x" * 90)
    reader.subscription.close()


async def test_snapshots_in_between(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    reader = Reader(terminal.subscribe(snapshot_every=2))
    await reader.read()
    for number in range(5):
        terminal.output(b"%d " % number)
        await reader.read()
    assert reader.kinds == ["Snapshot", "Update", "Update", "Snapshot", "Update", "Update"]
    assert reader.shown()[0] == "0 1 2 3 4 "[: len(reader.shown()[0])] and "4" in reader.shown()[0]
    reader.subscription.close()


async def test_a_slow_reader_gets_a_snapshot_and_misses_nothing(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    slow, quick = Reader(terminal.subscribe(buffer=3)), Reader(terminal.subscribe())
    await slow.read()
    await quick.read()
    for number in range(8):
        terminal.output(b"\x1b]2;title %d\x07\x07line %d\r\n" % (number, number))
        await quick.read()
    await slow.read()
    assert (slow.kinds, quick.kinds) == (["Snapshot", "Snapshot"], ["Snapshot"] + ["Update"] * 8)
    assert slow.shown()[:8] == tuple(f"line {number}" for number in range(8))
    terminal.output(b"more")
    await terminal.end(None)
    for reader in (slow, quick):
        await reader.to_end()
        assert reader.shown() == (await terminal.snapshot()).styled
        assert (reader.bells, reader.titles[-1]) == (8, "title 7")


async def test_a_reader_that_never_read_before_the_end(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    reader = Reader(terminal.subscribe(buffer=1))
    for number in range(100):
        terminal.output(b"line %d\r\n" % number)
    await terminal.end(Exit(code=0))
    assert [type(await reader.read()).__name__ for _ in range(2)] == ["Snapshot", "Gone"]
    assert reader.shown() == (await terminal.snapshot()).styled


async def test_a_subscription_to_an_ended_terminal(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, eager=False)
    terminal.output(b"done")
    await terminal.end(Exit(code=0))
    reader = Reader(terminal.subscribe())
    await reader.to_end()
    assert (reader.kinds, reader.shown()[0]) == (["Snapshot", "Gone"], "done")


async def test_a_read_that_is_cancelled_loses_nothing(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    reader = Reader(terminal.subscribe())
    for number in range(20):
        reading = asyncio.ensure_future(reader.read())
        await asyncio.sleep(0)
        terminal.output(b"%d\r\n" % number)
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
    await terminal.end(None)
    await reader.to_end()
    assert reader.shown() == (await terminal.snapshot()).styled


async def test_closing(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    first, second = Reader(terminal.subscribe()), Reader(terminal.subscribe())
    await first.read()
    await second.read()
    waiting = asyncio.ensure_future(anext(first.subscription, None))
    await asyncio.sleep(0)
    first.subscription.close()
    first.subscription.close()
    assert await asyncio.wait_for(waiting, LIMIT) is None
    terminal.output(b"for the second")
    await second.read()
    assert second.shown()[0] == "for the second"
    second.subscription.close()
    third = Reader(terminal.subscribe())  # after nobody followed it
    assert (await third.read(), third.shown()[0])[1] == "for the second"
    await terminal.end(None)
    await third.to_end()


@pytest.mark.parametrize("wrong", [{"buffer": 0}, {"snapshot_every": 0}, {"buffer": -5}])
async def test_bad_requests(screens: Screens, wrong: Any) -> None:
    terminal = LiveTerminal(row(), screens, eager=False)
    with pytest.raises(OstlerError) as raised:
        terminal.subscribe(**wrong)
    assert raised.value.kind == "bad_request"
