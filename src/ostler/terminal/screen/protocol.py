"""What a screen is, as frozen structs: the facts people see, and the messages between ostler and the screen process."""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from ostler.terminal.keys import KeyModes

MouseMode = Literal["off", "x10", "press", "drag", "any"]  # what of the mouse a program wants to be told
CursorShape = Literal["block", "bar", "underline", "hollow"]
ProgressState = Literal["set", "error", "indeterminate", "paused"]


class Cursor(Struct, frozen=True, array_like=True):
    """Where the next character goes, from 0; `shape` and `blinking` as the program chose."""

    x: int = 0
    y: int = 0
    shape: CursorShape = "block"
    visible: bool = True
    blinking: bool = False


class Modes(Struct, frozen=True, array_like=True):
    """The modes that matter to those who type and to those who watch."""

    alternate: bool = False
    bracketed_paste: bool = False
    mouse: MouseMode = "off"
    mouse_sgr: bool = False
    focus: bool = False
    application_cursor: bool = False
    application_keypad: bool = False
    kitty: int = 0  # flags of the kitty keyboard protocol
    modify_other_keys: int = 0
    backarrow: bool = False
    alt_escape: bool = True
    numlock_keypad: bool = True


def key_modes(modes: Modes) -> "KeyModes":
    """What `keys.encode` has to know of a program's modes."""
    from ostler.terminal.keys import KeyModes  # here, since the screen process has no use for keys

    return KeyModes(
        cursor_application=modes.application_cursor,
        keypad_application=modes.application_keypad,
        numlock_keypad=modes.numlock_keypad,
        alt_escape=modes.alt_escape,
        backarrow=modes.backarrow,
        modify_other_keys=modes.modify_other_keys,
        kitty=modes.kitty,
    )


class Progress(Struct, frozen=True, array_like=True):
    """What OSC 9;4 told."""

    state: ProgressState
    percent: int | None = None


class Row(Struct, frozen=True, array_like=True):
    """One row: as text without trailing blanks, and as VT (SGR and text; no links)."""

    y: int
    text: str
    vt: str


class ScreenFacts(Struct, frozen=True, array_like=True):
    """What a program told in passing, up to `offset` of its log; None where it told nothing.

    Of title, folder, progress and modes only the last. Modes are told when they change, watched or not.
    """

    bells: int = 0
    title: str | None = None
    cwd: str | None = None
    progress: Progress | Literal["none"] | None = None
    states: tuple[str, ...] = ()  # OSC 7501, as it came: "state=working:app=claude-code"
    notes: tuple[tuple[str, str], ...] = ()  # OSC 9 and 777: title and body
    modes: Modes | None = None
    offset: int = 0


class Snapshot(Struct, frozen=True, array_like=True):
    """A screen after `offset` bytes of its log. `vt` makes an empty terminal of this size show the same."""

    offset: int
    cols: int
    rows: int
    text: tuple[str, ...]
    styled: tuple[str, ...]
    cursor: Cursor
    modes: Modes
    title: str
    cwd: str
    progress: Progress | None
    scrollback: int  # rows above the screen
    vt: bytes


class Update(Struct, frozen=True, array_like=True):
    """What changed since the update before it; `seq` is counted by the screen, from 1, per follower."""

    seq: int
    offset: int
    cols: int
    rows: int
    changed: tuple[Row, ...]
    cursor: Cursor
    modes: Modes
    facts: ScreenFacts = ScreenFacts()
    whole: bool = False  # `changed` has every row: what was known before is void


def joined(first: ScreenFacts, then: ScreenFacts) -> ScreenFacts:
    """Both as one, bounded: of many states and notes the newest are kept."""
    return ScreenFacts(
        bells=first.bells + then.bells,
        title=first.title if then.title is None else then.title,
        cwd=first.cwd if then.cwd is None else then.cwd,
        progress=then.progress or first.progress,
        states=(*first.states, *then.states)[-100:],
        notes=(*first.notes, *then.notes)[-20:],
        modes=then.modes or first.modes,
        offset=max(first.offset, then.offset),
    )


def merged(first: Update | None, then: Update) -> Update:
    """Two updates as one, for a follower that was slow: nothing is lost and nothing grows."""
    if first is None:
        return then
    facts = joined(first.facts, then.facts)
    if then.whole or (first.cols, first.rows) != (then.cols, then.rows):
        return msgspec.structs.replace(then, facts=facts)
    rows = {row.y: row for row in (*first.changed, *then.changed)}
    changed = tuple(rows[y] for y in sorted(rows))
    return msgspec.structs.replace(then, changed=changed, facts=facts, whole=first.whole)


# -- messages to the screen process ----------------------------------------------------------------------


class ScreenLimits(Struct, frozen=True, array_like=True):
    """Bounds of an emulation. A limit of lines and sizes below 20 × 5 have crashed pyghostty 0.1.3."""

    scrollback_bytes: int = 2_000_000
    scrollback_lines: int = 1 << 40
    min_cols: int = 20
    min_rows: int = 5
    max_cols: int = 1000
    max_rows: int = 500

    def clamp(self, cols: int, rows: int) -> tuple[int, int]:
        return min(max(cols, self.min_cols), self.max_cols), min(max(rows, self.min_rows), self.max_rows)


class Checkpoint(Struct, frozen=True, array_like=True, tag=True):
    """Everything needed to go on at `offset`: the emulator's own form of itself, and what it does not keep."""

    id: int
    offset: int
    resizes: int  # how many it had been told
    progress: Progress | None
    data: bytes


class OpenScreen(Struct, frozen=True, array_like=True, tag="Open"):
    id: int
    cols: int
    rows: int
    offset: int
    limits: ScreenLimits
    checkpoint: Checkpoint | None = None
    modes: Modes = Modes()  # those that ostler knows of


class FeedScreen(Struct, frozen=True, array_like=True, tag="Feed"):
    id: int
    end: int  # the offset after these bytes
    quiet: bool  # they were told before: no replies, no facts
    data: bytes


class ResizeScreen(Struct, frozen=True, array_like=True, tag="Resize"):
    id: int
    count: int  # this is the screen's count-th resize
    cols: int
    rows: int


class TakeSnapshot(Struct, frozen=True, array_like=True, tag=True):
    id: int
    ask: int
    history: bool


class WatchRows(Struct, frozen=True, array_like=True, tag=True):
    """Changed rows are wanted, or no longer; the first answer has every row."""

    id: int
    on: bool


class CloseScreen(Struct, frozen=True, array_like=True, tag="Close"):
    id: int


ScreenRequest = OpenScreen | FeedScreen | ResizeScreen | TakeSnapshot | WatchRows | CloseScreen


# -- and its answers -------------------------------------------------------------------------------------


class Replies(Struct, frozen=True, array_like=True, tag=True):
    id: int
    offset: int
    data: bytes


class FactsChanged(Struct, frozen=True, array_like=True, tag=True):
    id: int
    facts: ScreenFacts


class RowsChanged(Struct, frozen=True, array_like=True, tag=True):
    id: int
    update: Update


class SnapshotTaken(Struct, frozen=True, array_like=True, tag=True):
    id: int
    ask: int
    snapshot: Snapshot


class Closed(Struct, frozen=True, array_like=True, tag=True):
    id: int


class Done(Struct, frozen=True, array_like=True, tag=True):
    """How many requests were handled since the start, and how far each screen has come."""

    handled: int
    offsets: dict[int, int]


ScreenAnswer = Replies | FactsChanged | RowsChanged | SnapshotTaken | Closed | Done | Checkpoint

_LENGTH = struct.Struct("!I")
_encode = msgspec.msgpack.Encoder().encode


def frame(message: ScreenRequest | ScreenAnswer) -> bytes:
    """A message as it goes over the socket: its length, then msgpack."""
    data = _encode(message)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Cuts a stream of bytes into messages of one kind."""

    def __init__(self, kind: Any) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._buffer = bytearray()

    def read(self, data: bytes) -> Iterator[Any]:
        self._buffer += data
        start = 0
        with memoryview(self._buffer) as view:
            messages = []
            while start + 4 <= len(view):
                end = start + 4 + _LENGTH.unpack_from(view, start)[0]
                if end > len(view):
                    break
                messages.append(self._decode(view[start + 4 : end]))
                start = end
        del self._buffer[:start]
        return iter(messages)
