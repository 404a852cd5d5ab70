"""What `tmux -C` says, in any pieces, and commands as it takes them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.process.control_mode import (
    CommandReply,
    ControlEvent,
    ControlParser,
    PaneOutput,
    TmuxNotice,
    command_line,
    unescaped,
    version_of,
)

STREAM = (
    b"%begin 1 260 0\n%end 1 260 0\n%window-add @0\n%session-changed $0 ostler\n"
    b"%begin 2 268 1\n%1 4711\n%end 9 9 9\n%output %1 of a screen\n%end 2 268 1\n"
    b"%output %1 hi\\134 \\033[31m\xc3\xa9\\015\\012\n"
    b"%begin 3 281 1\nparse error: unknown command: foo\n%error 3 281 1\n%exit\n"
)
EVENTS: list[ControlEvent] = [
    CommandReply(True, (), asked=False),
    TmuxNotice("window-add", "@0"),
    TmuxNotice("session-changed", "$0 ostler"),
    CommandReply(True, (b"%1 4711", b"%end 9 9 9", b"%output %1 of a screen"), asked=True),
    PaneOutput("%1", "hi\\ \x1b[31mé\r\n".encode()),
    CommandReply(False, (b"parse error: unknown command: foo",), asked=True),
    TmuxNotice("exit", ""),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_it_comes_in_any_pieces(cuts: list[int]) -> None:
    parser = ControlParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


@given(st.binary())
def test_what_was_escaped_comes_back(data: bytes) -> None:
    escaped = b"".join(b"\\%03o" % byte if byte < 32 or byte == 92 else bytes([byte]) for byte in data)
    assert unescaped(escaped) == data


def test_commands_are_quoted() -> None:
    assert command_line(("send-keys", "-t", "%1", "C-c")) == b"send-keys -t %1 C-c\n"
    assert command_line(("a", "it's; $HOME #{x}", "")) == b"a 'it'\\''s; $HOME #{x}' ''\n"
    for bad in ("two\nlines", "a\rb", "\0"):
        with pytest.raises(ValueError, match="line end"):
            command_line((bad,))


@pytest.mark.parametrize(
    ("told", "version"),
    [("tmux 3.3a", (3, 3)), ("tmux next-3.5", (3, 5)), ("tmux 1.8", (1, 8)), ("tmux master", None), ("", None)],
)
def test_versions(told: str, version: tuple[int, int] | None) -> None:
    assert version_of(told) == version
