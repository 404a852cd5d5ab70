"""What a viewer is sent, in which order, when it is held back, and what it may say."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ostler.model import Exit
from ostler.terminal.byte_stream import PACE
from ostler.terminal.lease import Author
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.protocol import Progress
from ostler.terminal.screen.screens import Screens
from ostler.terminal.viewer_protocol import (
    HIGH,
    LOW,
    Ack,
    FactsMessage,
    Gone,
    Hello,
    Leased,
    Refresh,
    RefusedMessage,
    ResizedMessage,
    ResizeTerminal,
    SnapshotMessage,
    Type,
    Want,
    encode_message,
    read_terminal_message,
)
from terminal.watching import ANN, BOB, LIMIT, Glass, Source, room, row
from waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def settled(glass: Glass) -> None:
    """All that it gets without saying anything has come: only news can bring more, time cannot."""
    await until(lambda: glass.at_rest)


# -- in order ---------------------------------------------------------------------------------------------


async def test_from_hello_to_exit(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    terminal.output(b"before ")
    glass = Glass(terminal, rights="view")
    await glass.shows("before")
    terminal.output(b"bytes ")
    await glass.shows("bytes")
    terminal.take(BOB)
    await glass.until(lambda: len(glass.all(Leased)) == 2)
    terminal.input(BOB, ResizeTerminal(cols=100, rows=30))
    terminal.output(b"after")
    await terminal.end(Exit(code=0))
    await glass.end()
    hello, shown, nobody, first, bob, resized, second, again, gone = glass.seen
    assert hello == Hello(terminal=row(), viewer="ann:1", rights="view")
    assert (shown.offset, shown.cols, shown.rows, shown.alternate) == (7, 80, 24, False)
    assert nobody == Leased(holder=None, yours=False)
    assert bob == Leased(holder=BOB, yours=False)
    assert (first, second) == ((7, b"bytes "), (13, b"after"))
    assert resized == ResizedMessage(cols=100, rows=30, offset=13)
    assert (again.offset, again.cols, gone) == (18, 100, Gone(exit=Exit(code=0), offset=18))


async def test_what_the_program_tells_in_passing(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    glass = Glass(terminal)
    await glass.until(lambda: glass.all(SnapshotMessage))
    terminal.output(b"\x1b]2;a title\x07\x1b]7;file:///some/folder\x07\x1b]9;4;1;50\x07\x07\x07")
    await glass.until(lambda: glass.all(FactsMessage))
    assert glass.all(FactsMessage) == [
        FactsMessage(title="a title", cwd="/some/folder", progress=Progress("set", 50), bells=2)
    ]
    late = Glass(terminal)
    await late.until(lambda: late.all(Leased))
    (shown,) = late.all(SnapshotMessage)
    assert (shown.title, shown.cwd, shown.progress) == ("a title", "/some/folder", Progress("set", 50))
    assert late.all(FactsMessage) == []
    for one in (glass, late):
        await one.close()


async def test_a_pause_ends_at_once_and_a_flood_comes_in_few_frames(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    glass = Glass(terminal)
    await glass.until(lambda: glass.all(Leased))
    began = time.monotonic()
    for _ in range(1000):
        terminal.output(b"some words\r\n")
        await asyncio.sleep(0.0001)
    await glass.until(lambda: glass.offset == 12_000)
    paces = (time.monotonic() - began) / PACE  # many, where the machine is slow
    assert glass.bytes == b"some words\r\n" * 1000
    assert len(glass.all(tuple)) <= paces + 2
    await glass.close()


async def test_characters_are_not_cut(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    glass = Glass(terminal)
    await glass.until(lambda: glass.all(Leased))
    data = "żółw 🐢 漢字 ".encode() * 300
    for at in range(0, len(data), 7):
        terminal.output(data[at : at + 7])
        await asyncio.sleep(0.001)
    await glass.until(lambda: glass.offset == len(data))
    assert "".join(part.decode() for _, part in glass.all(tuple)).encode() == data
    terminal.output("🐢".encode()[:2])
    await terminal.end(None)  # what is left is told, though it is no character
    await glass.end()
    assert glass.bytes == data + "🐢".encode()[:2]


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_a_snapshot_within_a_character(screens: Screens, cut: int) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"a " + "🐢".encode()[:cut])
    glass = Glass(terminal)
    await glass.until(lambda: glass.all(Leased))
    terminal.output("🐢".encode()[cut:])
    await glass.shows("a 🐢")
    assert glass.all(SnapshotMessage)[0].offset == 2
    await glass.close()


async def test_a_snapshot_within_a_sequence(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"\x1b[1;3")
    glass = Glass(terminal)
    await glass.until(lambda: glass.all(Leased))
    terminal.output(b"1mred")
    await glass.shows("red")
    assert glass.screen().styled == (await terminal.snapshot()).styled
    await glass.close()


async def test_history_comes_with_the_snapshot(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    for number in range(100):
        terminal.output(b"line %d\r\n" % number)
    glass = Glass(terminal)
    await glass.shows("line 99")
    assert glass.screen().scrollback == (await terminal.snapshot()).scrollback == 77
    assert glass.text() == (await terminal.snapshot()).text
    await glass.close()


async def test_a_snapshot_is_not_larger_than_people_need(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    for number in range(700):
        colours = (b"\x1b[38;2;%d;%d;%dmx" % (number % 256, at, at) for at in range(75))
        terminal.output(b"".join(colours) + b"\x1b[0m%4d\r\n" % number)
    glass = Glass(terminal)
    await glass.shows("699")
    assert len(glass.all(SnapshotMessage)[0].vt) <= 256 * 1024 < len((await terminal.snapshot(history=True)).vt)
    shot = await terminal.snapshot()
    assert glass.screen().styled == shot.styled
    assert 50 < glass.screen().scrollback < shot.scrollback
    await glass.close()


async def test_a_sequence_without_end(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    before = Glass(terminal)
    terminal.output(b"before\r\n\x1b]2;")
    for _ in range(40):
        terminal.output(b"x" * 40_000)
        await room(terminal)
    within = Glass(terminal)
    await within.shows("before")
    terminal.output(b"\x07after")
    for glass in (before, within):
        await glass.shows("before", "after")
        assert glass.text() == (await terminal.snapshot()).text
        await glass.close()


# -- coming back ------------------------------------------------------------------------------------------


async def test_coming_back_goes_on_where_it_was(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"\x1b]2;title\x07one ")
    first = Glass(terminal)
    await first.shows("one")
    await first.viewing.close()
    terminal.output(b"two ")
    second = Glass(terminal, offset=first.offset)
    second.resume(first)
    await second.shows("one two")
    assert second.kinds == ["hello", "lease", "facts", "bytes"]
    assert (second.seen[0].resumed, second.bytes) == (True, b"two ")
    await second.close()


async def comes_back(terminal: LiveTerminal, offset: int) -> bool:
    glass = Glass(terminal, offset=offset)
    await glass.until(lambda: glass.all(Leased))
    await glass.close()
    assert glass.seen[0].resumed == (not glass.all(SnapshotMessage))
    return glass.seen[0].resumed


async def test_coming_back_too_late(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, ring=50_000)
    terminal.output(b"x" * 10_000)
    assert await comes_back(terminal, 5_000)
    terminal.output(b"x" * 49_000)
    assert not await comes_back(terminal, 5_000)
    assert await comes_back(terminal, 20_000)


async def test_coming_back_with_an_offset_that_never_was(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"hello")
    assert not await comes_back(terminal, 6)
    assert not await comes_back(terminal, -1)
    assert not await comes_back(terminal, 2**63)


async def test_coming_back_after_a_resize(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    terminal.output(b"hello")
    terminal.input(ANN, ResizeTerminal(cols=100, rows=30))
    assert not await comes_back(terminal, 5)
    terminal.output(b" world")
    assert not await comes_back(terminal, 5)
    assert await comes_back(terminal, terminal.log.end)


async def test_coming_back_after_the_alternate_screen_was_left(screens: Screens) -> None:
    """Who saw the alternate screen only does not know what lay below it."""
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"below\x1b[?1049h\x1b[Habove")
    await terminal.snapshot()
    offset = terminal.log.end
    assert await comes_back(terminal, offset)
    terminal.output(b"\x1b[?1049l")
    await terminal.snapshot()
    assert not await comes_back(terminal, offset)
    assert await comes_back(terminal, terminal.log.end)


async def test_the_alternate_screen_is_left_to_what_lay_below(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    for number in range(50):
        terminal.output(b"line %d\r\n" % number)
    inside = Glass(terminal)
    await inside.shows("line 49")
    terminal.output(b"\x1b[?1049h\x1b[Habove")
    glass = Glass(terminal)
    await glass.shows("above")
    await inside.shows("above")
    assert glass.all(SnapshotMessage)[0].alternate
    terminal.output(b"\x1b[?1049l")
    await glass.shows("line 49")
    await inside.shows("line 49")
    expected = await terminal.snapshot()
    assert (glass.text(), glass.screen().scrollback) == (expected.text, expected.scrollback)
    assert (len(glass.all(SnapshotMessage)), len(inside.all(SnapshotMessage))) == (
        2,
        1,
    )  # who saw it entered needs none
    for one in (glass, inside):
        await one.close()


async def test_coming_back_before_what_lay_below_was_shown(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"below\x1b[?1049h\x1b[Habove")
    viewing = terminal.view(ANN)
    frames = viewing.frames()
    assert [type(read_terminal_message(await anext(frames))) for _ in range(3)] == [Hello, SnapshotMessage, Leased]
    terminal.output(b"\x1b[?1049l")
    assert read_terminal_message(await anext(frames)) == (
        terminal.log.end - 8,
        b"\x1b[?1049l",
    )  # before the screen has seen it
    await terminal.snapshot()
    await viewing.close()
    assert not await comes_back(terminal, terminal.log.end)
    assert await comes_back(terminal, terminal.log.end)


async def test_lines_are_wrapped_as_the_terminal_wraps_them(screens: Screens) -> None:
    """A snapshot does not tell which rows were one line, and viewers have their own rules."""
    terminal = LiveTerminal(row(), screens, controls=Source())
    terminal.output(b"x" * 200 + b"\r\n" + b"y" * 200)
    glass = Glass(terminal)
    await glass.until(lambda: glass.all(SnapshotMessage))
    terminal.input(ANN, ResizeTerminal(cols=120, rows=24))
    await glass.until(lambda: glass.text()[:4] == ("x" * 120, "x" * 80, "y" * 120, "y" * 80))
    await glass.close()


# -- held back --------------------------------------------------------------------------------------------


async def test_who_does_not_acknowledge_is_held_back(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    stalled, other = Glass(terminal, acks=False), Glass(terminal, BOB)
    await stalled.until(lambda: stalled.all(Leased))
    for _ in range(15):
        terminal.output(b"0123456789" * 1_000)
        await asyncio.sleep(0)
    await other.until(lambda: other.offset == 150_000)
    await settled(stalled)
    assert stalled.offset == HIGH
    stalled.say(Ack(offset=HIGH - LOW - 1))
    await settled(stalled)
    assert stalled.offset == HIGH
    stalled.say(Ack(offset=HIGH - LOW))
    await stalled.until(lambda: stalled.offset == 150_000)
    assert (len(stalled.all(SnapshotMessage)), stalled.bytes) == (1, b"0123456789" * 15_000)
    for one in (stalled, other):
        await one.close()


async def test_a_snapshot_in_between_makes_no_room_for_more(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    stalled = Glass(terminal, acks=False)
    await stalled.until(lambda: stalled.all(Leased))
    terminal.output(b"0123456789" * 6_000)
    await stalled.until(lambda: stalled.offset == 60_000)
    stalled.say(Refresh())
    await stalled.until(lambda: len(stalled.all(SnapshotMessage)) == 2)
    terminal.output(b"0123456789" * 9_000)
    await settled(stalled)
    assert len(stalled.bytes) == HIGH
    stalled.acks = True
    stalled.acknowledge()
    await stalled.until(lambda: stalled.offset == 150_000)
    await stalled.close()


async def test_who_was_held_back_for_long_gets_a_snapshot_instead(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    glass = Glass(terminal, acks=False)
    await glass.until(lambda: glass.all(Leased))
    for number in range(60_000):
        terminal.output(b"line %d\r\n" % number)
        if number % 1_000 == 0 and glass.offset < HIGH:
            await glass.until(lambda: glass.offset >= min(HIGH, terminal.log.end))
    await settled(glass)
    assert (glass.offset, len(glass.all(SnapshotMessage))) == (HIGH, 1)
    glass.acks = True
    glass.acknowledge()
    await glass.shows("line 59999")
    assert glass.text() == (await terminal.snapshot()).text
    assert len(glass.bytes) == HIGH  # the rest came as a snapshot
    await glass.until(lambda: glass.screen().scrollback > 1_000)  # history follows when the flood is over
    await glass.close()


async def test_a_stalled_viewer_costs_nothing(screens: Screens) -> None:
    """Neither bytes nor facts nor sizes nor leases are kept for it."""
    terminal = LiveTerminal(row(), screens, controls=Source())
    viewing = terminal.view(ANN, "type")
    frames = viewing.frames()
    await anext(frames)
    for number in range(300):
        terminal.output(b"\x1b]2;title %d\x07\x07" % number + b"x" * 5_000)
        author = ANN if number % 2 else BOB
        terminal.take(author)
        terminal.input(author, ResizeTerminal(cols=80 + number % 20, rows=24))
        await terminal.snapshot()
    assert viewing._messages == type(viewing._messages)()
    rest = [read_terminal_message(await anext(frames)) for _ in range(2)]
    assert [type(message) for message in rest] == [SnapshotMessage, Leased]
    assert (rest[0].title, rest[0].offset) == ("title 299", terminal.log.end)
    await viewing.close()
    assert [frame async for frame in frames] == []


@pytest.mark.parametrize("offset", [6, 10**15, -1])
async def test_acknowledging_what_was_never_sent(screens: Screens, offset: int) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"hello")
    glass = Glass(terminal)
    await glass.shows("hello")
    glass.say(Ack(offset=offset, n=7))
    glass.say(Ack(offset=2))  # going back is no mistake worth mentioning
    await glass.until(lambda: glass.all(RefusedMessage))
    terminal.output(b" world")
    await glass.shows("hello world")
    assert glass.errors == [("bad_request", 7)]
    await glass.close()


async def test_acknowledging_less_than_before_changes_nothing(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    glass = Glass(terminal)
    await glass.until(lambda: glass.all(Leased))
    for end in range(10_000, 190_001, 10_000):
        terminal.output(b"x" * 10_000)
        await glass.until(lambda end=end: glass.offset == end)
        glass.say(Ack(offset=0))
    assert (glass.errors, len(glass.all(SnapshotMessage))) == ([], 1)
    await glass.close()


async def test_a_snapshot_can_be_asked_for(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"hello")
    glass = Glass(terminal, rights="view")
    await glass.shows("hello")
    for _ in range(100):
        glass.say(Refresh())
    await glass.until(lambda: len(glass.all(SnapshotMessage)) == 2)
    await terminal.snapshot()  # whatever was asked for before it has come
    await settled(glass)
    assert (len(glass.all(SnapshotMessage)), glass.errors) == (2, [])
    await glass.close()


async def test_a_hundred_viewers_at_once_share_a_snapshot(own_screens: Screens) -> None:
    terminal = LiveTerminal(row(), own_screens)
    for number in range(1_000):
        terminal.output(b"line %d\r\n" % number)
    viewings = [terminal.view(Author(f"viewer {number}"), "view") for number in range(100)]
    frames = [viewing.frames() for viewing in viewings]
    async with asyncio.timeout(LIMIT):
        assert all([isinstance(read_terminal_message(await anext(one)), Hello) for one in frames])
        shown = await asyncio.gather(*(anext(one) for one in frames))
    assert "line 999" in str(shown[0])
    assert len({id(frame) for frame in shown}) == 1
    for viewing in viewings:
        await viewing.close()
    assert terminal.viewers == 0


async def test_a_screen_that_cannot_be_looked_at_leaves_the_bytes(own_screens: Screens) -> None:
    terminal = LiveTerminal(row(), own_screens, controls=Source())
    terminal.output(b"first\r\n")
    await terminal.snapshot()
    await own_screens.close()
    terminal.output(b"second\r\n")
    glass = Glass(terminal)
    await glass.shows("first", "second")
    terminal.output(b"third")
    await glass.shows("third")
    terminal.input(ANN, ResizeTerminal(cols=40, rows=10))
    await glass.until(lambda: glass.all(ResizedMessage))
    assert (glass.emulator and glass.emulator.size) == (40, 10)
    await glass.close()


# -- what it may say --------------------------------------------------------------------------------------


async def test_typing_by_a_viewer(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    ann, bob = Glass(terminal, ANN), Glass(terminal, BOB)
    ann.say(Type(text="x", n=1))
    ann.say(Want(action="take", n=2))
    ann.say(Type(text="ls\n", n=3))
    bob.say(Type(text="rm", n=4))
    bob.say(ResizeTerminal(cols=90, rows=30, n=5))
    ann.say(ResizeTerminal(cols=0, rows=0, n=6))
    await bob.until(lambda: bob.all(Leased)[-1:] and bob.all(Leased)[-1].holder == ANN)
    bob.say(Want(action="take"))
    await ann.until(lambda: ann.all(Leased)[-1:] and ann.all(Leased)[-1].holder == BOB)
    bob.say(Want(action="release"))
    await ann.until(lambda: ann.all(Leased)[-1].holder is None)
    assert (source.written, source.sizes) == (b"ls\r", [])
    assert (ann.errors, bob.errors) == ([("denied", 1), ("bad_request", 6)], [("denied", 4), ("denied", 5)])
    assert [leased.yours for leased in bob.all(Leased)][-3:] == [False, True, False]
    for one in (ann, bob):
        await one.close()


async def test_who_may_only_watch(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    glass = Glass(terminal, rights="view")
    for number, message in enumerate([Type(text="x"), ResizeTerminal(cols=90, rows=30), Want(action="take")]):
        glass.viewing.receive(encode_message(message).replace("{", f'{{"n":{number + 1},', 1))
    await glass.until(lambda: len(glass.all(RefusedMessage)) == 3)
    assert glass.errors == [("denied", 1), ("denied", 2), ("denied", 3)]
    assert (source.written, source.sizes, terminal.lease.holder) == (b"", [], None)
    await glass.close()


GARBAGE: list[str | bytes] = [
    b"\x00\x01",
    "",
    "not json",
    "[]",
    '{"kind":"no such thing"}',
    '{"kind":"ack"}',
    '{"kind":"ack","offset":"x"}',
    '{"kind":"key","key":{"name":"a","unknown":1}}',
    '{"kind":"text","text":"' + "x" * (1 << 20) + '"}',
    '{"kind":"text","text":"\\ud800"}',
    "[" * 100_000,
    '{"kind":"raw","data":"not base64!"}',
    '{"kind":"resize","cols":1e99,"rows":5}',
    '{"kind":"control","name":"reboot"}',
]


async def test_garbage_is_answered_to_the_one_who_sent_it(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    ann, bob = Glass(terminal, ANN), Glass(terminal, BOB)
    terminal.take(ANN)
    for frame in GARBAGE:
        ann.viewing.receive(frame)
    await ann.until(lambda: len(ann.errors) == len(GARBAGE))
    assert {kind for kind, _ in ann.errors} == {"bad_request"}
    terminal.output(b"still there")
    for one in (ann, bob):
        await one.shows("still there")
    assert bob.errors == []
    for one in (ann, bob):
        await one.close()


async def ended(glass: Glass) -> list[Any]:
    await until(lambda: glass.ended)
    return glass.seen


@pytest.mark.parametrize("frame", ["garbage", encode_message(Ack(offset=0))])
async def test_too_many_frames_end_the_viewer_alone(screens: Screens, frame: str) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    ann, bob = Glass(terminal, ANN), Glass(terminal, BOB)
    await ann.until(lambda: ann.all(Leased))
    sent = 0
    while not ann.ended and sent < 100_000:
        ann.viewing.receive(frame)
        sent += 1
        if sent % 50 == 0:
            await asyncio.sleep(0)
    assert 200 <= sent < 20_000
    assert (await ended(ann))[-1].problem.kind == "too_many"
    assert terminal.viewers == 1
    ann.say(Type(text="x"))  # in vain
    terminal.output(b"still there")
    await bob.shows("still there")
    for one in (ann, bob):
        await one.close()


async def test_who_asks_on_and_reads_nothing(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    viewing = terminal.view(ANN, "type")
    start = time.monotonic()
    for _ in range(3_000):
        viewing.receive("garbage")
    if time.monotonic() - start < 5:
        assert terminal.viewers == 0
    kinds = [read_terminal_message(frame) async for frame in viewing.frames()]
    assert len(kinds) <= 402
    assert (kinds[0].terminal.id, kinds[-1].problem.kind) == ("t1", "too_many")
    await viewing.close()


async def test_closing_is_idempotent_and_ends_the_frames(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    viewing = terminal.view(ANN)
    frames: AsyncIterator[Any] = viewing.frames()
    await anext(frames)
    waiting = asyncio.ensure_future(anext(frames, None))
    await asyncio.sleep(0)
    await viewing.close()
    await viewing.close()
    async with asyncio.timeout(LIMIT):
        assert await waiting is None
    assert terminal.viewers == 0
    viewing.receive(encode_message(Ack(offset=0)))


async def test_a_reader_that_is_cancelled_loses_nothing(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    viewing = terminal.view(ANN)
    seen: list[Any] = []

    async def read() -> None:
        async for frame in viewing.frames():
            seen.append(read_terminal_message(frame))

    for number in range(5):
        reading = asyncio.ensure_future(read())
        terminal.output(b"%d" % number)
        await until(lambda number=number: number > 0 or len(seen) > 2)
        reading.cancel()
        await asyncio.wait([reading])
    await terminal.end(None)
    await asyncio.ensure_future(read())
    shown = next(message for message in seen if isinstance(message, SnapshotMessage))
    data = b"".join(message[1] for message in seen if isinstance(message, tuple))
    assert b"01234".endswith(data) and shown.offset + len(data) == 5
    assert isinstance(seen[-1], Gone)
    await viewing.close()
