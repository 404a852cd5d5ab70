"""Frames between a viewer and a terminal: each message there and back, and what is none."""

from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Exit, Problem, TerminalRow
from ostler.terminal.keys import Key
from ostler.terminal.lease import Author
from ostler.terminal.screen.protocol import Progress
from ostler.terminal.viewer_protocol import (
    FRAME_LIMIT,
    Ack,
    Control,
    FactsMessage,
    Gone,
    Hello,
    Leased,
    Paste,
    PressKey,
    Refresh,
    RefusedMessage,
    ResizedMessage,
    ResizeTerminal,
    SendBytes,
    SnapshotMessage,
    Type,
    Want,
    encode_message,
    output,
    read_terminal_message,
    read_viewer_message,
)

ROW = TerminalRow(id="t", session="k3", name="n", source="pty", cols=80, rows=24, created_at=1.0)
ANN = Author("Ann", "person", "ann:1")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (Hello(terminal=ROW, viewer="ann:1", rights="type", resumed=True), "hello"),
        (Hello(terminal=None, viewer="ann:1", rights="view"), "hello"),
        (SnapshotMessage(offset=5, cols=80, rows=24, vt="\x1b[Hgr\u00fc", progress=Progress("set", 4)), "snapshot"),
        (ResizedMessage(cols=100, rows=30, offset=7), "resize"),
        (FactsMessage(title="t", progress="none", bells=2), "facts"),
        (Leased(holder=ANN, yours=True, waiting=None, due=5.0), "lease"),
        (Gone(exit=Exit(signal=9), offset=9), "exit"),
        (Gone(exit=None, offset=0), "exit"),
        (RefusedMessage(problem=Problem(kind="denied", message="no"), re=3), "error"),
    ],
)
def test_what_a_terminal_tells(message: Any, kind: str) -> None:
    assert read_terminal_message(encode_message(message)) == message
    assert f'"kind":"{kind}"' in encode_message(message)


@pytest.mark.parametrize(
    "message",
    [
        PressKey(key=Key(name="ArrowUp"), n=3),
        Type(text="ls\n"),
        Paste(text="a\nb"),
        ResizeTerminal(cols=80, rows=24),
        Control(name="eof"),
        SendBytes(data=b"\x00\xff\x1b"),
        Want(action="take"),
        Ack(offset=1 << 40),
        Refresh(n=7),
    ],
)
def test_what_a_viewer_says(message: Any) -> None:
    assert read_viewer_message(encode_message(message)) == message


@pytest.mark.parametrize(("offset", "data"), [(0, b""), (5, b"hi"), ((1 << 64) - 1, b"\x00" * 9)])
def test_output_carries_its_offset(offset: int, data: bytes) -> None:
    assert read_terminal_message(output(offset, data)) == (offset, data)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        '{"kind":"nonsense"}',
        '{"text":"x"}',
        '{"kind":"text"}',
        '{"kind":"text","text":5}',
        '{"kind":"text","text":"x","more":1}',  # what is not understood is not obeyed in part
        '{"kind":"resize","cols":"80","rows":24}',
        '{"kind":"resize","cols":80.5,"rows":24}',
        '{"kind":"control","name":"kill"}',
        '{"kind":"raw","data":"%%%"}',
        '{"kind":"ack","offset":null}',
        '{"kind":"hello"}',
        '{"kind":"text","text":"\\ud800"}',
        '{"kind":' * 10_000,
        "\ud800",
    ],
)
def test_what_is_no_message_is_refused(frame: str) -> None:
    with pytest.raises(OstlerError) as refused:
        read_viewer_message(frame)
    assert refused.value.kind == "bad_request"
    assert refused.value.message.startswith("this frame is not valid: ")


def test_frames_of_bytes_and_frames_that_are_too_long() -> None:
    whole = '{"kind":"text","text":"%s"}'
    fits = whole % ("x" * (FRAME_LIMIT - len(whole) + 2))
    assert len(fits) == FRAME_LIMIT and isinstance(read_viewer_message(fits), Type)
    for frame, what in ((b"{}", "bytes"), (fits + " ", "more than 1,048,576 characters")):
        with pytest.raises(OstlerError) as refused:
            read_viewer_message(frame)
        assert refused.value.message == f"a frame of {what} is not valid"
