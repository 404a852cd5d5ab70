"""What a viewer and a terminal say to each other, whatever carries it: a WebSocket, a Unix socket, a call.

A frame is text (one of these messages as JSON, told apart by `kind`) or bytes: output of the program,
eight bytes of offset (big endian) before it. Offsets count the terminal's output from its start.
"""

import struct
from collections.abc import AsyncIterator
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.model import Exit, Problem, TerminalRow
from ostler.terminal.keys import Key
from ostler.terminal.lease import Author
from ostler.terminal.screen.protocol import CursorShape, Progress

Format = Literal["bytes", "rows"]  # what a viewer gets: output for its own emulator, or rows that it can draw
Frame = str | bytes

HIGH = 100_000  # bytes that may be under way to a viewer before it has to acknowledge some
LOW = 5_000
FRAME_LIMIT = 1 << 20  # a longer frame of a viewer is refused


# -- a terminal to its viewer ---------------------------------------------------------------------------


class TerminalMessage(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Of a message to a viewer."""


class Hello(TerminalMessage, frozen=True, kw_only=True, tag="hello"):
    """Always first; again when a follower of the primary terminal is moved to another one.

    `resumed`: bytes go on at the offset that the viewer asked for, no snapshot follows.
    """

    terminal: TerminalRow | None  # None: the session has no terminal yet
    viewer: str
    rights: Rights
    resumed: bool = False
    high: int = HIGH
    format: Format = "bytes"


class SnapshotMessage(TerminalMessage, frozen=True, kw_only=True, tag="snapshot"):
    """Forget what was shown: a terminal reset to this size that is fed `vt` shows the screen at `offset`.

    Comes first, and again when bytes would not do: after a flood, when the alternate screen was left whose
    beginning the viewer did not see, and shortly after a resize, which every terminal wraps in its own way.
    """

    offset: int
    cols: int
    rows: int
    vt: str
    title: str = ""
    cwd: str = ""
    progress: Progress | None = None
    alternate: bool = False


class CursorView(Struct, frozen=True, kw_only=True):
    """Where the next character goes, from 0; `shape` and `blinking` as the program chose."""

    x: int
    y: int
    shape: CursorShape
    visible: bool
    blinking: bool


class RowChange(Struct, frozen=True, kw_only=True):
    """One row: as text without trailing blanks, and as VT (colours and text, nothing that moves the cursor)."""

    y: int
    text: str
    vt: str


class ScreenRows(TerminalMessage, frozen=True, kw_only=True, omit_defaults=True, tag="rows"):
    """For viewers by rows: what has changed on the screen after `offset` bytes. `seq` counts from 1.

    `whole`: `changed` has every row, what was shown before is void. Of title, folder and progress what is new.
    """

    seq: int
    offset: int
    cols: int
    rows: int
    changed: tuple[RowChange, ...]
    cursor: CursorView
    alternate: bool
    whole: bool = False
    title: str | None = None
    cwd: str | None = None
    progress: Progress | Literal["none"] | None = None
    bells: int = 0


class ResizedMessage(TerminalMessage, frozen=True, kw_only=True, tag="resize"):
    """Comes between the bytes before and after it."""

    cols: int
    rows: int
    offset: int


class FactsMessage(TerminalMessage, frozen=True, kw_only=True, omit_defaults=True, tag="facts"):
    """What the program told in passing; only what is new."""

    title: str | None = None
    cwd: str | None = None
    progress: Progress | Literal["none"] | None = None
    bells: int = 0


class Leased(TerminalMessage, frozen=True, kw_only=True, tag="lease"):
    """Who holds the keyboard now. After `due` (epoch seconds) without a key it goes back to `waiting`."""

    holder: Author | None
    yours: bool
    waiting: Author | None = None
    due: float | None = None


class Gone(TerminalMessage, frozen=True, kw_only=True, tag="exit"):
    """The program has ended and every byte of it was sent. `exit` is None where nobody saw how."""

    exit: Exit | None
    offset: int


class RefusedMessage(TerminalMessage, frozen=True, kw_only=True, tag="error"):
    """A frame of this viewer could not be obeyed; nothing else changes. `re` is the frame's own number."""

    problem: Problem
    re: int = 0


AnyTerminalMessage = (
    Hello | SnapshotMessage | ScreenRows | ResizedMessage | FactsMessage | Leased | Gone | RefusedMessage
)


# -- a viewer to its terminal ---------------------------------------------------------------------------


class ViewerMessage(
    Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True
):
    """Of a message from a viewer. `n` comes back in an error."""

    n: int = 0


class PressKey(ViewerMessage, frozen=True, kw_only=True, tag="key"):
    key: Key


class Type(ViewerMessage, frozen=True, kw_only=True, tag="text"):
    """Characters as if typed: control characters are refused, a newline is Enter."""

    text: str


class Paste(ViewerMessage, frozen=True, kw_only=True, tag="paste"):
    text: str


class ResizeTerminal(ViewerMessage, frozen=True, kw_only=True, tag="resize"):
    cols: int
    rows: int


class Control(ViewerMessage, frozen=True, kw_only=True, tag="control"):
    name: Literal["interrupt", "eof", "suspend"]


class SendBytes(ViewerMessage, frozen=True, kw_only=True, tag="raw"):
    """Bytes for the program as they are (base64 in JSON): mouse and focus reports, input methods."""

    data: bytes


class Want(ViewerMessage, frozen=True, kw_only=True, tag="lease"):
    """Takes the keyboard or hands it back."""

    action: Literal["take", "release"]


class Ack(ViewerMessage, frozen=True, kw_only=True, tag="ack"):
    """Everything before `offset` was shown; a snapshot is acknowledged by its own offset.

    To be sent for every snapshot and at least once in LOW bytes: at HIGH unacknowledged ones nothing more comes,
    and no further snapshot after a large one.
    """

    offset: int


class Refresh(ViewerMessage, frozen=True, kw_only=True, tag="refresh"):
    """Asks for a new snapshot."""


ViewerInput = PressKey | Type | Paste | ResizeTerminal | Control | SendBytes
AnyViewerMessage = ViewerInput | Want | Ack | Refresh


# -- the two ends -----------------------------------------------------------------------------------------


class Viewing(Protocol):
    """One viewer of one terminal, wherever that lives. Ends by itself once `exit` was sent."""

    def frames(self) -> AsyncIterator[Frame]:
        """What to send to the viewer, in order; never more than the watermark ahead of its `ack`."""
        ...

    def receive(self, frame: Frame) -> None:
        """A frame of the viewer. What is wrong with it comes back as an `error` frame."""
        ...

    async def close(self) -> None:
        """The viewer has gone; its lease is given back shortly after."""
        ...


_OFFSET = struct.Struct("!Q")
_encode = msgspec.json.Encoder().encode
_SAID: msgspec.json.Decoder[AnyViewerMessage] = msgspec.json.Decoder(AnyViewerMessage)
_TOLD: msgspec.json.Decoder[AnyTerminalMessage] = msgspec.json.Decoder(AnyTerminalMessage)


def encode_message(message: AnyTerminalMessage | AnyViewerMessage) -> str:
    return _encode(message).decode()


def output(offset: int, data: bytes) -> bytes:
    return _OFFSET.pack(offset) + data


def output_end(frame: bytes) -> int:
    """The offset behind the output of a frame."""
    return int(_OFFSET.unpack_from(frame)[0]) + len(frame) - _OFFSET.size


def read_viewer_message(frame: Frame) -> AnyViewerMessage:
    """A viewer's frame. `bad_request` for what is no message."""
    if isinstance(frame, bytes) or len(frame) > FRAME_LIMIT:
        what = "bytes" if isinstance(frame, bytes) else f"more than {FRAME_LIMIT:,} characters"
        raise OstlerError("bad_request", f"a frame of {what} is not valid", "Send one JSON message as text")
    try:
        return _SAID.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise OstlerError("bad_request", f"this frame is not valid: {error}") from error


def read_terminal_message(frame: Frame) -> AnyTerminalMessage | tuple[int, bytes]:
    """A terminal's frame as a message, or as an offset and output: for clients."""
    if isinstance(frame, bytes):
        return _OFFSET.unpack_from(frame)[0], frame[8:]
    return _TOLD.decode(frame)
