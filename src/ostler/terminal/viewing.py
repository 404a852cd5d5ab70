"""What a viewer and a terminal say to each other, whatever carries it: a WebSocket, a Unix socket, a call.

A frame is text (one of these messages as JSON, told apart by `kind`) or bytes: output of the program,
eight bytes of offset (big endian) before it. Offsets count the terminal's output from its start.
"""

import struct
from collections.abc import AsyncIterator
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.terminal.keys import Key
from ostler.terminal.lease import Author
from ostler.terminal.screen_words import Progress
from ostler.words import Exit, Problem, TerminalRow

Rights = Literal["view", "type", "admin"]
Frame = str | bytes

HIGH = 100_000  # bytes that may be under way to a viewer before it has to acknowledge some
LOW = 5_000
FRAME_LIMIT = 1 << 20  # a longer frame of a viewer is refused


# -- a terminal to its viewer ---------------------------------------------------------------------------


class Told(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Of a message to a viewer."""


class Hello(Told, frozen=True, kw_only=True, tag="hello"):
    """Always first; again when a follower of the primary terminal is moved to another one.

    `resumed`: bytes go on at the offset that the viewer asked for, no snapshot follows.
    """

    terminal: TerminalRow | None  # None: the session has no terminal yet
    viewer: str
    rights: Rights
    resumed: bool = False
    high: int = HIGH


class Shown(Told, frozen=True, kw_only=True, tag="snapshot"):
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


class Resized(Told, frozen=True, kw_only=True, tag="resize"):
    """Comes between the bytes before and after it."""

    cols: int
    rows: int
    offset: int


class Facts(Told, frozen=True, kw_only=True, omit_defaults=True, tag="facts"):
    """What the program told in passing; only what is new."""

    title: str | None = None
    cwd: str | None = None
    progress: Progress | Literal["none"] | None = None
    bells: int = 0


class Leased(Told, frozen=True, kw_only=True, tag="lease"):
    """Who holds the keyboard now. After `due` (epoch seconds) without a key it goes back to `waiting`."""

    holder: Author | None
    yours: bool
    waiting: Author | None = None
    due: float | None = None


class Gone(Told, frozen=True, kw_only=True, tag="exit"):
    """The program has ended and every byte of it was sent. `exit` is None where nobody saw how."""

    exit: Exit | None
    offset: int


class Refused(Told, frozen=True, kw_only=True, tag="error"):
    """A frame of this viewer could not be obeyed; nothing else changes. `re` is the frame's own number."""

    problem: Problem
    re: int = 0


AnyTold = Hello | Shown | Resized | Facts | Leased | Gone | Refused


# -- a viewer to its terminal ---------------------------------------------------------------------------


class Said(Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """Of a message from a viewer. `n` comes back in an error."""

    n: int = 0


class Press(Said, frozen=True, kw_only=True, tag="key"):
    key: Key


class Type(Said, frozen=True, kw_only=True, tag="text"):
    """Characters as if typed: control characters are refused, a newline is Enter."""

    text: str


class Paste(Said, frozen=True, kw_only=True, tag="paste"):
    text: str


class Resize(Said, frozen=True, kw_only=True, tag="resize"):
    cols: int
    rows: int


class Control(Said, frozen=True, kw_only=True, tag="control"):
    name: Literal["interrupt", "eof", "suspend"]


class Send(Said, frozen=True, kw_only=True, tag="raw"):
    """Bytes for the program as they are (base64 in JSON): mouse and focus reports, input methods."""

    data: bytes


class Want(Said, frozen=True, kw_only=True, tag="lease"):
    """Takes the keyboard or hands it back."""

    action: Literal["take", "release"]


class Ack(Said, frozen=True, kw_only=True, tag="ack"):
    """Everything before `offset` was shown; a snapshot is acknowledged by its own offset.

    To be sent for every snapshot and at least once in LOW bytes: at HIGH unacknowledged ones nothing more comes,
    and no further snapshot after a large one.
    """

    offset: int


class Refresh(Said, frozen=True, kw_only=True, tag="refresh"):
    """Asks for a new snapshot."""


Input = Press | Type | Paste | Resize | Control | Send
AnySaid = Input | Want | Ack | Refresh


# -- the two ends -----------------------------------------------------------------------------------------


class Viewing(Protocol):
    """One viewer of one terminal, wherever that lives. Ends by itself once `exit` was sent."""

    def frames(self) -> AsyncIterator[Frame]:
        """What to send to the viewer, in order; never more than the watermark ahead of its `ack`."""
        ...

    def hear(self, frame: Frame) -> None:
        """A frame of the viewer. What is wrong with it comes back as an `error` frame."""
        ...

    async def close(self) -> None:
        """The viewer has gone; its lease is given back shortly after."""
        ...


_OFFSET = struct.Struct("!Q")
_encode = msgspec.json.Encoder().encode
_SAID: msgspec.json.Decoder[AnySaid] = msgspec.json.Decoder(AnySaid)
_TOLD: msgspec.json.Decoder[AnyTold] = msgspec.json.Decoder(AnyTold)


def told(message: AnyTold) -> str:
    return _encode(message).decode()


def output(offset: int, data: bytes) -> bytes:
    return _OFFSET.pack(offset) + data


def said(message: AnySaid) -> str:
    return _encode(message).decode()


def read_said(frame: Frame) -> AnySaid:
    """A viewer's frame. `bad_request` for what is no message."""
    if isinstance(frame, bytes) or len(frame) > FRAME_LIMIT:
        what = "bytes" if isinstance(frame, bytes) else f"more than {FRAME_LIMIT:,} characters"
        raise OstlerError("bad_request", f"a frame of {what} is not understood", "Send one JSON message as text")
    try:
        return _SAID.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise OstlerError("bad_request", f"this frame is not understood: {error}") from error


def read_told(frame: Frame) -> AnyTold | tuple[int, bytes]:
    """A terminal's frame as a message, or as an offset and output: for clients."""
    if isinstance(frame, bytes):
        return _OFFSET.unpack_from(frame)[0], frame[8:]
    return _TOLD.decode(frame)
