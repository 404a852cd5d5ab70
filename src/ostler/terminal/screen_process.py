"""The program that emulates terminals, as a process of its own: one for some hundred of them.

It speaks the messages of screen_words over one socket, and ends when that closes. Its answers are sent
with a blocking socket: ostler always reads, and never waits for it.
"""

import gc
import resource
import select
import socket
import sys
import time

import msgspec

from ostler.terminal.emulator import Emulator
from ostler.terminal.ghostty import GhosttyFault
from ostler.terminal.screen_words import (
    Answer,
    Changed,
    Checkpoint,
    Closed,
    Done,
    Facts,
    Feed,
    Frames,
    Look,
    Open,
    Replies,
    Request,
    Resize,
    Seen,
    Told,
    Update,
    Watch,
    frame,
)

COALESCE = 0.02  # between two updates of one screen; the first after a pause goes at once
HOLD = 0.15  # how long synchronized output may hold an update back
CHECKPOINT_BYTES = 256 * 1024
CHECKPOINT_SECONDS = 5.0
NOTHING = Facts()
FOREVER = float("inf")


class Shown:
    """One terminal in this process, and what of it ostler was told."""

    def __init__(self, request: Open, now: float) -> None:
        kept = request.checkpoint
        self.id = request.id
        self.emulator = Emulator(request.cols, request.rows, request.limits, kept.data if kept else b"")
        self.emulator.progress_now = kept.progress if kept else None
        self.offset = kept.offset if kept else request.offset
        self.resizes = kept.resizes if kept else 0
        self.kept_offset = self.offset
        self.kept_resizes = self.resizes
        self.kept_at = now
        self.watched = False
        self.changed = False
        self.whole = True
        self.last_update = 0.0
        self.changed_at = 0.0
        self.modes = request.modes  # as ostler knows them

    def touch(self, now: float) -> None:
        if not self.changed:
            self.changed, self.changed_at = True, now

    def update_due(self) -> float:
        """When the next update may go."""
        if not (self.changed and self.watched):
            return FOREVER
        due = self.last_update + COALESCE
        if not self.whole and self.emulator.modes().synchronized:
            due = max(due, self.changed_at + HOLD)
        return due

    def checkpoint_due(self) -> float:
        if self.offset == self.kept_offset and self.resizes == self.kept_resizes:
            return FOREVER
        return 0.0 if self.offset - self.kept_offset >= CHECKPOINT_BYTES else self.kept_at + CHECKPOINT_SECONDS

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
        self.changed = self.whole = False
        self.last_update = now
        return update

    def checkpoint(self, now: float) -> Checkpoint | None:
        """None within an endless sequence: then it is tried again when as much has passed."""
        data = self.emulator.checkpoint()
        self.kept_at, self.kept_offset, self.kept_resizes = now, self.offset, self.resizes
        return (data and Checkpoint(self.id, self.offset, self.resizes, self.emulator.progress_now, data)) or None


class Stage:
    """All terminals of this process. Requests in; answers are collected until they are sent."""

    def __init__(self) -> None:
        self.shown: dict[int, Shown] = {}
        self.handled = 0
        self.offsets: dict[int, int] = {}
        self.answers: list[Answer] = []
        self.pending: set[int] = set()  # those that an update or a checkpoint may be due for

    def handle(self, request: Request, now: float) -> None:
        self.handled += 1
        if isinstance(request, Open):
            self._open(request, now)
        elif (shown := self.shown.get(request.id)) is None:
            return
        elif isinstance(request, Feed):
            self._feed(shown, request, now)
        elif isinstance(request, Resize):
            shown.resizes = request.count
            self._reply(shown, shown.emulator.resize(request.cols, request.rows), now)
            shown.whole = True
        elif isinstance(request, Look):
            if shown.changed and shown.watched:
                self.answers.append(Changed(shown.id, shown.update(now)))
            elif not shown.watched:
                shown.emulator.dirty()
            self.answers.append(Seen(shown.id, request.ask, shown.emulator.snapshot(shown.offset, request.history)))
        elif isinstance(request, Watch):
            shown.watched, shown.whole, shown.last_update = request.on, True, 0.0
            shown.touch(now)
            self.pending.add(shown.id)
        else:
            self._close(shown, now)

    def tick(self, now: float) -> float:
        """Makes the updates and checkpoints that are due; returns when the next ones are."""
        next_at = FOREVER
        for id in list(self.pending):
            shown = self.shown[id]
            if shown.update_due() <= now:
                self.answers.append(Changed(id, shown.update(now)))
            if shown.checkpoint_due() <= now and (kept := shown.checkpoint(now)):
                self.answers.append(kept)
            due = min(shown.update_due(), shown.checkpoint_due())
            if due == FOREVER:
                self.pending.discard(id)
            next_at = min(next_at, due)
        return next_at

    def taken(self) -> list[Answer]:
        """The answers so far; last of all how far everything has come."""
        answers, self.answers = self.answers, []
        answers.append(Done(self.handled, self.offsets))
        self.offsets = {}
        return answers

    def _open(self, request: Open, now: float) -> None:
        if old := self.shown.pop(request.id, None):
            old.emulator.close()
        try:
            self.shown[request.id] = Shown(request, now)
        except GhosttyFault:  # a checkpoint of no use: the log has the rest
            self.shown[request.id] = Shown(msgspec.structs.replace(request, checkpoint=None), now)

    def _feed(self, shown: Shown, request: Feed, now: float) -> None:
        replies = shown.emulator.feed(request.data)
        facts = shown.emulator.facts()
        shown.offset = self.offsets[shown.id] = request.end
        if not request.quiet:
            self._reply(shown, replies, now)
            self._tell(shown, facts)
        shown.touch(now)
        self.pending.add(shown.id)

    def _tell(self, shown: Shown, facts: Facts) -> None:
        modes = msgspec.structs.replace(shown.emulator.modes(), synchronized=False)
        if facts == NOTHING and modes == shown.modes:
            return
        new_modes = None if modes == shown.modes else modes
        self.answers.append(Told(shown.id, msgspec.structs.replace(facts, modes=new_modes, offset=shown.offset)))
        shown.modes = modes

    def _reply(self, shown: Shown, replies: bytes, now: float) -> None:
        if replies:
            self.answers.append(Replies(shown.id, shown.offset, replies))
        shown.touch(now)
        self.pending.add(shown.id)

    def _close(self, shown: Shown, now: float) -> None:
        if shown.watched and shown.changed:
            self.answers.append(Changed(shown.id, shown.update(now)))
        self.answers.append(Closed(shown.id))
        del self.shown[shown.id]
        self.pending.discard(shown.id)
        shown.emulator.close()


def serve(sock: socket.socket) -> None:
    """Reads, emulates, answers, until the other side is gone."""
    stage, frames = Stage(), Frames(Request)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    next_at = FOREVER
    while True:
        wait = None if next_at == FOREVER else max(0.0, next_at - time.monotonic()) * 1000
        if poll.poll(wait):
            data = sock.recv(1 << 18)
            if not data:
                return
            for request in frames.read(data):
                stage.handle(request, time.monotonic())
        next_at = stage.tick(time.monotonic())
        sock.sendall(b"".join(map(frame, stage.taken())))


def main(fd: int) -> None:
    """Runs on the socket with this number. A crash leaves no core file, and the end of ostler is its end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.freeze()
    with socket.socket(fileno=fd) as sock:
        try:
            serve(sock)
        except ConnectionError:
            sys.exit(0)
