"""What the emulator does with what programs send: a table of whole rows, cursor and replies."""

from socket import gethostname

import msgspec
import pyghostty
import pytest

from ostler.terminal.emulator import Emulator
from ostler.terminal.keys import read_modes
from ostler.terminal.screen_words import Cursor, Facts, Modes, Progress, Snapshot, key_modes

CJK = "漢字"
# name, bytes, the rows of a 20 × 5 screen (blank ones at the end left out), the cursor
SHOWN: list[tuple[str, bytes, list[str], tuple[int, int]]] = [
    ("plain", b"one\r\ntwo", ["one", "two"], (3, 1)),
    ("wrap", b"x" * 25, ["x" * 20, "x" * 5], (5, 1)),
    ("wrap is pending in the last column", b"x" * 20, ["x" * 20], (19, 0)),
    ("no autowrap", b"\x1b[?7l" + b"x" * 24 + b"y", ["x" * 19 + "y"], (19, 0)),
    ("scroll", b"1\r\n2\r\n3\r\n4\r\n5\r\n6", ["2", "3", "4", "5", "6"], (1, 4)),
    ("cursor motion", b"\x1b[3;4Hab\x1b[Ac\x1b[2Dd\x1b[Be", ["", "    dc", "   abe"], (6, 2)),
    ("erase line", b"abcdef\x1b[3D\x1b[K", ["abc"], (3, 0)),
    ("erase display", b"a\r\nb\x1b[2J\x1b[Hc", ["c"], (1, 0)),
    ("insert characters", b"abc\x1b[2G\x1b[2@", ["a  bc"], (1, 0)),
    ("delete characters", b"abcdef\x1b[2G\x1b[2P", ["adef"], (1, 0)),
    ("insert lines", b"a\r\nb\r\nc\x1b[2;1H\x1b[L", ["a", "", "b", "c"], (0, 1)),
    ("delete lines", b"a\r\nb\r\nc\x1b[1;1H\x1b[M", ["b", "c"], (0, 0)),
    ("erase characters", b"abcdef\x1b[2G\x1b[3X", ["a   ef"], (1, 0)),
    ("repeat", b"a\x1b[4b", ["aaaaa"], (5, 0)),
    ("insert mode", b"abc\x1b[1G\x1b[4hxy\x1b[4l", ["xyabc"], (2, 0)),
    ("tabs", b"a\tb\tc", ["a       b       c"], (17, 0)),
    ("tab set and clear", b"\x1b[3g\x1b[5G\x1bH\r\tx", ["    x"], (5, 0)),
    ("back tab", b"abcdefghij\x1b[Zx", ["abcdefghxj"], (9, 0)),
    ("scroll region", b"a\r\nb\r\nc\r\nd\r\ne\x1b[2;4r\x1b[4;1H\nX", ["a", "c", "d", "X", "e"], (1, 3)),
    ("reverse index", b"a\r\nb\x1b[H\x1bMtop", ["top", "a", "b"], (3, 0)),
    ("origin mode", b"\x1b[2;4r\x1b[?6h\x1b[1;1Hx\x1b[9;9Hy", ["", "x", "", "        y"], (9, 3)),
    ("save and restore", b"\x1b[2;3H\x1b7\x1b[Hx\x1b8y", ["x", "  y"], (3, 1)),
    ("line drawing", b"\x1b(0lqk\x1b(B!", ["┌─┐!"], (4, 0)),
    ("wide characters", CJK.encode() + b"x", [CJK + "x"], (5, 0)),
    ("a wide one does not fit", b"x" * 19 + "漢".encode(), ["x" * 19, "漢"], (2, 1)),
    ("half of a wide one is overwritten", "漢".encode() + b"\x1b[2Gx", [" x"], (2, 0)),
    ("emoji", "🚀a".encode(), ["🚀a"], (3, 0)),
    ("combining marks", "e\u0301x".encode(), ["e\u0301x"], (2, 0)),
    ("invalid UTF-8", b"a\xff\xc3(b", ["a\ufffd\ufffd(b"], (5, 0)),
    ("alternate screen", b"below\x1b[?1049h\x1b[Habove", ["above"], (5, 0)),
    ("back from it", b"below\x1b[?1049h\x1b[Habove\x1b[?1049l", ["below"], (5, 0)),
    ("unterminated OSC", b"a\x1b]0;" + b"x" * 1_000_000, ["a"], (1, 0)),
    ("and its end", b"a\x1b]0;" + b"x" * 1_000_000 + b"\x07b", ["ab"], (2, 0)),
    ("unterminated DCS", b"a\x1bP" + b"q" * 1_000_000 + b"\x1b\\b", ["ab"], (2, 0)),
    ("unterminated APC", b"a\x1b_" + b"q" * 1_000_000 + b"\x1b\\b", ["ab"], (2, 0)),
    ("reset", b"abc\x1b[31m\x1bcx", ["x"], (1, 0)),
    ("unknown sequences", b"a\x1b[?99999h\x1b[>7;7;7z\x1b]99999;x\x07b", ["ab"], (2, 0)),
]

STYLED = [
    ("bold", b"\x1b[1mx", "\x1b[0m\x1b[1mx\x1b[0m"),
    ("256 colours", b"\x1b[38;5;200mx", "\x1b[0m\x1b[38;5;200mx\x1b[0m"),
    ("256 colours, colons", b"\x1b[38:5:200mx", "\x1b[0m\x1b[38;5;200mx\x1b[0m"),
    ("true colour", b"\x1b[38;2;1;2;3mx", "\x1b[0m\x1b[38;2;1;2;3mx\x1b[0m"),
    ("true colour, colons", b"\x1b[38:2::1:2:3mx", "\x1b[0m\x1b[38;2;1;2;3mx\x1b[0m"),
    ("true colour, short colons", b"\x1b[48:2:1:2:3mx", "\x1b[0m\x1b[48;2;1;2;3mx\x1b[0m"),
    ("reset", b"\x1b[31mx\x1b[my", "\x1b[0m\x1b[38;5;1mx\x1b[0my"),
    ("a link leaves its text", b"\x1b]8;;javascript:x\x07a\x1b]8;;\x07", "a"),
]

REPLIES = [
    ("DA1", b"\x1b[c", b"\x1b[?62;22c"),
    ("DA2", b"\x1b[>c", b"\x1b[>1;0;0c"),
    ("DSR", b"\x1b[5n", b"\x1b[0n"),
    ("CPR", b"\x1b[2;3H\x1b[6n", b"\x1b[2;3R"),
    ("DECRQM set", b"\x1b[?2026h\x1b[?2026$p", b"\x1b[?2026;1$y"),
    ("DECRQM unknown", b"\x1b[?9999$p", b"\x1b[?9999;0$y"),
    ("DECRQSS", b"\x1bP$qm\x1b\\", b"\x1bP1$r0m\x1b\\"),
    ("XTVERSION", b"\x1b[>q", b"\x1bP>|ostler\x1b\\"),
    ("XTGETTCAP", b"\x1bP+q544e\x1b\\", b"\x1bP1+r544E=787465726D2D323536636F6C6F72\x1b\\"),
    ("kitty push, query, pop", b"\x1b[>5u\x1b[?u\x1b[<u\x1b[?u", b"\x1b[?5u\x1b[?0u"),
    ("colours", b"\x1b]10;?\x07\x1b]11;?\x07", b"\x1b]10;rgb:d8d8/d8d8/d8d8\x07\x1b]11;rgb:1010/1010/1414\x07"),
    ("colour scheme", b"\x1b[?996n", b"\x1b[?997;1n"),
    ("size", b"\x1b[18t", b"\x1b[8;5;20t"),
    ("state before DA1", b"\x1b]7501;?\x1b\\\x1b[c", b"\x1b]7501;?ostler\x1b\\\x1b[?62;22c"),
    ("no title report", b"\x1b]2;rm -rf\x07\x1b[21t", b""),
    ("no clipboard", b"\x1b]52;c;?\x07\x1b]52;c;aGk=\x07", b""),
    ("no pictures", b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\", b""),
]

TOLD = [
    ("title", b"\x1b]2;one\x07\x1b]0;two\x1b\\", Facts(title="two")),
    ("folder", b"\x1b]7;file://localhost/tmp/a%20b\x07", Facts(cwd="/tmp/a b")),
    ("folder of this machine", f"\x1b]7;file://{gethostname()}/tmp\x07".encode(), Facts(cwd="/tmp")),
    ("folder as kitty tells it", b"\x1b]7;kitty-shell-cwd:///tmp/a b%20\x07", Facts(cwd="/tmp/a b%20")),
    ("folder of another machine", b"\x1b]7;file://elsewhere.example/tmp\x07", None),
    ("title that acts", "\x1b]2;a\u202eb\u0085c\x07".encode(), Facts(title="abc")),
    ("the same title twice", b"\x1b]2;\x07\x1b]2;\x07", None),
    ("bells", b"\x07\x07a\x07", Facts(bells=3)),
    ("progress", b"\x1b]9;4;1;50\x07", Facts(progress=Progress("set", 50))),
    ("progress without end", b"\x1b]9;4;3\x07", Facts(progress=Progress("indeterminate"))),
    ("progress done", b"\x1b]9;4;1;50\x07\x1b]9;4;0\x07", Facts(progress="none")),
    ("note", b"\x1b]9;ready\x07", Facts(notes=(("", "ready"),))),
    ("states", b"\x1b]7501;state=working\x07\x1b]7501;state=done\x07", Facts(states=("state=working", "state=done"))),
    ("BEL that ends an OSC is no bell", b"\x1b]2;x\x07", Facts(title="x")),
]

MODES = [
    ("none", b"", Modes()),
    ("bracketed paste", b"\x1b[?2004h", Modes(bracketed_paste=True)),
    ("mouse", b"\x1b[?1000h\x1b[?1006h", Modes(mouse="press", mouse_sgr=True)),
    ("mouse motion", b"\x1b[?1000h\x1b[?1002h\x1b[?1003h", Modes(mouse="any")),
    ("mouse off again", b"\x1b[?1002h\x1b[?1002l", Modes()),
    ("focus", b"\x1b[?1004h", Modes(focus=True)),
    ("application keys", b"\x1b[?1h\x1b=", Modes(application_cursor=True, application_keypad=True)),
    ("kitty", b"\x1b[>1u\x1b[>5u", Modes(kitty=5)),
    ("among what is no mode of ours", b"\x1b[?25h\x1b[?2026h\x1b[?25;1h", Modes(application_cursor=True)),
    ("alternate", b"\x1b[?1049h", Modes(alternate=True)),
    ("alternate left again", b"\x1b[?1049h\x1b[?1049l", Modes()),
    ("modifyOtherKeys", b"\x1b[>4;2m", Modes(modify_other_keys=2)),
    ("backarrow sends ^H", b"\x1b[?67h", Modes(backarrow=True)),
    ("alt without ESC", b"\x1b[?1036l", Modes(alt_escape=False)),
    ("keypad whatever num lock says", b"\x1b[?1035l", Modes(numlock_keypad=False)),
    ("a control character within", b"\x1b\n[\n?1h", Modes(application_cursor=True)),
    ("reset", b"\x1b[?1h\x1b=\x1b[>5u\x1b[>4;2m\x1b[?2004h\x1bc", Modes()),
]


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
def test_told_once(emulator: Emulator, data: bytes, facts: Facts | None) -> None:
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


# What the VT of a screen does not hold, so that a viewer cut there sees it wrong until the program draws it again.
NOT_IN_VT = {
    "origin mode",  # the cursor is set as if it were off
    "save and restore",  # the saved cursor
    "back from it",  # the screen below the alternate one: viewers get a new snapshot when that is left
}


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


HISTORIES = [
    ("full", b""),
    ("blank rows below", b"\x1b[3;1H\x1b[J"),
    ("nothing but blank rows", b"\x1b[H\x1b[J"),
    ("coloured blanks below", b"\x1b[3;1H\x1b[44m\x1b[J\x1b[31mx"),
    ("a scroll region", b"\x1b[2;4r\x1b[3;2Hx"),
    ("a cut sequence", b"\x1b[38;5"),
    ("the alternate screen", b"\x1b[?1049h\x1b[Hx"),
]


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
