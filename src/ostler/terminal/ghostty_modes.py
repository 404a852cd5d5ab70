"""The modes of a terminal of libghostty-vt, read by one call. What it asks with is shared: one thread, one process."""

import re
from functools import lru_cache
from typing import Any

from ostler.terminal.ghostty import check
from ostler.terminal.ghostty_types import MODES, ffi, lib, make
from ostler.terminal.screen.protocol import Modes

MOUSE = ((1003, "any"), (1002, "drag"), (1000, "press"), (9, "x10"))
NUMBERS = (2004, 1006, 1004, 1, 66, 1035, 1036, 67, *(number for number, _ in MOUSE))
# What can change a mode begins like this; C0 controls may stand within it. Not so what many programs send around
# each frame: the cursor hidden and shown, synchronized output. A sequence cut in two is `unfinished`.
INTRODUCED = re.compile(rb"\x1b[\0-\x1a]*(?:[=>c]|\[[\0-\x1a]*(?:\?(?!(?:25|2026)[hl])|[<>=!]|\Z)|\Z)")
CTRL = 2  # GHOSTTY_MODS_CTRL is a macro, which the binding does not have
SHORT = 2048  # looking for such a sequence in more bytes costs more than reading the modes

assert len(NUMBERS) == MODES
_configs = make("modes")
_alternate, _kitty, _ground = make("int*"), make("uint8_t*"), make("bool*")
_wanted = {
    "ACTIVE_SCREEN": _alternate,
    "KITTY_KEYBOARD_FLAGS": _kitty,
    "VT_GROUND": _ground,
}
_keys = [getattr(lib, f"GHOSTTY_TERMINAL_DATA_{name}") for name in _wanted]
_keys = make("keys", _keys + [lib.GHOSTTY_TERMINAL_DATA_MODE] * len(NUMBERS))
_values = make("values", [*_wanted.values(), *(_configs + at for at in range(len(NUMBERS)))])
_synchronized = make("GhosttyTerminalModeConfig*", {"mode": 2026})
_written = make("size_t*")
for _at, _number in enumerate(NUMBERS):
    _configs[_at].mode = _number


def may_change(data: bytes) -> bool:
    """Whether these bytes may set a mode, or begin what does."""
    return len(data) > SHORT or INTRODUCED.search(data) is not None


def read(handle: Any) -> tuple[Modes, bool]:
    """The modes, and whether a sequence is unfinished."""
    check(lib.ghostty_terminal_get_multi(handle, len(_keys), _keys, _values, _written), "modes")
    modes = _modes(ffi.buffer(_configs)[:], _alternate[0], _kitty[0], _modifies_other_keys(handle))
    return modes, not _ground[0]


def synchronized(handle: Any) -> bool:
    """Whether the program is within a frame that is to be shown at once."""
    check(lib.ghostty_terminal_get(handle, lib.GHOSTTY_TERMINAL_DATA_MODE, _synchronized), "mode")
    return bool(_synchronized.value)


@lru_cache(maxsize=256)
def _modes(configs: bytes, alternate: int, kitty: int, modifies: bool) -> Modes:
    """The same object for the same modes: nearly all terminals are in one of a few states."""
    config = ffi.typeof(_configs).item
    size, value_at = ffi.sizeof(config), ffi.offsetof(config, "value")
    on = {number: bool(configs[at * size + value_at]) for at, number in enumerate(NUMBERS)}
    mouse: Any = next((name for number, name in MOUSE if on[number]), "off")
    return Modes(
        alternate=alternate == 1,
        bracketed_paste=on[2004],
        mouse=mouse,
        mouse_sgr=on[1006],
        focus=on[1004],
        application_cursor=on[1],
        application_keypad=on[66],
        kitty=kitty,
        modify_other_keys=2 if modifies else 0,
        backarrow=on[67],
        alt_escape=on[1036],
        numlock_keypad=on[1035],
    )


# -- modifyOtherKeys: the library does not say, but the encoding of a key that differs shows it ------------

_encoder, _event = make("GhosttyKeyEncoder*"), make("GhosttyKeyEvent*")
check(lib.ghostty_key_encoder_new(ffi.NULL, _encoder), "key encoder")
check(lib.ghostty_key_event_new(ffi.NULL, _event), "key event")
_text, _out, _no_kitty = make("text", b"a"), make("text"), make("uint8_t*", 0)
lib.ghostty_key_event_set_action(_event[0], lib.GHOSTTY_KEY_ACTION_PRESS)
lib.ghostty_key_event_set_key(_event[0], lib.GHOSTTY_KEY_A)
lib.ghostty_key_event_set_mods(_event[0], CTRL)
lib.ghostty_key_event_set_utf8(_event[0], _text, 1)
lib.ghostty_key_event_set_unshifted_codepoint(_event[0], ord("a"))


def _modifies_other_keys(handle: Any) -> bool:
    lib.ghostty_key_encoder_setopt_from_terminal(_encoder[0], handle)
    lib.ghostty_key_encoder_setopt(_encoder[0], lib.GHOSTTY_KEY_ENCODER_OPT_KITTY_FLAGS, _no_kitty)
    check(lib.ghostty_key_encoder_encode(_encoder[0], _event[0], _out, len(_out), _written), "encode")
    return bool(_written[0] != 1)
