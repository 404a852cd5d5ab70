"""A snapshot as viewers get it."""

from functools import cached_property

import msgspec

from ostler.terminal.log import unfinished
from ostler.terminal.screen.protocol import Snapshot
from ostler.terminal.viewer_protocol import SnapshotMessage, encode_message

LIMIT = 256 * 1024  # bytes of VT: what a viewer that takes nothing may cost, and no more history than people scroll
ROW = b"\r\n"  # every row is a line of its own, with its own colours


class ViewerSnapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Encoded once for all who asked at the same time."""

    shown: SnapshotMessage
    resizes: int  # how many there were before it
    history: bool

    @cached_property
    def frame(self) -> str:
        return encode_message(self.shown)


def viewer_snapshot(snapshot: Snapshot, resizes: int, history: bool) -> ViewerSnapshot:
    """Half a character at its end cannot be told as text: the bytes that follow begin with it instead."""
    vt = lightened(snapshot) if history else snapshot.vt
    half = unfinished(vt)
    shown = SnapshotMessage(
        offset=snapshot.offset - half,
        cols=snapshot.cols,
        rows=snapshot.rows,
        vt=vt[: len(vt) - half].decode(errors="replace"),
        title=snapshot.title,
        cwd=snapshot.cwd,
        progress=snapshot.progress,
        alternate=snapshot.modes.alternate,
    )
    return ViewerSnapshot(shown=shown, resizes=resizes, history=history)


def lightened(snapshot: Snapshot) -> bytes:
    """The VT without as many of the oldest rows of history as it is too long for."""
    vt, at = snapshot.vt, snapshot.vt.find(b"\x1b[H") + 3
    excess = len(vt) - LIMIT
    if excess <= 0 or not snapshot.scrollback:
        return vt
    kept = at
    for _ in range(min(snapshot.scrollback, vt.count(ROW, at, at + excess) + 1)):
        kept = vt.index(ROW, kept) + len(ROW)
    return vt[:at] + vt[kept:]
