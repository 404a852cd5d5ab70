"""The program that emulates terminals, as a process of its own: one for some hundred of them.

It speaks the messages of `protocol.py` over one socket, and ends when that closes. Its answers are sent
with a blocking socket: ostler always reads, and never waits for it.
"""

import _socket  # `socket` and what it imports: a tenth of the start
import gc
import os
import resource
import select
import time
from typing import NoReturn

import msgspec

from ostler.terminal.emulator import Emulator
from ostler.terminal.ghostty import GhosttyFault
from ostler.terminal.screen.current_step import DRAW, FEED, KEEP, LOOK, OPEN, RESIZE, StepNote
from ostler.terminal.screen.protocol import (
    Checkpoint,
    Closed,
    Done,
    FactsChanged,
    FeedScreen,
    Frames,
    OpenScreen,
    Replies,
    ResizeScreen,
    RowsChanged,
    ScreenAnswer,
    ScreenFacts,
    ScreenRequest,
    SnapshotTaken,
    TakeSnapshot,
    Update,
    WatchRows,
    frame,
)

COALESCE = 0.02  # between two updates of one screen; the first after a pause goes at once
HOLD = 0.15  # how long synchronized output may hold an update back
CHECKPOINT_BYTES = 256 * 1024  # to feed them again takes as long as a few checkpoints
CHECKPOINT_RESIZES = 64
CONFIRM_BYTES = 64 * 1024
CONFIRM_SECONDS = 0.1
NOTHING = ScreenFacts()
FOREVER = float("inf")


class EmulatedScreen:
    """One terminal in this process, and what of it ostler was told."""

    def __init__(self, request: OpenScreen) -> None:
        kept = request.checkpoint
        self.id = request.id
        self.emulator = Emulator(request.cols, request.rows, request.limits, kept.data if kept else b"")
        self.emulator.progress_now = kept.progress if kept else None
        self.offset = self.kept_offset = kept.offset if kept else request.offset
        self.resizes = self.kept_resizes = kept.resizes if kept else 0
        self.modes = request.modes  # as ostler knows them
        self.watched = False
        self.whole = True
        self.last_update = 0.0
        self.changed_at = 0.0

    def update_due(self) -> float:
        """When the next update may go."""
        due = self.last_update + COALESCE
        if not self.whole and self.emulator.synchronized():
            due = max(due, self.changed_at + HOLD)
        return due

    def checkpoint_due(self) -> bool:
        return (
            self.offset - self.kept_offset >= CHECKPOINT_BYTES or self.resizes - self.kept_resizes >= CHECKPOINT_RESIZES
        )

    def update(self, now: float) -> Update:
        """What changed on the screen since the last one."""
        emulator = self.emulator
        dirty = emulator.dirty()
        wanted = list(range(emulator.size[1])) if self.whole else dirty
        update = Update(
            seq=0,
            offset=self.offset,
            cols=emulator.size[0],
            rows=emulator.size[1],
            changed=emulator.rows(wanted),
            cursor=emulator.cursor(),
            modes=emulator.modes(),
            whole=self.whole or len(wanted) == emulator.size[1],
        )
        self.whole = False
        self.last_update = now
        return update

    def checkpoint(self) -> Checkpoint | None:
        """None within an endless sequence: then it is tried again when as much has passed."""
        data = self.emulator.checkpoint()
        self.kept_offset, self.kept_resizes = self.offset, self.resizes
        return (data and Checkpoint(self.id, self.offset, self.resizes, self.emulator.progress_now, data)) or None


class Stage:
    """All terminals of this process. Requests in; answers are collected until they are sent."""

    def __init__(self, box: StepNote) -> None:
        self._box = box
        self._shown: dict[int, EmulatedScreen] = {}
        self._changed: dict[int, EmulatedScreen] = {}  # those that an update is due for
        self._answers: list[ScreenAnswer] = []
        self._handled = 0
        self._offsets: dict[int, int] = {}  # how far they came since that was confirmed
        self._unconfirmed = 0  # bytes
        self._confirm_at = FOREVER

    def handle(self, request: ScreenRequest, now: float) -> None:
        self._handled += 1
        if isinstance(request, OpenScreen):
            self._open(request)
        elif (shown := self._shown.get(request.id)) is None:
            pass
        elif isinstance(request, FeedScreen):
            self._feed(shown, request, now)
            return
        elif isinstance(request, ResizeScreen):
            self._resize(shown, request, now)
        elif isinstance(request, TakeSnapshot):
            self._look(shown, request, now)
        elif isinstance(request, WatchRows):
            shown.watched, shown.whole, shown.last_update = request.on, True, 0.0
            shown.emulator.unwatch()
            self._touch(shown, now)
        else:
            self._close(shown, now)
        self._confirm_at = now

    def answers(self, now: float) -> list[ScreenAnswer]:
        """What there is to say now, with the updates that are due; how far everything has come is said last."""
        for shown in list(self._changed.values()):
            if shown.update_due() <= now:
                self._draw(shown, now)
        if self._answers or now >= self._confirm_at:
            self._answers.append(Done(self._handled, self._offsets))
            self._offsets, self._unconfirmed, self._confirm_at = {}, 0, FOREVER
        answers, self._answers = self._answers, []
        return answers

    def next_at(self) -> float:
        """When there will be something to say, if nothing comes."""
        return min([self._confirm_at, *(shown.update_due() for shown in self._changed.values())])

    def _open(self, request: OpenScreen) -> None:
        self._box.begin(request.id, OPEN)
        if old := self._shown.pop(request.id, None):
            self._changed.pop(old.id, None)
            old.emulator.close()
        try:
            self._shown[request.id] = EmulatedScreen(request)
        except GhosttyFault:  # a checkpoint of no use: the log has the rest
            self._shown[request.id] = EmulatedScreen(msgspec.structs.replace(request, checkpoint=None))

    def _feed(self, shown: EmulatedScreen, request: FeedScreen, now: float) -> None:
        self._box.begin(shown.id, FEED, request.end, len(request.data))
        emulator = shown.emulator
        replies = emulator.feed(request.data)
        shown.offset = self._offsets[shown.id] = request.end
        if request.quiet:
            emulator.facts()
        else:
            self._answer(shown, replies)
        if shown.watched:
            self._touch(shown, now)
        if shown.checkpoint_due():
            self._keep(shown)
        self._unconfirmed += len(request.data)
        wait = CONFIRM_SECONDS if self._unconfirmed < CONFIRM_BYTES else 0.0
        self._confirm_at = min(self._confirm_at, now + wait)

    def _resize(self, shown: EmulatedScreen, request: ResizeScreen, now: float) -> None:
        self._box.begin(shown.id, RESIZE, request.count)
        shown.resizes = request.count
        replies = shown.emulator.resize(request.cols, request.rows)
        if replies:
            self._answers.append(Replies(shown.id, shown.offset, replies))
        shown.whole = True
        self._touch(shown, now)
        if shown.checkpoint_due():
            self._keep(shown)

    def _look(self, shown: EmulatedScreen, request: TakeSnapshot, now: float) -> None:
        if shown.id in self._changed:
            self._draw(shown, now)
        self._box.begin(shown.id, LOOK, request.ask)
        if not shown.watched:
            shown.emulator.dirty()
        snapshot = shown.emulator.snapshot(shown.offset, request.history)
        self._answers.append(SnapshotTaken(shown.id, request.ask, snapshot))
        if not shown.watched:
            shown.emulator.unwatch()

    def _answer(self, shown: EmulatedScreen, replies: bytes) -> None:
        """Replies and facts, modes among them if they are others than ostler knows."""
        emulator = shown.emulator
        if replies:
            self._answers.append(Replies(shown.id, shown.offset, replies))
        facts, modes = emulator.facts(), emulator.modes()
        if modes is not shown.modes and modes != shown.modes:
            facts = msgspec.structs.replace(facts or NOTHING, modes=modes)
        shown.modes = modes
        if facts:
            self._answers.append(FactsChanged(shown.id, msgspec.structs.replace(facts, offset=shown.offset)))

    def _touch(self, shown: EmulatedScreen, now: float) -> None:
        if shown.watched and shown.id not in self._changed:
            self._changed[shown.id], shown.changed_at = shown, now
        elif not shown.watched:
            self._changed.pop(shown.id, None)

    def _draw(self, shown: EmulatedScreen, now: float) -> None:
        self._box.begin(shown.id, DRAW)
        del self._changed[shown.id]
        self._answers.append(RowsChanged(shown.id, shown.update(now)))

    def _keep(self, shown: EmulatedScreen) -> None:
        self._box.begin(shown.id, KEEP)
        if kept := shown.checkpoint():
            self._answers.append(kept)

    def _close(self, shown: EmulatedScreen, now: float) -> None:
        if shown.id in self._changed:
            self._draw(shown, now)
        self._answers.append(Closed(shown.id))
        del self._shown[shown.id]
        shown.emulator.close()


def serve(sock: _socket.socket, box: StepNote) -> None:
    """Reads, emulates, answers, until the other side is gone."""
    stage, frames = Stage(box), Frames(ScreenRequest)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    next_at = FOREVER
    while True:
        box.rest()
        wait = None if next_at == FOREVER else max(0.0, next_at - time.monotonic()) * 1000
        if poll.poll(wait):
            data = sock.recv(1 << 18)
            if not data:
                return
            now = time.monotonic()
            for request in frames.read(data):
                stage.handle(request, now)
        if answers := stage.answers(time.monotonic()):
            sock.sendall(b"".join(map(frame, answers)))
        next_at = stage.next_at()


def main(fd: int, box: int) -> NoReturn:
    """Runs on the socket with this number. A crash leaves no core file, and the end of ostler is its end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.freeze()
    gc.enable()
    try:
        serve(_socket.socket(fileno=fd), StepNote(box))
    except ConnectionError:
        pass  # ostler was killed
    os._exit(0)  # an orderly exit of the interpreter would only take time
