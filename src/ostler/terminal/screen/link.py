"""The socket to one screen process: starts it, sends without blocking, hands on what it answers."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack

import ostler
from ostler import clock
from ostler.errors import OstlerError, kind_of_os_error
from ostler.terminal.screen.current_step import Doing, StepNote, step_note_file
from ostler.terminal.screen.protocol import Done, Frames, ScreenAnswer, ScreenRequest, frame

# Without looks for garbage among fresh imports, and without what msgspec and others import for the rare case.
BOOT = (
    "import gc, sys; gc.disable(); sys.path.insert(0, sys.argv[1]); "
    "from ostler.late import load_late; load_late(); "
    "from ostler.terminal.screen.process import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
HANG_LIMIT = 20.0  # without progress, while something is asked of it
PACE = 0.01  # between two writes: what comes meanwhile goes together. The first after a pause goes at once
BULK = 64 * 1024  # bytes that do not wait for the next write
BATCH = 512 * 1024

Fetch = Callable[[], ScreenRequest | None]

_log = logging.getLogger(__name__)


class ScreenLink:
    """One screen process. Requests are fetched when they can be sent: `want` says who has some."""

    def __init__(self, on_answer: Callable[[ScreenAnswer], None], lost: Callable[["ScreenLink"], None]) -> None:
        """Starts the process and does not wait for it: the socket holds requests until it is up."""
        self.alive = True
        self.answered = False
        self._on_answer, self._lost = on_answer, lost
        self._sent = self._handled = 0
        self._wanting: dict[int, Fetch] = {}
        self._bulk = 0
        self._rest = memoryview(b"")
        self._frames = Frames(ScreenAnswer)
        self._loop = asyncio.get_running_loop()
        self._sock, self._box, self._process = launch()
        self._watch = self._loop.call_later(HANG_LIMIT, self._check, 0)
        self._timer: asyncio.Handle | None = None
        self._soon = False  # it is for the next turn of the loop
        self._sent_at = 0.0
        self._loop.add_reader(self._sock, self._receive)

    @property
    def pid(self) -> int:
        return self._process.pid

    def want(self, id: int, fetch: Fetch, size: int | None = None) -> None:
        """The screen `id` has requests, which are fetched until it has none. If they are nothing but `size` bytes
        more, they may wait for others: so many terminals cost little.
        """
        self._wanting[id] = fetch
        self._bulk += BULK if size is None else size
        if self._rest or not self.alive:
            return  # sent when the socket has room again; to a process that is gone, nothing is sent
        if self._bulk >= BULK:
            self._plan(0.0)
        elif self._timer is None:
            self._plan(self._sent_at + PACE - self._loop.time())

    def doing(self) -> Doing | None:
        """What the process was at when it died."""
        return self._box.read()

    def drop(self) -> None:
        """Closes our side, by which the process ends; `lost` is not told. Idempotent."""
        if self.alive:
            self.alive = False
            self._watch.cancel()
            self._unplan()
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()
            self._rest, self._wanting = memoryview(b""), {}

    async def gone(self, limit: float) -> None:
        """Waits until the process has exited and is reaped; kills it after `limit` seconds."""
        kill_at = clock.monotonic() + limit
        while self._process.poll() is None:
            if clock.monotonic() > kill_at:
                self._process.kill()
            await asyncio.sleep(0.002)
        self._box.close()

    def _send(self) -> None:
        """Fetches what there is, up to a batch, and sends it by one write."""
        self._unplan()
        self._bulk, self._sent_at = 0, self._loop.time()
        batch, size = [], 0
        while self._wanting and size < BATCH:
            id = next(iter(self._wanting))
            fetch = self._wanting.pop(id)
            while size < BATCH and (request := fetch()):
                batch.append(frame(request))
                size += len(batch[-1])
            if size >= BATCH:
                self._wanting[id] = fetch  # behind the others
        self._sent += len(batch)
        self._rest = memoryview(b"".join(batch))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[self._sock.send(self._rest) :]
        except BlockingIOError:
            self._loop.add_writer(self._sock, self._drained)
        except OSError:
            self._rest, self._wanting = memoryview(b""), {}  # what it still said is read first, then `lost` is told
        else:
            if self._wanting:
                self._plan(0.0)

    def _drained(self) -> None:
        self._loop.remove_writer(self._sock)
        self._flush()

    def _plan(self, wait: float) -> None:
        if self._soon:
            return
        self._unplan()
        self._soon = wait <= 0
        self._timer = self._loop.call_soon(self._send) if self._soon else self._loop.call_later(wait, self._send)

    def _unplan(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer, self._soon = None, False

    def _receive(self) -> None:
        try:
            data = self._sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        for answer in self._frames.read(data):
            if isinstance(answer, Done):
                self._handled, self.answered = answer.handled, True
            if self.alive:
                self._on_answer(answer)

    def _check(self, handled: int) -> None:
        """A process that handles nothing for too long is killed, and then replaced like one that crashed."""
        if handled == self._handled < self._sent:
            _log.warning("the screen process %d has handled nothing for %g s: it is killed", self.pid, HANG_LIMIT)
            self._process.kill()
        self._watch = self._loop.call_later(HANG_LIMIT, self._check, self._handled)

    def _end(self) -> None:
        if self.alive:
            self.drop()
            self._lost(self)


def launch() -> "tuple[socket.socket, StepNote, subprocess.Popen[bytes]]":
    """Starts a screen process with our socket and nothing of our environment."""
    source = os.path.dirname(os.path.dirname(ostler.__file__))
    null = subprocess.DEVNULL
    with ExitStack() as opened:
        try:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            file = step_note_file()
            opened.callback(os.close, file)
            box = StepNote(file)
            opened.callback(box.close)
            ours.setblocking(False)
            fds = (theirs.fileno(), file)
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", BOOT, source, *map(str, fds)],
                stdin=null,
                stdout=null,
                env={"LC_ALL": "C.UTF-8"},
                pass_fds=fds,
                start_new_session=True,
            )
        except OSError as error:
            raise OstlerError(kind_of_os_error(error, "crashed"), f"cannot start a screen process: {error}") from error
        opened.pop_all()
        theirs.close()
        os.close(file)
        return ours, box, process
