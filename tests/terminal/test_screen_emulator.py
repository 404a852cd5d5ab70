"""What the emulator does with what programs send: whole rows, cursor, replies, facts and modes."""

import msgspec
import pyghostty
import pytest

from ostler.terminal.emulator import Emulator
from ostler.terminal.screen.protocol import Cursor, Modes, Progress, ScreenFacts, Snapshot, key_modes
from terminal.key_modes import read_modes
from terminal.screen_cases import HISTORIES, MODES, NOT_IN_VT, REPLIES, SHOWN, STYLED, TOLD


@pytest.fixture
def emulator():
    emulator = Emulator(20, 5)
    yield emulator
    emulator.close()


def text(emulator: Emulator) -> list[str]:
    return [row.text for row in emulator.rows(list(range(emulator.size[1])))]


@pytest.mark.parametrize(("data", "rows", "at"), [case[1:] for case in SHOWN], ids=[case[0] for case in SHOWN])
def test_shown(emulator: Emulator, data: bytes, rows: list[str], at: tuple[int, int]) -> None:
    for start in range(0, len(data), 4096):
        emulator.feed(data[start : start + 4096])
    assert text(emulator) == rows + [""] * (5 - len(rows))
    cursor = emulator.cursor()
    assert (cursor.x, cursor.y) == at


@pytest.mark.parametrize(("data", "vt"), [case[1:] for case in STYLED], ids=[case[0] for case in STYLED])
def test_styled(emulator: Emulator, data: bytes, vt: str) -> None:
    emulator.feed(data)
    assert emulator.rows([0])[0].vt == vt


@pytest.mark.parametrize(("data", "reply"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
def test_replies(emulator: Emulator, data: bytes, reply: bytes) -> None:
    assert emulator.feed(data) == reply


@pytest.mark.parametrize(("data", "facts"), [case[1:] for case in TOLD], ids=[case[0] for case in TOLD])
def test_told_once(emulator: Emulator, data: bytes, facts: ScreenFacts | None) -> None:
    emulator.feed(data)
    assert [emulator.facts(), emulator.facts()] == [facts, None]


@pytest.mark.parametrize(("data", "modes"), [case[1:] for case in MODES], ids=[case[0] for case in MODES])
def test_modes(emulator: Emulator, data: bytes, modes: Modes) -> None:
    emulator.feed(data)
    assert emulator.modes() == modes


@pytest.mark.parametrize(("data", "modes"), [case[1:] for case in MODES], ids=[case[0] for case in MODES])
def test_modes_that_come_byte_by_byte(emulator: Emulator, data: bytes, modes: Modes) -> None:
    """They are read only when they may have changed: none may be missed, wherever a sequence is cut."""
    for byte in data:
        emulator.feed(bytes([byte]))
        emulator.modes()
    assert emulator.modes() == modes


@pytest.mark.parametrize("data", [case[1] for case in MODES], ids=[case[0] for case in MODES])
def test_key_modes(emulator: Emulator, data: bytes) -> None:
    with pyghostty.Terminal(cols=20, rows=5) as terminal:
        terminal.feed(data)
        emulator.feed(data)
        assert key_modes(emulator.modes()) == read_modes(terminal)


def test_reflow(emulator: Emulator) -> None:
    emulator.feed(b"x" * 30 + b"\r\nend")
    emulator.resize(30, 5)
    assert text(emulator) == ["x" * 30, "end", "", "", ""]
    emulator.resize(20, 5)
    assert text(emulator) == ["x" * 20, "x" * 10, "end", "", ""]


def test_sizes_are_clamped(emulator: Emulator) -> None:
    sizes = []
    for size in ((0, 0), (1, 1), (-5, 10**6), (10**6, 10**6), (33, 7)):
        emulator.resize(*size)
        sizes.append(emulator.size)
    assert sizes == [(20, 5), (20, 5), (20, 500), (1000, 500), (33, 7)]


def test_resize_storm(emulator: Emulator) -> None:
    for step in range(300):
        emulator.resize(20 + step * 7 % 180, 5 + step * 3 % 50)
        emulator.feed(f"{step} 漢字🚀\r\n".encode())
    emulator.resize(40, 5)
    assert [row for row in text(emulator) if row][-1] == "299 漢字🚀"


def test_many_combining_marks(emulator: Emulator) -> None:
    emulator.feed(b"a" + "\u0301".encode() * 100_000 + b"x\r\nb")
    first, *rest = text(emulator)
    assert (first.replace("\u0301", ""), rest) == ("ax", ["b", "", "", ""])


def test_cursor_shape(emulator: Emulator) -> None:
    emulator.feed(b"\x1b[6 q\x1b[?25l")
    emulator.dirty()
    assert emulator.cursor() == Cursor(0, 0, "bar", False, False)


def test_synchronized_output(emulator: Emulator) -> None:
    states = []
    for data in (b"", b"\x1b[?2026h", b"x", b"\x1b[?2026l"):
        emulator.feed(data)
        states.append(emulator.synchronized())
    assert states == [False, True, True, False]


def test_dirty_rows(emulator: Emulator) -> None:
    assert emulator.dirty() == [0, 1, 2, 3, 4]
    emulator.feed(b"\x1b[3;1Hx")
    assert set(emulator.dirty()) <= {0, 2}  # where the cursor was counts too
    assert emulator.dirty() == []


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_a_snapshot_and_the_rest_show_the_same(at: int) -> None:
    """Cut anywhere, in sequences and characters too: VT and the bytes after it, or the checkpoint and those."""
    data = "a\x1b[31mred\x1b]2;title\x07漢🚀\x1b[2;3Hx".encode()
    data += "\x1b[?1049h\x1b[Halt\x1b[1;4mé\r\n\x1b[38:2::1:2:3mend\x1b[5 q".encode()
    whole, first = Emulator(20, 5), Emulator(20, 5)
    whole.feed(data)
    first.feed(data[:at])
    first.dirty()
    second, third = Emulator(20, 5), Emulator(20, 5, restore=first.checkpoint() or b"")
    second.feed(first.vt())
    shots = []
    for emulator, rest in ((whole, b""), (second, data[at:]), (third, data[at:])):
        emulator.feed(rest)
        emulator.dirty()
        shots.append(emulator.snapshot(0))
        emulator.close()
    first.close()
    assert shots[0].styled == shots[1].styled
    assert shots[0] == shots[2]


@pytest.mark.parametrize(("name", "data"), [case[:2] for case in SHOWN + STYLED + MODES if len(case[1]) < 10_000])
def test_the_vt_of_a_screen_and_the_rest(name: str, data: bytes) -> None:
    """Cut after each byte: who gets the VT there and then the bytes that follow sees the same in the end."""
    same = all(shown_after(data, at) == shown_after(data, len(data)) for at in range(len(data)))
    assert same == (name not in NOT_IN_VT)


def shown_after(data: bytes, at: int) -> tuple[object, ...]:
    first, second = Emulator(20, 5), Emulator(20, 5)
    first.feed(data[:at])
    first.dirty()
    second.feed(first.vt())
    second.feed(data[at:] + b"Q")
    second.dirty()
    shot = second.snapshot(0)
    first.close()
    second.close()
    return shot.styled, shot.cursor, shot.modes, shot.title, shot.cwd


def test_a_snapshot_has_everything() -> None:
    emulator = Emulator(30, 5)
    emulator.feed(b"\x1b]2;a title\x07\x1b]7;file:///tmp/x%20y\x07\x1b]9;4;1;40\x07one\r\n\x1b[1;31mred\x1b[0m")
    emulator.feed(b"\x1b[5 q\x1b[?25l\x1b[?2004h\x1b[?1003h\x1b[?1006h")
    emulator.dirty()
    shot = emulator.snapshot(99)
    emulator.close()
    assert shot == Snapshot(
        offset=99,
        cols=30,
        rows=5,
        text=("one", "red", "", "", ""),
        styled=("one", "\x1b[0m\x1b[1m\x1b[38;5;1mred\x1b[0m", "", "", ""),
        cursor=Cursor(3, 1, "bar", False, True),
        modes=Modes(bracketed_paste=True, mouse="any", mouse_sgr=True),
        title="a title",
        cwd="/tmp/x y",
        progress=Progress("set", 40),
        scrollback=0,
        vt=shot.vt,
    )
    again = Emulator(30, 5)
    again.feed(shot.vt)
    again.dirty()
    assert again.snapshot(99) == msgspec.structs.replace(shot, progress=None)
    again.close()


@pytest.mark.parametrize("data", [case[1] for case in HISTORIES], ids=[case[0] for case in HISTORIES])
def test_the_vt_of_a_screen_with_its_history(data: bytes) -> None:
    first, second = Emulator(20, 5), Emulator(20, 5)
    first.feed(b"".join(b"\x1b[3%dmline %d\x1b[0m\r\n" % (number % 8, number) for number in range(40)) + data)
    first.dirty()
    second.feed(first.vt(history=True))
    second.dirty()
    then, now = first.snapshot(0, True), second.snapshot(0, True)
    first.close()
    second.close()
    assert now == then
