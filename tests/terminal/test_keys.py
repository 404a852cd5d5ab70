"""Keys against the published tables: the kitty keyboard protocol, and xterm's ctlseqs (PC-style function keys)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyghostty import Terminal

from ostler.errors import OstlerError
from ostler.terminal.keys import Key, KeyModes, control, encode, paste
from terminal.key_modes import read_modes

CSI = "\x1b["


def key(chord, **fields):
    """`ctrl+shift+a` → Key; the key `+` is written Add."""
    *mods, name = chord.split("+")
    return Key(name="+" if name == "Add" else name, mods=frozenset(mods), **fields)


def sent(chord, modes=None, **fields):
    return encode(key(chord, **fields), KeyModes(**(modes or {}))).decode()


def kitty(chord, flags, **fields):
    return sent(chord, {"kitty": flags}, **fields)


# -- xterm ------------------------------------------------------------------------------------------

CURSOR = {"ArrowUp": "A", "ArrowDown": "B", "ArrowRight": "C", "ArrowLeft": "D", "Home": "H", "End": "F"}
SS3 = {"F1": "P", "F2": "Q", "F3": "R", "F4": "S"}
TILDE = {"Insert": 2, "Delete": 3, "PageUp": 5, "PageDown": 6, "F5": 15, "F6": 17, "F7": 18, "F8": 19}
TILDE |= {"F9": 20, "F10": 21, "F11": 23, "F12": 24, "F13": 25, "F14": 26, "F15": 28, "F16": 29, "F17": 31, "F20": 34}
MODS = {"shift": 2, "alt": 3, "shift+alt": 4, "ctrl": 5, "shift+ctrl": 6, "alt+ctrl": 7, "shift+alt+ctrl": 8, "meta": 9}


def test_cursor_and_function_keys():
    application = {"cursor_application": True}
    assert {name: sent(name) for name in CURSOR} == {name: f"{CSI}{end}" for name, end in CURSOR.items()}
    assert {name: sent(name, application) for name in CURSOR} == {name: f"\x1bO{end}" for name, end in CURSOR.items()}
    assert {name: sent(name) for name in SS3} == {name: f"\x1bO{end}" for name, end in SS3.items()}
    assert {name: sent(name) for name in TILDE} == {name: f"{CSI}{number}~" for name, number in TILDE.items()}


@pytest.mark.parametrize(("mods", "number"), MODS.items())
def test_modified_cursor_and_function_keys(mods, number):
    letters = CURSOR | {name: end for name, end in SS3.items() if name != "F3"}
    tildes = TILDE | {"F3": 13}  # `CSI 1 ; n R` would be a cursor report
    told = {name: sent(f"{mods}+{name}", {"cursor_application": True}) for name in [*letters, *tildes]}
    assert told == {name: f"{CSI}1;{number}{end}" for name, end in letters.items()} | {
        name: f"{CSI}{code};{number}~" for name, code in tildes.items()
    }


@pytest.mark.parametrize(
    ("chord", "data"),
    [
        ("a", "a"),
        ("shift+a", "A"),
        ("shift+A", "A"),
        ("caps+a", "A"),
        ("shift+caps+a", "a"),
        ("shift+3", "#"),
        ("shift+#", "#"),
        ("shift+caps+3", "#"),
        ("KeyA", "a"),
        ("shift+KeyA", "A"),
        ("shift+Digit3", "#"),
        ("é", "é"),
        ("shift+é", "É"),
        ("shift+ß", "ß"),
        ("漢", "漢"),
        ("🚀", "🚀"),
        ("Add", "+"),
        (" ", " "),
        ("Space", " "),
        ("alt+a", "\x1ba"),
        ("alt+shift+a", "\x1bA"),
        ("alt+3", "\x1b3"),
        ("alt+shift+3", "\x1b#"),
        ("alt+;", "\x1b;"),
        ("alt+é", "\x1bé"),
        ("alt+Space", "\x1b "),
        ("ctrl+alt+a", "\x1b\x01"),
        ("ctrl+Space", "\0"),
        ("ctrl+alt+Space", "\x1b\0"),
        ("Enter", "\r"),
        ("alt+Enter", "\x1b\r"),
        ("Tab", "\t"),
        ("shift+Tab", f"{CSI}Z"),
        ("alt+Tab", "\x1b\t"),
        ("Escape", "\x1b"),
        ("alt+Escape", "\x1b\x1b"),
        ("Backspace", "\x7f"),
        ("ctrl+Backspace", "\x08"),
        ("alt+Backspace", "\x1b\x7f"),
        ("ctrl+alt+Backspace", "\x1b\x08"),
        # No xterm form exists: sent as xterm does at level 1 of modifyOtherKeys, so that Shift+Enter is one.
        ("shift+Enter", f"{CSI}27;2;13~"),
        ("ctrl+Enter", f"{CSI}27;5;13~"),
        ("ctrl+;", f"{CSI}59;5u"),
        ("ctrl+shift+c", f"{CSI}99;6u"),
        # Keys that type nothing, alone.
        ("Shift", ""),
        ("Control", ""),
        ("CapsLock", ""),
        ("AudioVolumeUp", ""),
    ],
)
def test_other_keys(chord, data):
    assert sent(chord) == data


def test_control_characters():
    table = {chr(96 + n): chr(n) for n in range(1, 27)}
    table |= {"2": "\0", "3": "\x1b", "4": "\x1c", "5": "\x1d", "6": "\x1e", "7": "\x1f", "8": "\x7f", "/": "\x1f"}
    table |= {"[": "\x1b", "\\": "\x1c", "]": "\x1d", "0": "0", "1": "1", "9": "9"}
    assert {name: sent(f"ctrl+{name}") for name in table} == table
    assert [sent("ctrl+alt+i"), sent("ctrl+caps+M"), sent("ctrl+BracketLeft")] == ["\x1b\t", "\r", "\x1b"]
    assert [sent("ctrl+i", {"modify_other_keys": 1}), kitty("ctrl+i", 1)] == [f"{CSI}105;5u"] * 2


def test_modes_of_xterm():
    assert sent("alt+a", {"alt_escape": False}) == "a"
    assert sent("Backspace", {"backarrow": True}) == "\x08"
    assert sent("ctrl+Backspace", {"backarrow": True}) == "\x7f"
    keypad = {"keypad_application": True}
    assert [sent("Numpad5"), sent("NumpadAdd"), sent("NumpadEnter")] == ["5", "+", "\r"]
    assert [sent(name, keypad) for name in ("Numpad5", "NumpadAdd", "NumpadEnter")] == ["\x1bOu", "\x1bOk", "\x1bOM"]
    assert sent("num+Numpad5", keypad, text="5") == "5"
    assert sent("num+Numpad5", keypad | {"numlock_keypad": False}, text="5") == "\x1bOu"


@pytest.mark.parametrize(
    ("chord", "data"),
    [
        ("a", "a"),
        ("ctrl+a", f"{CSI}27;5;97~"),
        ("ctrl+i", f"{CSI}27;5;105~"),
        ("alt+a", f"{CSI}27;3;97~"),
        ("ctrl+alt+a", f"{CSI}27;7;97~"),
        ("ctrl+shift+a", f"{CSI}27;6;65~"),
        ("shift+Enter", f"{CSI}27;2;13~"),
        ("shift+Tab", f"{CSI}27;2;9~"),
        ("ArrowUp", f"{CSI}A"),
    ],
)
def test_modify_other_keys_of_level_two(chord, data):
    assert sent(chord, {"modify_other_keys": 2}) == data


# -- the kitty keyboard protocol --------------------------------------------------------------------

FUNCTIONAL = {"Escape": 27, "CapsLock": 57358, "ScrollLock": 57359, "NumLock": 57360, "PrintScreen": 57361}
FUNCTIONAL |= {"Pause": 57362, "Enter": 13, "Tab": 9, "Backspace": 127}
FUNCTIONAL |= {f"F{n}": 57363 + n for n in range(13, 26)} | {f"Numpad{n}": 57399 + n for n in range(10)}
FUNCTIONAL |= {"NumpadDecimal": 57409, "NumpadDivide": 57410, "NumpadMultiply": 57411, "NumpadSubtract": 57412}
FUNCTIONAL |= {"NumpadAdd": 57413, "NumpadEnter": 57414, "NumpadEqual": 57415, "NumpadSeparator": 57416}
FUNCTIONAL |= {"NumpadLeft": 57417, "NumpadRight": 57418, "NumpadUp": 57419, "NumpadDown": 57420}
FUNCTIONAL |= {"NumpadPageUp": 57421, "NumpadPageDown": 57422, "NumpadHome": 57423, "NumpadEnd": 57424}
FUNCTIONAL |= {"NumpadInsert": 57425, "NumpadDelete": 57426}
FUNCTIONAL |= {"ShiftLeft": 57441, "ControlLeft": 57442, "AltLeft": 57443, "MetaLeft": 57444, "ShiftRight": 57447}
FUNCTIONAL |= {"ControlRight": 57448, "AltRight": 57449, "MetaRight": 57450, "Shift": 57441, "Meta": 57444}


def test_functional_keys_have_their_numbers():
    assert {name: kitty(name, 8) for name in FUNCTIONAL} == {name: f"{CSI}{n}u" for name, n in FUNCTIONAL.items()}
    letters = CURSOR | {"F1": "P", "F2": "Q", "F4": "S"}  # F3 is 13~: `CSI R` is a cursor report
    assert {name: kitty(name, 1) for name in letters} == {name: f"{CSI}{end}" for name, end in letters.items()}
    assert [kitty("F3", 1), kitty("F5", 1), kitty("ctrl+F12", 1)] == [f"{CSI}13~", f"{CSI}15~", f"{CSI}24;5~"]


@pytest.mark.parametrize("number", range(256))
def test_modifiers_are_one_more_than_their_bits(number):
    names = ("shift", "alt", "ctrl", "super", "hyper", "meta", "caps", "num")
    chord = "+".join([name for bit, name in enumerate(names) if number >> bit & 1] + ["Escape"])
    assert kitty(chord, 1) == (f"{CSI}27;{number + 1}u" if number else f"{CSI}27u")


@pytest.mark.parametrize(
    ("flags", "chord", "fields", "data"),
    [
        # 1: disambiguate
        (1, "a", {}, "a"),
        (1, "shift+a", {}, "A"),
        (1, "ctrl+c", {}, f"{CSI}99;5u"),
        (1, "ctrl+shift+c", {}, f"{CSI}99;6u"),
        (1, "ctrl+shift+C", {}, f"{CSI}99;6u"),
        (1, "alt+[", {}, f"{CSI}91;3u"),
        (1, "alt+shift+a", {}, f"{CSI}97;4u"),
        (1, "ctrl+Space", {}, f"{CSI}32;5u"),
        (1, "Escape", {}, f"{CSI}27u"),
        (1, "Enter", {}, "\r"),
        (1, "Tab", {}, "\t"),
        (1, "Backspace", {}, "\x7f"),
        (1, "shift+Enter", {}, f"{CSI}13;2u"),
        (1, "shift+Tab", {}, f"{CSI}9;2u"),
        (1, "super+a", {}, f"{CSI}97;9u"),
        (1, "NumpadEnter", {}, f"{CSI}57414u"),
        (1, "num+Numpad5", {"text": "5"}, "5"),
        (1, "Shift", {}, ""),
        # 2: event types
        (1, "ArrowUp", {"event": "repeat"}, f"{CSI}A"),
        (1, "ArrowUp", {"event": "release"}, ""),
        (3, "ArrowUp", {"event": "repeat"}, f"{CSI}1;1:2A"),
        (3, "ctrl+ArrowUp", {"event": "release"}, f"{CSI}1;5:3A"),
        (3, "Delete", {"event": "release"}, f"{CSI}3;1:3~"),
        (3, "ctrl+c", {"event": "release"}, f"{CSI}99;5:3u"),
        (3, "Enter", {"event": "release"}, ""),
        (3, "Backspace", {"event": "release"}, ""),
        (11, "Enter", {"event": "release"}, f"{CSI}13;1:3u"),
        (11, "a", {"event": "repeat"}, f"{CSI}97;1:2u"),
        (0, "a", {"event": "repeat"}, "a"),
        (0, "a", {"event": "release"}, ""),
        # 4: alternates
        (5, "ctrl+shift+a", {}, f"{CSI}97:65;6u"),
        (5, "ctrl+shift+=", {"shifted": "+"}, f"{CSI}61:43;6u"),
        (5, "ctrl+с", {"base": "c"}, f"{CSI}1089::99;5u"),
        (5, "ctrl+shift+с", {"shifted": "С", "base": "c"}, f"{CSI}1089:1057:99;6u"),
        (13, "KeyQ", {"text": "a"}, f"{CSI}97::113u"),
        (13, "shift+KeyQ", {"text": "A"}, f"{CSI}97:65:113;2u"),
        # 8 and 16: all keys as escape codes, with their text
        (8, "a", {}, f"{CSI}97u"),
        (8, "shift+a", {}, f"{CSI}97;2u"),
        (8, "Enter", {}, f"{CSI}13u"),
        (8, "é", {}, f"{CSI}233u"),
        (24, "a", {}, f"{CSI}97;;97u"),
        (24, "shift+a", {}, f"{CSI}97;2;65u"),
        (24, "a", {"text": "å"}, f"{CSI}97;;229u"),
        (24, "Enter", {"text": "\r"}, f"{CSI}13u"),
        (31, "ctrl+c", {}, f"{CSI}99;5u"),
        (31, "shift+a", {"event": "repeat"}, f"{CSI}97:65;2:2;65u"),
        (31, "shift+a", {"event": "release"}, f"{CSI}97:65;2:3u"),
        # hyper and meta, and what an input method types
        (1, "hyper+a", {}, f"{CSI}97;17u"),
        (5, "meta+shift+a", {}, f"{CSI}97:65;34u"),
        (3, "meta+ArrowUp", {"event": "release"}, f"{CSI}1;33:3A"),
        (0, "hyper+ArrowUp", {}, f"{CSI}A"),
        (1, "Unidentified", {"text": "漢字"}, "漢字"),
        (1, "Dead", {}, ""),
    ],
)
def test_the_kitty_keyboard_protocol(flags, chord, fields, data):
    assert kitty(chord, flags, **fields) == data


# -- bad keys ---------------------------------------------------------------------------------------

BAD = ["", "NoSuchKey", "Max_Value", "MaxValue", "ActionPress", "Unidentifiedx", "aa", "Éé", "\ud800", "KEY_"]


@pytest.mark.parametrize("name", BAD)
def test_an_unknown_key_is_refused(name):
    with pytest.raises(OstlerError) as raised:
        encode(Key(name=name))
    assert raised.value.kind == "bad_request"


@pytest.mark.parametrize("text", ["x" * 65, "\udc00"])
def test_text_that_no_key_types_is_refused(text):
    with pytest.raises(OstlerError) as raised:
        encode(Key(name="a", text=text))
    assert raised.value.kind == "bad_request"


ANY = st.builds(
    Key,
    name=st.text(max_size=2) | st.sampled_from([*FUNCTIONAL, *CURSOR, *TILDE, "KeyA", "Dead", "Copy", "Space"]),
    text=st.text(max_size=64),
    mods=st.frozensets(st.sampled_from(["shift", "alt", "ctrl", "super", "hyper", "meta", "caps", "num"])),
    event=st.sampled_from(["press", "repeat", "release"]),
    shifted=st.text(max_size=2),
    base=st.text(max_size=2),
)


@given(ANY, st.builds(KeyModes, kitty=st.integers(0, 255), modify_other_keys=st.integers(0, 3)))
def test_any_key_is_bytes_or_a_bad_request(any_key, modes):
    try:
        data = encode(any_key, modes)
    except OstlerError as error:
        assert error.kind == "bad_request"
    else:
        data.decode()


# -- modes ------------------------------------------------------------------------------------------


def test_the_modes_of_a_terminal():
    terminal = Terminal()
    assert read_modes(terminal) == KeyModes()
    terminal.feed(b"\x1b[?1h\x1b=\x1b[>4;2m\x1b[>5u\x1b[?67h\x1b[?1035l\x1b[?1036l")
    assert read_modes(terminal) == KeyModes(
        cursor_application=True,
        keypad_application=True,
        numlock_keypad=False,
        alt_escape=False,
        backarrow=True,
        modify_other_keys=2,
        kitty=5,
    )
    terminal.feed(b"\x1b[?1l\x1b>\x1b[>4;0m\x1b[<u\x1b[?67l\x1b[?1035h\x1b[?1036h")
    assert read_modes(terminal) == KeyModes()


# -- pastes and controls ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", ""),
        ("plain\ttext 漢🚀", "plain\ttext 漢🚀"),
        ("one\ntwo\r\nthree\rfour", "one\rtwo\rthree\rfour"),
        ("a\x03\x04\x1b\x7f\x00\x9b\x85b", "ab"),
        ("x\x1b[201~; rm -rf ~\n", "x[201~; rm -rf ~\r"),
        ("\x1b[20\x1b[201~1~", "[20[201~1~"),
        ("\ud800", ""),
    ],
)
def test_pastes_are_clean(text, data):
    assert paste(text, False) == data.encode()
    assert paste(text, True) == b"\x1b[200~" + data.encode() + b"\x1b[201~"


@given(st.text(st.characters() | st.sampled_from("\x1b[201~\x9b\r\n"), max_size=40))
def test_nothing_in_a_paste_acts(text):
    data = paste(text, True)
    assert (data.count(b"\x1b"), data[:6], data[-6:]) == (2, b"\x1b[200~", b"\x1b[201~")
    assert not set(data[6:-6].decode()) & {chr(c) for c in [*range(32), *range(127, 160)] if chr(c) not in "\t\r"}


def test_controls():
    assert [control(name) for name in ("interrupt", "eof", "suspend")] == [b"\x03", b"\x04", b"\x1a"]
    with pytest.raises(OstlerError) as raised:
        control("quit it")
    assert raised.value.kind == "bad_request"
