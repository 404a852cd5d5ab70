"""What people and automation type, as tmux takes it."""

import pytest

from ostler.terminal.keys import Key
from ostler.terminal.screen.protocol import Modes
from ostler.terminal.viewer_protocol import Control, Paste, PressKey, SendBytes, Type
from ostler.work.panes.pane_input import PaneInput, pane_input, tmux_key


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (Key(name="Enter"), "Enter"),
        (Key(name="ArrowUp"), "Up"),
        (Key(name="Backspace"), "BSpace"),
        (Key(name="ArrowLeft", mods=frozenset({"ctrl", "shift"})), "C-S-Left"),
        (Key(name="Tab", mods=frozenset({"shift"})), "BTab"),
        (Key(name="c", mods=frozenset({"ctrl"})), "C-c"),
        (Key(name="Escape", mods=frozenset({"num"})), "Escape"),
        (Key(name="a", text="a"), ""),
        (Key(name=";", mods=frozenset({"ctrl"})), ""),
        (Key(name="Enter", mods=frozenset({"super"})), ""),
    ],
)
def test_keys_have_names(key: Key, name: str) -> None:
    assert tmux_key(key) == name


def test_text_goes_by_a_buffer_without_what_controls_a_terminal() -> None:
    text = "a;\nb\x1b[201~\x07é"
    assert pane_input(Paste(text=text), Modes(bracketed_paste=True)) == PaneInput(paste="a;\rb[201~é".encode())


def test_all_else_goes_as_bytes_whatever_protocol_for_keys_was_asked_for() -> None:
    kitty = Modes(kitty=31)
    assert pane_input(PressKey(key=Key(name="a", text="a")), kitty) == PaneInput(data=b"a")
    assert pane_input(Type(text="é;\n"), kitty) == PaneInput(data="é;\r".encode())
    assert pane_input(Control(name="interrupt"), kitty) == PaneInput(data=b"\x03")
    assert pane_input(SendBytes(data=b"\x1b[A"), kitty) == PaneInput(data=b"\x1b[A")
    assert pane_input(PressKey(key=Key(name="a", event="release")), kitty) == PaneInput()
