"""Finds secrets in a text that arrives in pieces. Each unit of it is looked at a bounded number of times, however it
is cut; what was found is the same for any cutting.
"""

from collections import deque
from itertools import takewhile
from typing import Any, AnyStr, Generic

from ostler.store.automaton import Automaton
from ostler.store.scan import RunPart, Scan, Shape

LONGEST = 16_384  # within so many units a text must have proved to be a token: none is longer
_WINDOW = 4096  # what is looked at in one go: spans are nearly in order then
_CONTEXT = 32  # units before a piece that are remembered: a start and what it must stand apart from


class Finder(Generic[AnyStr]):
    """Fed with all pieces, it knows the `spans` to hide, and up to where nothing can be added to them."""

    def __init__(self, scan: Scan[AnyStr], before: AnyStr) -> None:
        """`before`: the last units of a text that went before and has nothing to do with what follows."""
        self.spans = Spans()
        self.end = 0  # units that were fed
        self._scan: Scan[AnyStr] = scan
        self._auto: Automaton[Shape[AnyStr]] = scan.automaton
        self._node = 0
        self._context: AnyStr = before
        self._candidates: list[TokenCandidate[AnyStr]] = []

    @property
    def idle(self) -> bool:
        """Nothing that was fed can be part of a secret that goes on."""
        return self._node == 0 and not self._candidates

    @property
    def decided(self) -> int:
        """What begins before this place is known to be a secret or none."""
        places = [self._decided_words()]
        for candidate in self._candidates:
            if candidate.hidden is not None and not candidate.certain:
                places.append(candidate.hidden)
        return min(places)

    @property
    def seen(self) -> int:
        """Of what is not decided, all before this place may be seen: if it is a secret, that is a third at most."""
        places = [self.end + self._auto.seen[self._node]]
        for candidate in self._candidates:
            if candidate.hidden is not None and not candidate.certain:
                places.append(candidate.seen)
        return min(places)

    @property
    def before(self) -> AnyStr:
        """The last two units that were fed."""
        return self._context[-2:]

    def feed(self, piece: AnyStr) -> None:
        for at in range(0, len(piece), _WINDOW):
            window = piece[at : at + _WINDOW]
            begun = self._walk(window)
            self._read(window, begun)
            self._context = (self._context + window)[-_CONTEXT:]
            self.end += len(window)

    def _walk(self, piece: AnyStr) -> list["tuple[int, TokenCandidate[AnyStr]]"]:
        """Finds known values, and returns the tokens that begin, each with where its parts are to be read."""
        children, fallback = self._auto.children, self._auto.fallback
        found, begun = self._auto.found, self._auto.begun
        before = self._context[-2:]
        search = self._scan.search(before + piece)
        node, at = self._node, 0
        candidates: list[tuple[int, TokenCandidate[AnyStr]]] = []
        while at < len(piece):
            if node == 0:
                hit = search(len(before) + at)
                if hit is None:
                    break
                at = hit.start() - len(before)
            unit = piece[at]
            while (following := children[node].get(unit)) is None and node:
                node = fallback[node]
            node = following or 0
            at += 1
            if found[node]:
                self.spans.add(self.end + at - found[node], self.end + at)
            for length, shape in begun[node]:
                if not shape.apart or self._apart(piece, at - length):
                    candidates.append((at, TokenCandidate(shape, self.end + at - length, length, self._scan.empty)))
        self._node = node
        return candidates

    def _read(self, piece: AnyStr, begun: list["tuple[int, TokenCandidate[AnyStr]]"]) -> None:
        going_on: list[TokenCandidate[AnyStr]] = []
        going: list[tuple[int, TokenCandidate[AnyStr]]] = [(0, each) for each in self._candidates]
        for at, candidate in going + begun:
            if candidate.read(piece, at, self.end):
                going_on.append(candidate)
            if candidate.certain and candidate.hidden is not None:
                self.spans.add(candidate.hidden, candidate.end)
        self._candidates = going_on

    def _apart(self, piece: AnyStr, at: int) -> bool:
        """Whether what begins at `at` (negative: before the piece) does not go on a word."""
        before = piece[max(0, at - 2) : at] if at > 0 else self._scan.empty
        if at < 2:
            context = self._context if at >= 0 else self._context[:at]
            before = (context + before)[-2:]
        return not self._scan.after_word.match(before)

    def _decided_words(self) -> int:
        auto, node = self._auto, self._node
        while node:
            depth = auto.depth[node]
            if auto.inside[node] or any(self._holds(shape, depth) for shape in auto.opening[node]):
                return self.end - depth
            node = auto.fallback[node]
        return self.end

    def _holds(self, shape: Shape[AnyStr], depth: int) -> bool:
        """Whether a start of which `depth` units are there must not be seen yet."""
        return shape.kept == 0 and (not shape.apart or self._apart(self._scan.empty, -depth))


class TokenCandidate(Generic[AnyStr]):
    """What may be a token: its start is there, its parts are read as they come."""

    def __init__(self, shape: Shape[AnyStr], start: int, length: int, empty: AnyStr) -> None:
        """`length`: of the start."""
        self.start = start
        self.hidden: int | None = None if shape.kept else start  # where the secret in it begins
        self.seen = start + length + shape.seen  # up to where it may be seen
        self.certain = False  # it is a token, and may grow
        self.end = 0  # up to where it is one
        self._shape: Shape[AnyStr] = shape
        self._empty: AnyStr = empty
        self._number = -1
        self._begin(0)

    def _begin(self, offset: int) -> None:
        """The next part begins there."""
        self._number += 1
        self._count = 0
        self._tail: AnyStr = self._empty  # the last units of a run, for needs that are cut
        part: Any = self._part
        self._needs = list(part.needs) if isinstance(part, RunPart) else []
        if self.hidden is None and self._number + 1 == self._shape.kept:
            self.hidden = offset
            self.seen = offset + self._shape.seen

    @property
    def _part(self) -> AnyStr | RunPart[AnyStr] | None:
        return self._shape.parts[self._number] if self._number < len(self._shape.parts) else None

    def read(self, piece: AnyStr, at: int, offset: int) -> bool:
        """Reads on from `at`; the piece begins at `offset`. Whether it may go on in the next piece."""
        while at < len(piece):
            part = self._part
            if part is None or (not self.certain and offset + at - self.start >= LONGEST):
                return False
            if isinstance(part, RunPart):
                stop, over = self._read_run(part, piece, at, offset)
            else:
                stop, over = self._read_literal(part, piece, at)
            if stop < 0:
                return False
            at = stop
            if over:
                self._begin(offset + at)
        return True

    def _read_literal(self, part: AnyStr, piece: AnyStr, at: int) -> tuple[int, bool]:
        """How far it goes (-1: it does not), and whether it is whole."""
        rest = part[self._count :]
        taken = piece[at : at + len(rest)]
        if not rest.startswith(taken):
            return -1, False
        self._count += len(taken)
        return at + len(taken), len(taken) == len(rest)

    def _read_run(self, part: RunPart[AnyStr], piece: AnyStr, at: int, offset: int) -> tuple[int, bool]:
        stop = len(piece)
        if not self.certain:
            stop = min(stop, self.start + LONGEST - offset)
        if part.most is not None:
            stop = min(stop, at + part.most - self._count)
        match = part.units.match(piece, at, stop)
        assert match  # it may be empty
        end = match.end()
        self._count += end - at
        if self._needs:
            self._look_for_needs(piece[at:end])
        enough = self._count >= part.least and not self._needs
        if enough and self._number >= self._shape.last:
            self.certain, self.end = True, offset + end
        if end == len(piece) or (end == stop and not self.certain and self._count != part.most):
            return end, False  # it may go on; at LONGEST it is given up
        return (end, True) if enough else (-1, False)

    def _look_for_needs(self, units: AnyStr) -> None:
        text = self._tail + units
        self._needs = [need for need in self._needs if not need[0].search(text)]
        self._tail = text[-max(width for _, width in self._needs) :] if self._needs else self._empty


class Spans:
    """Places in a text: from, to. In order; those that overlap are one."""

    def __init__(self) -> None:
        self._all: deque[tuple[int, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def first(self) -> tuple[int, int]:
        return self._all[0]

    def between(self, start: int, end: int) -> list[tuple[int, int]]:
        """Those of which something is there."""
        after = list(takewhile(lambda span: span[1] > start, reversed(self._all)))
        return [(first, min(last, end)) for first, last in reversed(after) if first < end]

    def drop_first(self) -> None:
        self._all.popleft()

    def add(self, first: int, last: int) -> None:
        later = []
        while self._all and self._all[-1][0] >= last:
            later.append(self._all.pop())
        while self._all and self._all[-1][1] > first:
            start, end = self._all.pop()
            first, last = min(first, start), max(last, end)
        self._all.append((first, last))
        self._all.extend(reversed(later))
