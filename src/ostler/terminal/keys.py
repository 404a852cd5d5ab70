"""Keys, pastes and controls of viewers as the bytes that a program expects.

The encoding itself is libghostty's, which knows xterm's forms and the kitty keyboard protocol; here
names become its keys. A `Key` speaks as browsers do: `name` is KeyboardEvent.key or KeyboardEvent.code.
"""

import importlib
import re
from functools import cache
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ostler.errors import OstlerError, quoted

Mod = Literal["shift", "alt", "ctrl", "super", "hyper", "meta", "caps", "num"]

TEXT_LIMIT = 64  # characters that one key may type; more is text or a paste
ROOM = 1024  # bytes: the longest encoding is a number for each of these characters


class Key(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key event. Modifiers that only served to make the text (AltGr, Option) are left out of `mods`.

    `shifted` and `base` are the key with shift and the key of a US keyboard at that place, where known.
    """

    name: str
    text: str = ""
    mods: frozenset[Mod] = frozenset()
    event: Literal["press", "repeat", "release"] = "press"
    shifted: str = ""
    base: str = ""


class KeyModes(Struct, frozen=True, kw_only=True):
    """What the program asked for. Level 1 of modifyOtherKeys is how libghostty always encodes."""

    cursor_application: bool = False  # DECCKM, ?1
    keypad_application: bool = False  # DECNKM, ?66
    numlock_keypad: bool = True  # ?1035: with num lock the keypad types digits whatever ?66 says
    alt_escape: bool = True  # ?1036: alt sends ESC first
    backarrow: bool = False  # DECBKM, ?67: Backspace is ^H
    modify_other_keys: int = 0  # CSI > 4 ; n m
    kitty: int = 0  # 1 disambiguate, 2 event types, 4 alternates, 8 all keys as escape codes, 16 text


PLAIN = KeyModes()


def encode(key: Key, modes: KeyModes = PLAIN) -> bytes:
    """The bytes of the key; none for what the modes do not report. `bad_request` for an unknown key."""
    stroke = _stroke(key)
    if not (modes.kitty or modes.modify_other_keys):
        key, stroke = _as_ever(key, stroke)
    mods = set(key.mods)
    foreign = mods & {"hyper", "meta"}
    if "meta" in foreign or (foreign and modes.kitty):
        mods.add("super")  # libghostty knows neither; in xterm's forms super's number is meta's
    data = _encode(stroke, key, sum(_MODS.get(mod, 0) for mod in mods), modes)
    return _renumbered(data, key.mods) if foreign and modes.kitty else data


# -- pastes and controls ----------------------------------------------------------------------------

# What text has no key for: controls but tab and line ends, and lone surrogates.
UNTYPABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROLS = {"interrupt": b"\x03", "eof": b"\x04", "suspend": b"\x1a"}


def paste(text: str, bracketed: bool) -> bytes:
    """Pasted text: line ends as Enter, no control character but tab: without ESC nothing ends the brackets."""
    clean = UNTYPABLE.sub("", text).replace("\r\n", "\r").replace("\n", "\r")
    data = clean.encode()
    return b"\x1b[200~" + data + b"\x1b[201~" if bracketed else data


def control(name: str) -> bytes:
    """`interrupt`, `eof` or `suspend` as the terminal's line discipline knows them."""
    if name not in _CONTROLS:
        raise OstlerError(
            "bad_request", f"there is no control {quoted(name)}", f"Choose one of: {', '.join(_CONTROLS)}"
        )
    return _CONTROLS[name]


# -- names ------------------------------------------------------------------------------------------

_PLACES = {
    **{letter: letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"},
    **{digit: f"DIGIT_{digit}" for digit in "0123456789"},
    **{"`": "BACKQUOTE", "\\": "BACKSLASH", "[": "BRACKET_LEFT", "]": "BRACKET_RIGHT", ",": "COMMA", "=": "EQUAL"},
    **{"-": "MINUS", ".": "PERIOD", "'": "QUOTE", ";": "SEMICOLON", "/": "SLASH", " ": "SPACE"},
}
_CHARACTERS = {place: character for character, place in _PLACES.items()}
_SHIFTED = dict(zip("`1234567890-=[]\\;',./", '~!@#$%^&*()_+{}|:"<>?', strict=True))
_UNSHIFTED = {shifted: plain for plain, shifted in _SHIFTED.items()}
_SIDES = {"Shift": "SHIFT_LEFT", "Control": "CONTROL_LEFT", "Alt": "ALT_LEFT", "AltGraph": "ALT_RIGHT"}
_ALIASES = {**_SIDES, "Meta": "META_LEFT", "Super": "META_LEFT", "Esc": "ESCAPE"}
_NO_KEY = frozenset({"Unidentified", "Process", "Dead", "Compose"})  # an input method at work: text or nothing
_MODS: dict[str, int] = {"shift": 1, "ctrl": 2, "alt": 4, "super": 8, "caps": 16, "num": 32}
_ACTIONS = {"release": 0, "press": 1, "repeat": 2}


class _Stroke(NamedTuple):
    place: str  # libghostty's name of the key's place on a keyboard
    character: str  # what it types without modifiers; "" for keys that type nothing
    text: str


def _stroke(key: Key) -> _Stroke:
    text = _typed(key.text)
    if key.name in _NO_KEY:
        return _Stroke("UNIDENTIFIED", "", text)
    if len(key.name) == 1:
        character = _unshifted(key)
        place = _PLACES.get((key.base or character).lower(), "UNIDENTIFIED")
        return _Stroke(place, character, text or _text(key, character))
    place = _place(key.name)
    character = _CHARACTERS.get(place, "")
    if character and text and len(text) == 1:  # another layout: what it types there
        character = text if not {"shift", "caps"} & key.mods else _plain(text)
    return _Stroke(place, character, text or (_text(key, character) if character else ""))


def _as_ever(key: Key, stroke: _Stroke) -> tuple[Key, _Stroke]:
    """Ctrl+I, M and [ are Tab, Enter and Escape to programs that asked for nothing better.

    libghostty tells them apart even then, and a shell would print the escape code.
    """
    name = {"i": "Tab", "m": "Enter", "[": "Escape"}.get(stroke.character)
    if not name or key.mods - {"alt", "caps", "num"} != {"ctrl"}:
        return key, stroke
    key = Key(name=name, mods=key.mods - {"ctrl"}, event=key.event)
    return key, _stroke(key)


def _place(name: str) -> str:
    """`ArrowUp` → ARROW_UP, `KeyA` → A."""
    place = _ALIASES.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", name).upper().removeprefix("KEY_")
    if not name.isascii() or place not in _library().places:
        raise OstlerError("bad_request", f"{quoted(name)} is not a key", "Use a name of KeyboardEvent.key or .code")
    return place


def _unshifted(key: Key) -> str:
    """The key itself: browsers name the shifted one while shift or caps lock is on."""
    _typed(key.name)
    if key.shifted:
        return key.name
    return _plain(key.name) if "shift" in key.mods else _lower(key.name) if "caps" in key.mods else key.name


def _plain(character: str) -> str:
    return _UNSHIFTED.get(character) or _lower(character)


def _lower(character: str) -> str:
    return character.lower() if len(character.lower()) == 1 else character


def _text(key: Key, character: str) -> str:
    shift = "shift" in key.mods
    upper = character.upper() if len(character.upper()) == 1 else character
    if shift:
        shifted = _typed(key.shifted) or _SHIFTED.get(character, upper)
        return character if "caps" in key.mods and shifted.isalpha() else shifted
    return upper if "caps" in key.mods else character


def _typed(text: str) -> str:
    """Text of a key, without the control characters that some viewers add (Enter's carriage return)."""
    if len(text) > TEXT_LIMIT:
        raise OstlerError("bad_request", f"a key typed {len(text)} characters", "Send them as text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OstlerError("bad_request", "a key typed half a character") from None
    return "" if UNTYPABLE.search(text) or "\r" in text or "\n" in text or "\t" in text else text


def _renumbered(data: bytes, mods: frozenset[Mod]) -> bytes:
    """The escape code with hyper and meta instead of the super that stood for them."""
    found = re.fullmatch(rb"(\x1b\[[\d:]*;)(\d+)(.*)", data)
    if not found:
        return data
    right = (
        int(found[2]) - (0 if "super" in mods else 8) + (16 if "hyper" in mods else 0) + (32 if "meta" in mods else 0)
    )
    return found[1] + b"%d" % right + found[3]


# -- libghostty -------------------------------------------------------------------------------------


class _Library(NamedTuple):
    ffi: Any
    lib: Any
    places: dict[str, int]


@cache
def _library() -> _Library:
    found = importlib.import_module("ostler.terminal.ghostty_types")
    names: dict[str, int] = found.ffi.typeof("GhosttyKey").relements
    places = {name.removeprefix("GHOSTTY_KEY_"): number for name, number in names.items()}
    del places["MAX_VALUE"], places["UNIDENTIFIED"]
    return _Library(found.ffi, found.lib, places)


def _encode(stroke: _Stroke, key: Key, mods: int, modes: KeyModes) -> bytes:
    ffi, lib, _ = _library()
    encoder = ffi.new("GhosttyKeyEncoder*")
    if lib.ghostty_key_encoder_new(ffi.NULL, encoder):
        raise MemoryError
    try:
        _set_modes(encoder[0], modes, num="num" in key.mods)
        return _encoded(encoder[0], stroke, _ACTIONS[key.event], mods)
    finally:
        lib.ghostty_key_encoder_free(encoder[0])


def _set_modes(encoder: Any, modes: KeyModes, num: bool) -> None:
    ffi, lib, _ = _library()
    for option, value in (
        (lib.GHOSTTY_KEY_ENCODER_OPT_CURSOR_KEY_APPLICATION, modes.cursor_application),
        (lib.GHOSTTY_KEY_ENCODER_OPT_KEYPAD_KEY_APPLICATION, modes.keypad_application),
        (lib.GHOSTTY_KEY_ENCODER_OPT_IGNORE_KEYPAD_WITH_NUMLOCK, modes.numlock_keypad and num),
        (lib.GHOSTTY_KEY_ENCODER_OPT_ALT_ESC_PREFIX, modes.alt_escape),
        (lib.GHOSTTY_KEY_ENCODER_OPT_MODIFY_OTHER_KEYS_STATE_2, modes.modify_other_keys == 2),
        (lib.GHOSTTY_KEY_ENCODER_OPT_BACKARROW_KEY_MODE, modes.backarrow),
    ):
        lib.ghostty_key_encoder_setopt(encoder, option, ffi.new("bool*", value))
    flags = ffi.new("uint8_t*", modes.kitty & 31)
    lib.ghostty_key_encoder_setopt(encoder, lib.GHOSTTY_KEY_ENCODER_OPT_KITTY_FLAGS, flags)


def _encoded(encoder: Any, stroke: _Stroke, action: int, mods: int) -> bytes:
    ffi, lib, places = _library()
    event = ffi.new("GhosttyKeyEvent*")
    if lib.ghostty_key_event_new(ffi.NULL, event):
        raise MemoryError
    text = stroke.text.encode()
    kept = ffi.new("char[]", text)  # the event borrows it
    try:
        lib.ghostty_key_event_set_action(event[0], action)
        lib.ghostty_key_event_set_key(event[0], places.get(stroke.place, 0))
        lib.ghostty_key_event_set_mods(event[0], mods)
        lib.ghostty_key_event_set_consumed_mods(event[0], mods & 1 if text and stroke.text != stroke.character else 0)
        lib.ghostty_key_event_set_utf8(event[0], kept, len(text))
        lib.ghostty_key_event_set_unshifted_codepoint(event[0], ord(stroke.character) if stroke.character else 0)
        out, size = ffi.new(f"char[{ROOM}]"), ffi.new("size_t*")
        if lib.ghostty_key_encoder_encode(encoder, event[0], out, ROOM, size):
            raise OstlerError("bad_request", f"the key {stroke.place} cannot be encoded")
        return bytes(ffi.buffer(out, size[0]))
    finally:
        lib.ghostty_key_event_free(event[0])
