"""A snapshot as viewers get it."""

from functools import cached_property

import msgspec

from ostler.terminal.log import unfinished
from ostler.terminal.screen_words import Snapshot
from ostler.terminal.viewing import Shown, told


class Shot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Encoded once for all who asked at the same time."""

    shown: Shown
    resizes: int  # how many there were before it
    history: bool

    @cached_property
    def frame(self) -> str:
        return told(self.shown)

    @property
    def weight(self) -> int:
        return len(self.shown.vt)


def shot_of(snapshot: Snapshot, resizes: int, history: bool) -> Shot:
    """Half a character at its end cannot be told as text: the bytes that follow begin with it instead."""
    half = unfinished(snapshot.vt)
    shown = Shown(
        offset=snapshot.offset - half,
        cols=snapshot.cols,
        rows=snapshot.rows,
        vt=snapshot.vt[: len(snapshot.vt) - half].decode(errors="replace"),
        title=snapshot.title,
        cwd=snapshot.cwd,
        progress=snapshot.progress,
        alternate=snapshot.modes.alternate,
    )
    return Shot(shown=shown, resizes=resizes, history=history)
