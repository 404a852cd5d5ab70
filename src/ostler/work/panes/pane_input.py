"""What viewers type, as tmux takes it: keys by its own names, text by a buffer, all else as bytes."""

from msgspec import Struct, structs

from ostler.terminal import keys
from ostler.terminal.input_encoding import encoded
from ostler.terminal.keys import Key
from ostler.terminal.screen.protocol import Modes
from ostler.terminal.viewer_protocol import Control, Paste, PressKey, SendBytes, Type

_NAMES = {
    **{name: name for name in ("Enter", "Escape", "Tab", "Home", "End")},
    **{"ArrowUp": "Up", "ArrowDown": "Down", "ArrowLeft": "Left", "ArrowRight": "Right", "Backspace": "BSpace"},
    **{"PageUp": "PPage", "PageDown": "NPage", "Insert": "IC", "Delete": "DC", " ": "Space", "Space": "Space"},
    **{f"F{n}": f"F{n}" for n in range(1, 13)},
}
_MODS = {"ctrl": "C-", "alt": "M-", "shift": "S-"}


class PaneInput(Struct, frozen=True):
    """One of them has something in it; a key that nobody reports has nothing."""

    keys: tuple[str, ...] = ()
    paste: bytes = b""
    data: bytes = b""


def pane_input(message: PressKey | Type | Paste | Control | SendBytes, modes: Modes) -> PaneInput:
    """tmux knows which codes the program wants for a key, and whether it wants brackets around a paste."""
    match message:
        case Paste(text=text):
            return PaneInput(paste=keys.paste(text, bracketed=False))
        case PressKey(key=key) if key.event == "release":
            return PaneInput()
        case PressKey(key=key) if name := tmux_key(key):
            return PaneInput(keys=(name,))
    # The protocols for more keys are tmux's own affair: what it does not speak, no program gets from it.
    return PaneInput(data=encoded(message, structs.replace(modes, kitty=0, modify_other_keys=0)))


def tmux_key(key: Key) -> str:
    """tmux's name for it; empty for one that has none, as characters do."""
    mods = {mod for mod in key.mods if mod not in ("caps", "num")}
    if mods - _MODS.keys():
        return ""
    if key.name == "Tab" and mods == {"shift"}:
        return "BTab"
    if name := _NAMES.get(key.name, ""):
        return "".join(_MODS[mod] for mod in ("ctrl", "alt", "shift") if mod in mods) + name
    plain = len(key.name) == 1 and key.name.isascii() and key.name.isalpha()
    return f"C-{key.name.lower()}" if plain and mods == {"ctrl"} else ""
