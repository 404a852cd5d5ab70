"""The modes that a `pyghostty.Terminal` is in, which is asked in its own words."""

from typing import Any

import pyghostty

from ostler.terminal.ghostty_types import ffi, lib
from ostler.terminal.keys import _MODS, KeyModes, _encoded, _Stroke


def read_modes(terminal: Any) -> KeyModes:
    return KeyModes(
        cursor_application=terminal.mode(1),
        keypad_application=terminal.mode(66),
        numlock_keypad=terminal.mode(1035),
        alt_escape=terminal.mode(1036),
        backarrow=terminal.mode(67),
        modify_other_keys=2 if _modifies_other_keys(terminal) else 0,
        kitty=terminal.get("kitty_keyboard_flags", "uint8_t"),
    )


def _modifies_other_keys(terminal: Any) -> bool:
    """libghostty does not say: the encoding of a key that differs shows it."""
    address = int(pyghostty.ffi.cast("uintptr_t", terminal._t[0]))
    encoder = ffi.new("GhosttyKeyEncoder*")
    if lib.ghostty_key_encoder_new(ffi.NULL, encoder):
        raise MemoryError
    try:
        lib.ghostty_key_encoder_setopt_from_terminal(encoder[0], ffi.cast("GhosttyTerminal", address))
        none = ffi.new("uint8_t*", 0)
        lib.ghostty_key_encoder_setopt(encoder[0], lib.GHOSTTY_KEY_ENCODER_OPT_KITTY_FLAGS, none)
        return _encoded(encoder[0], _Stroke("A", "a", "a"), 1, _MODS["ctrl"]) != b"\x01"
    finally:
        lib.ghostty_key_encoder_free(encoder[0])
