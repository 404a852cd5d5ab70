"""A live terminal: where its bytes go, who may type into it, and how it ends."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Exit, TerminalRow
from ostler.store.redact import Redactor
from ostler.terminal.cast import CastWriter, read_cast
from ostler.terminal.display import PIECE
from ostler.terminal.keys import Key
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.screens import Screens
from ostler.terminal.viewer_protocol import Control, Gone, Leased, Paste, PressKey, ResizeTerminal, SendBytes, Type
from terminal.watching import ANN, BOB, LIMIT, ROBOT, Glass, Source, row
from waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "hunter2-is-not-a-good-one"


def refused(call: Any, *arguments: Any) -> tuple[str, str]:
    """Kind and hint of the error."""
    with pytest.raises(OstlerError) as raised:
        call(*arguments)
    return raised.value.kind, raised.value.hint


def recording(tmp_path: Path, **options: Any) -> CastWriter:
    return CastWriter(tmp_path / "cast", cols=80, rows=24, **options)


def events(tmp_path: Path) -> list[tuple[str, str]]:
    return [(event.kind, event.data) for event in read_cast(tmp_path / "cast").events()]


def taken(source: Source, terminal: LiveTerminal) -> LiveTerminal:
    terminal.take(ANN)
    return terminal


# -- output ---------------------------------------------------------------------------------------------


async def test_output_goes_to_log_recording_screen_and_viewers(screens: Screens, tmp_path: Path) -> None:
    terminal = LiveTerminal(row(), screens, cast=recording(tmp_path))
    glass = Glass(terminal)
    for number in range(100):
        terminal.output(b"\x1b[3%dmline %d\r\n" % (number % 8, number))
    await terminal.end(Exit(code=3))
    await glass.end()
    expected = [f"line {number}" for number in range(100)]
    assert terminal.text().splitlines() == expected
    assert "".join(data for kind, data in events(tmp_path) if kind == "o").count("line") == 100
    assert (await terminal.snapshot()).text[:23] == tuple(expected[77:])
    assert glass.seen[-1] == Gone(exit=Exit(code=3), offset=terminal.log.end)


async def test_text_is_the_last_characters(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, eager=False)
    terminal.output("\x1b[1mzażółć\x1b[m\r\ngęślą".encode())
    assert (terminal.text(), terminal.text(3), terminal.text(0)) == ("zażółć\ngęślą", "ślą", "")


async def test_text_among_many_controls(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, eager=False)
    for number in range(20_000):
        terminal.output(b"\x1b[38;2;%d;2;3m%d\x1b[0m" % (number % 256, number % 10))
    assert terminal.text(5_000) == "0123456789" * 500
    assert terminal.text(10**9) == terminal.text()


@pytest.mark.parametrize("cut", [1, 5, 12, len(SECRET) - 1])
async def test_secrets_reach_nobody(screens: Screens, tmp_path: Path, cut: int) -> None:
    terminal = LiveTerminal(row(), screens, cast=recording(tmp_path), redactor=Redactor([SECRET]))
    glass = Glass(terminal)
    terminal.output(b"before " + SECRET[:cut].encode())
    terminal.output(SECRET[cut:].encode() + b" after")
    await terminal.end(None)
    await glass.end()
    shown = f"before {'*' * len(SECRET)} after"
    assert terminal.text() == shown
    assert "".join(data for _, data in events(tmp_path)) == shown
    assert terminal.final and terminal.final.text[0] == shown
    assert all(SECRET[:cut] not in str(message) for message in glass.seen if cut > 1)


async def test_what_may_begin_a_secret_is_shown_when_nothing_follows(screens: Screens) -> None:
    """A key that is echoed alone."""
    terminal = LiveTerminal(row(), screens, redactor=Redactor([SECRET]))
    glass = Glass(terminal)
    terminal.output(b"$ ")
    for key in b"hunter2":
        terminal.output(bytes([key]))
    assert terminal.log.end == 2
    await glass.shows("$ hunter2")
    terminal.output(SECRET.encode())
    await glass.shows("$ hunter2" + "*" * len(SECRET))
    await glass.close()


async def test_a_full_disk_ends_the_recording_alone(screens: Screens, tmp_path: Path) -> None:
    cast = recording(tmp_path)
    terminal = LiveTerminal(row(), screens, cast=cast, controls=Source())
    terminal.output(b"recorded\r\n")
    assert cast._file
    os.dup2(os.open("/dev/full", os.O_WRONLY), cast._file.fileno())
    for number in range(5):
        terminal.output(b"line %d\r\n" % number)
        await until(lambda: not terminal._display._pending)
    terminal.take(ANN)
    terminal.input(ANN, ResizeTerminal(cols=90, rows=30))
    await terminal.end(None)
    assert terminal.text().splitlines()[-1] == "line 4"
    assert ["the recording ends here" in notice for notice in terminal.notices] == [True]
    assert events(tmp_path) == [("o", "recorded\r\n")]


async def test_a_recording_has_sizes_and_who_types_but_not_what(screens: Screens, tmp_path: Path) -> None:
    terminal = LiveTerminal(row(), screens, cast=recording(tmp_path), controls=Source())
    terminal.take(ANN)
    terminal.input(ANN, Type(text="a password"))
    terminal.input(ANN, ResizeTerminal(cols=90, rows=30))
    terminal.output(b"prompt")
    terminal.take(BOB)
    terminal.release(BOB)
    await terminal.end(None)
    words = [("m", "keyboard: Ann"), ("r", "90x30"), ("o", "prompt"), ("m", "keyboard: Bob"), ("m", "keyboard: nobody")]
    assert events(tmp_path) == words


async def test_a_large_piece_is_recorded_whole_though_the_ring_is_small(screens: Screens, tmp_path: Path) -> None:
    terminal = LiveTerminal(row(), screens, cast=recording(tmp_path), ring=10_000)
    data = b"".join(b"%d\r\n" % number for number in range(50_000))
    terminal.output(data[:1])
    terminal.output(data[1:])
    await terminal.end(None)
    assert "".join(text for _, text in events(tmp_path)).encode() == data


# -- answers --------------------------------------------------------------------------------------------


async def test_the_program_is_answered_by_the_terminal_alone(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    glass = Glass(terminal)
    terminal.output(b"\x1b]7501;?\x1b\\\x1b[c\x1b[6n")
    await terminal.snapshot()
    assert source.written == b"\x1b]7501;?ostler\x1b\\\x1b[?62;22c\x1b[1;1R"
    source.full = True
    terminal.output(b"\x1b[c")
    await terminal.snapshot()
    assert ["not delivered" in notice for notice in terminal.notices] == [True]
    await glass.close()


async def test_a_program_that_has_ended_is_not_answered(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    await terminal.snapshot()
    terminal.output(b"\x1b[c")
    await terminal.end(None)
    assert (source.written, terminal.notices) == (b"", ())


async def test_a_read_only_terminal_is_asked_in_vain(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    terminal.output(b"\x1b[chello")
    assert (await terminal.snapshot()).text[0] == "hello"
    assert terminal.notices == ()


# -- input ----------------------------------------------------------------------------------------------


async def test_each_kind_of_input(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    terminal.take(ANN)
    for message, expected in [
        (PressKey(key=Key(name="ArrowUp")), b"\x1b[A"),
        (PressKey(key=Key(name="c", mods=frozenset({"ctrl"}))), b"\x03"),
        (PressKey(key=Key(name="a", event="release")), b""),
        (Type(text="ls -l\nżółw\r\n\t"), "ls -l\rżółw\r\t".encode()),
        (Paste(text="two\nlines\x1b[201~\x03"), b"two\rlines[201~"),
        (Control(name="eof"), b"\x04"),
        (SendBytes(data=b"\x1b[<0;3;4M\xff"), b"\x1b[<0;3;4M\xff"),
    ]:
        source.written = b""
        terminal.input(ANN, message)  # type: ignore[arg-type]
        assert source.written == expected, message


async def test_keys_and_pastes_are_encoded_for_the_modes_of_the_program(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    terminal.take(ANN)
    terminal.output(b"\x1b[?1h\x1b[?2004h")
    await terminal.snapshot()
    terminal.input(ANN, PressKey(key=Key(name="ArrowUp")))
    terminal.input(ANN, Paste(text="pasted"))
    assert source.written == b"\x1bOA\x1b[200~pasted\x1b[201~"
    terminal.output(b"\x1b[>1u")
    await terminal.snapshot()
    source.written = b""
    terminal.input(ANN, PressKey(key=Key(name="Escape")))
    assert source.written == b"\x1b[27u"


async def test_what_cannot_be_typed(screens: Screens) -> None:
    source = Source()
    terminal = taken(source, LiveTerminal(row(), screens, controls=source))
    assert refused(terminal.input, ANN, PressKey(key=Key(name="NoSuchKey")))[0] == "bad_request"
    assert refused(terminal.input, ANN, Type(text="a\x1b[A"))[0] == "bad_request"
    assert refused(terminal.input, ANN, Type(text="\ud800"))[0] == "bad_request"
    source.full = True
    assert refused(terminal.input, ANN, Type(text="a"))[0] == "too_many"
    assert source.written == b""


async def test_typing_needs_the_lease(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    assert refused(terminal.input, ANN, Type(text="a")) == ("denied", "")
    terminal.take(ROBOT)
    terminal.input(ROBOT, Type(text="r"))
    assert refused(terminal.input, ANN, Type(text="a")) == ("denied", "Take it first")
    terminal.take(ANN)
    assert refused(terminal.input, ROBOT, Type(text="r"))[0] == "denied"
    terminal.input(ANN, Type(text="a"))
    terminal.release(ANN)
    terminal.input(ROBOT, Type(text="r"))
    assert (source.written, terminal.lease.holder) == (b"rar", ROBOT)


async def test_a_read_only_terminal_takes_nothing(screens: Screens) -> None:
    terminal = LiveTerminal(row(source="turn"), screens, eager=False)
    assert refused(terminal.input, ANN, Type(text="a"))[0] == "unsupported"
    assert refused(terminal.input, ANN, ResizeTerminal(cols=90, rows=30))[0] == "unsupported"
    assert refused(terminal.take, ANN)[0] == "unsupported"


async def test_an_ended_terminal_takes_nothing(screens: Screens) -> None:
    source = Source()
    terminal = taken(source, LiveTerminal(row(), screens, controls=source))
    await terminal.end(Exit(code=0))
    terminal.output(b"too late")
    for message in (Type(text="a"), ResizeTerminal(cols=90, rows=30), SendBytes(data=b"x")):
        assert refused(terminal.input, ANN, message)[0] == "not_found"
    assert refused(terminal.take, ANN)[0] == "not_found"
    assert (source.written, source.sizes, terminal.text()) == (b"", [], "")


# -- sizes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "size"), [((120, 40), (120, 40)), ((1, 1), (20, 5)), ((9_999, 9_999), (500, 200)), ((100, 2), (100, 5))]
)
async def test_a_size_is_clamped(screens: Screens, asked: tuple[int, int], size: tuple[int, int]) -> None:
    source, rows = Source(), list[TerminalRow]()
    terminal = LiveTerminal(row(), screens, controls=source, changed=rows.append)
    terminal.input(ANN, ResizeTerminal(cols=asked[0], rows=asked[1]))
    shot = await terminal.snapshot()
    assert (shot.cols, shot.rows) == (rows[-1].cols, rows[-1].rows) == source.sizes[-1] == size


@pytest.mark.parametrize("asked", [(0, 0), (-1, 24), (80, 0), (10**6, 10**6), (80, 10**6)])
async def test_what_is_no_size(screens: Screens, asked: tuple[int, int]) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    assert refused(terminal.input, ANN, ResizeTerminal(cols=asked[0], rows=asked[1]))[0] == "bad_request"
    assert (source.sizes, terminal.row.cols, terminal.row.rows) == ([], 80, 24)


async def test_the_holder_of_the_keyboard_chooses_the_size(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    terminal.input(BOB, ResizeTerminal(cols=90, rows=30))
    terminal.take(ANN)
    assert refused(terminal.input, BOB, ResizeTerminal(cols=100, rows=30)) == ("denied", "Take it first")
    terminal.input(ANN, ResizeTerminal(cols=100, rows=30))
    await terminal.snapshot()
    assert source.sizes == [(90, 30), (100, 30)]


async def test_of_a_storm_of_sizes_the_last_one_counts(screens: Screens) -> None:
    source = Source()
    terminal = LiveTerminal(row(), screens, controls=source)
    glass = Glass(terminal)
    for number in range(3_000):
        terminal.input(ANN, ResizeTerminal(cols=20 + number % 400, rows=5 + number % 100))
        if number % 100 == 0:
            terminal.output(b"%d " % number)
            await asyncio.sleep(0)
    last = (20 + 2_999 % 400, 5 + 2_999 % 100)
    assert (terminal.row.cols, terminal.row.rows) == last
    await until(lambda: source.sizes[-1] == last)
    assert len(source.sizes) < 300
    await terminal.end(None)
    await glass.until(lambda: glass.kinds[-1:] == ["exit"])
    assert glass.text() == (await terminal.snapshot()).text
    await glass.close()


# -- the end --------------------------------------------------------------------------------------------


async def test_the_end_comes_once_and_after_everything(screens: Screens, tmp_path: Path) -> None:
    rows: list[TerminalRow] = []
    cast = recording(tmp_path)
    terminal = LiveTerminal(row(), screens, cast=cast, changed=rows.append, redactor=Redactor([SECRET]))
    glasses = [Glass(terminal, acks=number % 2 == 0) for number in range(4)]
    terminal.output(b"last words " + SECRET[:6].encode())
    await asyncio.gather(terminal.end(Exit(signal=9)), terminal.end(Exit(code=0)), terminal.end(None))
    for glass in glasses:
        await glass.until(lambda glass=glass: glass.seen[-1:] == [Gone(exit=Exit(signal=9), offset=17)])
        assert glass.text()[0] == "last words hunter"
        await glass.end()
    assert [(changed.state, changed.exit, changed.size) for changed in rows] == [("ended", Exit(signal=9), 17)]
    assert rows[0].ended_at and terminal.row == rows[0]
    assert ("".join(data for _, data in events(tmp_path)), cast._file) == ("last words hunter", None)


async def test_an_ended_terminal_can_be_viewed_and_costs_little(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    for number in range(200):
        terminal.output(b"line %d\r\n" % number)
    watching = Glass(terminal)
    await terminal.end(Exit(code=0))
    await watching.end()
    early = Glass(terminal, offset=0)
    await early.end()
    assert early.kinds[0] == "hello" and "snapshot" not in early.kinds  # its end is not stored yet: the bytes are there
    terminal.free_log()
    assert terminal.log.start == terminal.log.end  # nobody watches: the bytes are gone
    late = Glass(terminal)
    await late.end()
    assert late.kinds == ["hello", "snapshot", "lease", "exit"]
    plain, whole = await terminal.snapshot(), await terminal.snapshot(history=True)
    assert whole == terminal.final
    assert (plain.text, plain.scrollback) == (whole.text, 177)
    assert (b"line 5\r" in whole.vt, b"line 5\r" in plain.vt) == (True, False)
    assert "line 5" in terminal.text().splitlines() and terminal.text().splitlines()[-1] == "line 199"
    again = Glass(terminal, offset=late.offset)
    await again.end()
    assert again.kinds == ["hello", "lease", "exit"]


async def test_who_looks_while_the_screen_is_closed_gets_the_last_one(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    terminal.output(b"the last words")
    screen = terminal._display.screen()
    close, looks = screen.close, []

    async def close_while_somebody_looks() -> None:
        closing = asyncio.ensure_future(close())
        await asyncio.sleep(0)  # it is being closed, and that is not answered yet
        looks.append(asyncio.ensure_future(terminal.snapshot()))
        await asyncio.sleep(0)
        await closing

    screen.close = close_while_somebody_looks
    await terminal.end(Exit(code=0))
    assert (await looks[0]).text[0] == "the last words"
    assert terminal.notices == ()


async def test_screens_that_are_closed_do_not_hinder_the_end(own_screens: Screens) -> None:
    terminal = LiveTerminal(row(), own_screens)
    glass = Glass(terminal)
    terminal.output(b"hello")
    await glass.shows("hello")
    await own_screens.close()
    terminal.output(b" world")
    await terminal.end(Exit(code=0))
    await glass.until(lambda: glass.kinds[-1:] == ["exit"])
    assert (glass.text()[0], terminal.text()) == ("hello world", "hello world")
    late = Glass(terminal)
    await late.until(lambda: late.kinds[-1:] == ["exit"])
    assert late.text()[0] == "hello world"
    for one in (glass, late):
        await one.close()


async def test_a_terminal_without_a_screen_is_bytes(own_screens: Screens) -> None:
    await own_screens.close()
    source = Source()
    terminal = LiveTerminal(row(), own_screens, controls=source)
    glass = Glass(terminal)
    terminal.take(ANN)
    terminal.input(ANN, PressKey(key=Key(name="ArrowUp")))
    terminal.output(b"hello")
    await glass.shows("hello")
    await terminal.end(Exit(code=0))
    await glass.end()
    assert (source.written, terminal.text(), glass.kinds[-1]) == (b"\x1b[A", "hello", "exit")
    assert "not emulated yet" in terminal.notices[0]


# -- without a screen until somebody looks --------------------------------------------------------------


async def test_nothing_is_emulated_until_somebody_looks(own_screens: Screens) -> None:
    terminal = LiveTerminal(row(), own_screens, eager=False, ring=20_000)
    for number in range(5_000):
        terminal.output(b"line %d\r\n" % number)
    assert (own_screens.pids, terminal.text().splitlines()[-1]) == ([], "line 4999")
    glass = Glass(terminal)
    await glass.shows("line 4999")
    terminal.output(b"and more")
    await glass.shows("and more")
    assert len(own_screens.pids) == 1
    await glass.close()


async def test_an_ended_one_that_nobody_looked_at(own_screens: Screens) -> None:
    terminal = LiveTerminal(row(), own_screens, eager=False)
    terminal.output(b"done\r\n")
    await terminal.end(Exit(code=0))
    assert (own_screens.pids, terminal.final) == ([], None)
    glass = Glass(terminal)
    await glass.end()
    assert glass.kinds == ["hello", "snapshot", "lease", "exit"]
    terminal.free_log()
    assert terminal.final and terminal.final.text[0] == "done" and terminal.text() == "done"


# -- the row --------------------------------------------------------------------------------------------


async def test_a_title_that_spins_is_not_stored_each_time(screens: Screens) -> None:
    rows: list[TerminalRow] = []
    terminal = LiveTerminal(row(), screens, changed=rows.append)
    for number in range(200):
        terminal.output(b"\x1b]2;working %d\x1b\\" % number)
        await terminal.snapshot()
    assert terminal.row.title == "working 199"
    await until(lambda: rows and rows[-1].title == "working 199")
    assert len(rows) < 100


async def test_its_row_counts_bells(screens: Screens) -> None:
    rows: list[TerminalRow] = []
    terminal = LiveTerminal(row(), screens, changed=rows.append)
    for _ in range(3):
        terminal.output(b"done\x07")
        await terminal.snapshot()
    await until(lambda: rows and rows[-1].bells == 3)
    assert terminal.row.bells == 3


async def test_a_title_is_harmless(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens)
    glass = Glass(terminal)
    terminal.output("\x1b]2;\u202egnp.exe <script>\x1b\\".encode())
    shot = await terminal.snapshot()
    assert shot.title == terminal.row.title == "gnp.exe <script>"
    await glass.close()


# -- the keyboard ---------------------------------------------------------------------------------------


async def test_a_viewer_that_vanishes_keeps_the_keyboard_for_a_while(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    terminal._keyboard._grace = 0.2
    ann, bob = Glass(terminal, ANN), Glass(terminal, BOB)
    terminal.take(ANN)
    await ann.close()
    assert terminal.lease.holder == ANN
    ann = Glass(terminal, ANN)
    await ann.until(lambda: ann.all(Leased))
    assert ann.all(Leased)[-1].yours
    await ann.close()
    await bob.until(lambda: bob.all(Leased)[-1:] and bob.all(Leased)[-1].holder is None)
    assert terminal.lease.holder is None
    await bob.close()


# -- real programs --------------------------------------------------------------------------------------


async def test_typing_into_a_shell(run: Any) -> None:
    terminal, pty = await run("bash", "--norc", "-i")
    ann, bob = Glass(terminal, ANN), Glass(terminal, BOB, "view")
    terminal.take(ANN)
    terminal.input(ANN, Type(text="stty size; echo $((20 + 3))-żółw\n"))
    await ann.shows("24 80", "23-żółw")
    terminal.input(ANN, ResizeTerminal(cols=100, rows=30))
    terminal.input(ANN, Type(text="stty size; cat\n"))
    await bob.shows("30 100")
    terminal.input(ANN, Type(text="meow\n"))
    await ann.until(lambda: ann.text().count("meow") == 2)
    terminal.input(ANN, Control(name="interrupt"))
    await ann.until(lambda: "^C" in ann.text()[ann.screen().cursor.y - 1])
    terminal.input(ANN, Type(text="exit 7\n"))
    async with asyncio.timeout(LIMIT):
        exit = await pty.to_end()
    await terminal.end(exit)
    for glass in (ann, bob):
        await glass.until(lambda glass=glass: glass.seen[-1:] == [Gone(exit=Exit(code=7), offset=terminal.log.end)])
        assert glass.text() == (await terminal.snapshot()).text
        await glass.end()


async def test_the_screen_process_is_killed_while_people_watch(run: Any, screens: Screens) -> None:
    """No byte is lost, no viewer, no answer, and the program notices nothing."""
    code = "for i in 1 2 3 4 5; do seq 10000 80000; printf '\\033[c'; read -r -d c answer; done; echo answered"
    terminal, pty = await run("bash", "-c", f"stty -echo; {code}")
    glasses = [Glass(terminal) for _ in range(3)]
    for number in range(5):
        await until(lambda number=number: terminal.log.end > number * 400_000 and screens.pids)
        os.kill(screens.pids[0], signal.SIGKILL)
    late = Glass(terminal)
    async with asyncio.timeout(LIMIT):
        exit = await pty.to_end()
    await terminal.end(exit)
    expected = (await terminal.snapshot()).text
    assert [line for line in expected if line][-2:] == ["80000", "answered"]
    for glass in (*glasses, late):
        await glass.until(lambda glass=glass: glass.kinds[-1:] == ["exit"])
        assert glass.text() == expected
        await glass.close()
    assert terminal.text().splitlines()[-3:] == ["79999", "80000", "answered"]


async def test_a_flood_on_twenty_terminals_hinders_nobody(run: Any, screens: Screens) -> None:
    floods = [await run("yes", f"terminal {number} says yes") for number in range(20)]
    glasses = [Glass(terminal) for terminal, _ in floods]
    shell, _ = await run("bash", "--norc", "-i")
    ann = Glass(shell)
    shell.take(ANN)
    for number in range(5):
        before = [terminal.log.end for terminal, _ in floods]
        shell.input(ANN, Type(text=f"echo $(({number} * 1000))\n"))
        await ann.shows(f"{number * 1000}")
        await until(lambda before=before: all(t.log.end > b for (t, _), b in zip(floods, before, strict=True)))
    for glass, (terminal, _) in zip(glasses, floods, strict=True):
        await glass.until(lambda glass=glass: glass.emulator and "says yes" in glass.text()[0])
        assert terminal._display._pending_size < PIECE  # all else is in the ring
    for _, flood in floods:
        flood.process.signal(signal.SIGKILL)
    for (terminal, flood), glass in zip(floods, glasses, strict=True):
        await terminal.end(await flood.to_end())
        await glass.until(lambda glass=glass: glass.kinds[-1:] == ["exit"])
        assert glass.text() == (await terminal.snapshot()).text
        await glass.close()
    await ann.close()


async def test_automation_waits_for_the_keyboard(screens: Screens) -> None:
    terminal = LiveTerminal(row(), screens, controls=Source())
    await terminal.acquire(ROBOT)
    assert terminal.lease.holder == ROBOT
    terminal.release(ROBOT)
    terminal.take(ANN)
    waiting = asyncio.create_task(terminal.acquire(ROBOT))
    await until(lambda: terminal.lease.waiting == ROBOT)
    terminal.release(ANN)
    await waiting
    assert terminal.lease.holder == ROBOT
    terminal.release(ROBOT)
    terminal.take(ANN)
    given_up = asyncio.create_task(terminal.acquire(ROBOT))
    await until(lambda: terminal.lease.waiting == ROBOT)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert terminal.lease.waiting is None  # who gave up does not get it
    last = asyncio.create_task(terminal.acquire(ROBOT))
    await until(lambda: terminal.lease.waiting == ROBOT)
    await terminal.end(None)
    with pytest.raises(OstlerError, match="has ended"):
        await last
