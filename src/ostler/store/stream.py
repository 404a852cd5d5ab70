"""A text without its secrets, as it arrives: what may be the beginning of one is held back until that is decided."""

from collections import deque
from collections.abc import Callable
from typing import AnyStr, Generic

from ostler.store.finder import Finder
from ostler.store.scan import Scan

Hide = Callable[[int, bool], AnyStr]
"""What to show instead of so many units of a secret; False: they go on one of which something was shown before."""


class Stream(Generic[AnyStr]):
    """A text that arrives in pieces. What comes out is the same however it was cut."""

    def __init__(self, scan: Scan[AnyStr], hide: Hide[AnyStr]) -> None:
        self._scan: Scan[AnyStr] = scan
        self._hide: Hide[AnyStr] = hide
        self._before: AnyStr = scan.empty  # two letters of what was shown: a token must stand apart
        self._held: AnyStr = scan.empty  # the text ends with these first letters of what may be a secret
        self._ready: AnyStr = scan.empty  # decided, but not shown yet
        self._closer: CloserLook[AnyStr] | None = None

    @property
    def idle(self) -> bool:
        """Nothing is held back, and nothing that was fed goes on as a secret."""
        return self._closer is None and not self._held

    def feed(self, piece: AnyStr) -> AnyStr:
        """What can be shown by now."""
        if self._closer is not None:
            return self._look(self._closer, piece)
        text = self._before + self._held + piece
        start = len(self._before)
        at = self._scan.first(text, start)
        if at is None:
            return self._keep(text, len(text), text[start:] if self._held else piece)
        if not isinstance(at, int) and at.end() == len(text):
            # The text ends within the first letters of what may be a secret: all before them is clean.
            return self._keep(text, at.start(), text[start : at.start()])
        self._closer = CloserLook(self._scan, self._hide, self._before)
        self._held = self._scan.empty
        return self._look(self._closer, text[start:])

    def close(self) -> AnyStr:
        """What was held back; no more follows."""
        shown = self._ready + self._closer.close() if self._closer else self._held
        self._held = self._ready = self._scan.empty
        self._closer = None
        return shown

    def provisional(self, skip: int, whole: bool) -> AnyStr:
        """What is held back but for its first `skip` units, as it may be seen before it is decided: of what may be a
        secret a third at most, and the `whole` if nothing is likely to follow. What is fed later returns it all the
        same.
        """
        if self._closer is None:
            if not self._held:
                return self._held
            self._closer = CloserLook(self._scan, self._hide, self._before)
            self._ready, self._held = self._closer.feed(self._held), self._scan.empty
        return self._ready[skip:] + self._closer.provisional(max(0, skip - len(self._ready)), whole)

    def _keep(self, text: AnyStr, end: int, shown: AnyStr) -> AnyStr:
        self._held = text[end:]
        self._before = text[max(0, end - 2) : end]
        return shown

    def _look(self, closer: "CloserLook[AnyStr]", piece: AnyStr) -> AnyStr:
        shown = self._ready + closer.feed(piece)
        self._ready = self._scan.empty
        if closer.idle:
            self._before, self._closer = closer.before, None
        return shown


class CloserLook(Generic[AnyStr]):
    """At a text in which a secret may stand: what was not shown yet, and what the finder knows of it."""

    def __init__(self, scan: Scan[AnyStr], hide: Hide[AnyStr], before: AnyStr) -> None:
        self._finder: Finder[AnyStr] = Finder(scan, before)
        self._hide: Hide[AnyStr] = hide
        self._empty: AnyStr = scan.empty
        self._pieces: deque[AnyStr] = deque()  # the first `_skip` units of the first one are done with
        self._skip = 0
        self._at = 0  # everything before this place was shown
        self._covered = 0  # the end of the last secret that was hidden

    @property
    def idle(self) -> bool:
        return self._finder.idle

    @property
    def before(self) -> AnyStr:
        return self._finder.before

    def feed(self, piece: AnyStr) -> AnyStr:
        self._pieces.append(piece)
        self._finder.feed(piece)
        return self._show(self._finder.decided)

    def close(self) -> AnyStr:
        return self._show(self._finder.end)

    def provisional(self, skip: int, whole: bool) -> AnyStr:
        end = self._finder.end
        start: int = self._at + skip
        at: int = start
        seen: int = end if whole else min(max(start, self._finder.seen), end)
        text = self._last(end - start)
        parts: list[AnyStr] = []
        for first, last in [*self._finder.spans.between(start, seen), (seen, end)]:
            if at < first:
                parts.append(text[at - start : first - start])
                at = first
            if at < last:
                parts.append(self._hide(last - at, True))
                at = last
        return self._empty.join(parts)

    def _last(self, length: int) -> AnyStr:
        """So many units from the end of what is held."""
        parts: deque[AnyStr] = deque()
        for piece in reversed(self._pieces):
            if length <= 0:
                break
            parts.appendleft(piece[-length:])
            length -= len(piece)
        return self._empty.join(parts)

    def _show(self, end: int) -> AnyStr:
        """What was not shown before `end`, and beyond it the rest of a secret: that is hidden, whatever follows."""
        parts: list[AnyStr] = []
        spans = self._finder.spans
        while spans and spans.first[0] <= end:
            first, last = spans.first
            self._take(first, parts)
            if last > self._at:
                parts.append(self._hide(last - self._at, first >= self._covered))
                self._take(last, None)
                self._covered = last
            spans.drop_first()
        self._take(end, parts)
        return self._empty.join(parts)

    def _take(self, end: int, parts: list[AnyStr] | None) -> None:
        """Takes what is held before `end`, or drops it."""
        while self._at < end:
            piece = self._pieces[0]
            stop = min(len(piece), self._skip + end - self._at)
            if parts is not None:
                parts.append(piece[self._skip : stop])
            self._at += stop - self._skip
            self._skip = stop
            if stop == len(piece):
                self._pieces.popleft()
                self._skip = 0
