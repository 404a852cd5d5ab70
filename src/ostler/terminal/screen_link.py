"""The socket to one screen process: starts it, sends without blocking, hands on what it answers."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable

import ostler
from ostler.errors import OstlerError, kind_of_os_error
from ostler.terminal.screen_words import Answer, Done, Frames, Request, frame

BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from ostler.terminal.screen_process import main; main(int(sys.argv[2]))"
)
HANG_LIMIT = 20.0  # without progress, while something is asked of it


class Link:
    """One screen process. `careful`: one request at a time, so that a crash names the one that caused it."""

    def __init__(self, heard: Callable[[Answer], None], free: Callable[["Link"], None], lost: Callable[["Link"], None]):
        """Starts the process and does not wait for it: the socket holds requests until it is up."""
        self.careful = False
        self.last: Request | None = None
        self.alive = True
        self._heard, self._free, self._lost = heard, free, lost
        self._sent = self._handled = 0
        self._queue: deque[memoryview] = deque()
        self._frames = Frames(Answer)
        self._loop = asyncio.get_running_loop()
        self._sock, self._process = launch()
        self._watch = self._loop.call_later(HANG_LIMIT, self._check, 0)
        self._loop.add_reader(self._sock, self._receive)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def idle(self) -> bool:
        """Everything that was sent has been handled."""
        return self._handled == self._sent

    def may_send(self) -> bool:
        return self.alive and (self.idle or not self.careful)

    def send(self, request: Request) -> None:
        """Queues a request; to a process that is gone, nothing is sent: `lost` was told, or will be."""
        if not self.alive:
            return
        self.last = request
        self._sent += 1
        self._queue.append(memoryview(frame(request)))
        self._flush()

    def drop(self) -> None:
        """Closes our side, by which the process ends; `lost` is not told. Idempotent."""
        if self.alive:
            self.alive = False
            self._watch.cancel()
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()
            self._queue.clear()

    async def gone(self, limit: float) -> None:
        """Waits until the process has exited and is reaped; kills it after `limit` seconds."""
        kill_at = time.monotonic() + limit
        while self._process.poll() is None:
            if time.monotonic() > kill_at:
                self._process.kill()
            await asyncio.sleep(0.002)

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
        progress = False
        for answer in self._frames.read(data):
            if isinstance(answer, Done):
                self._handled = answer.handled
                progress = True
            if self.alive:
                self._heard(answer)
        if progress and self.alive:
            self._free(self)

    def _flush(self) -> None:
        try:
            while self._queue:
                sent = self._sock.send(self._queue[0])
                self._queue[0] = self._queue[0][sent:]
                if not self._queue[0]:
                    self._queue.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._sock, self._flush)
        except OSError:
            self._loop.remove_writer(self._sock)  # what it still said is read first, then `lost` is told
            self._queue.clear()
        else:
            self._loop.remove_writer(self._sock)

    def _check(self, handled: int) -> None:
        """A process that handles nothing for too long is killed, and then replaced like one that crashed."""
        if not self.idle and handled == self._handled:
            self._process.kill()
        self._watch = self._loop.call_later(HANG_LIMIT, self._check, self._handled)

    def _end(self) -> None:
        if self.alive:
            self.drop()
            self._lost(self)


def launch() -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """Starts a screen process with our socket and nothing of our environment."""
    source = os.path.dirname(os.path.dirname(ostler.__file__))
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    argv = [sys.executable, "-I", "-c", BOOT, source, str(theirs.fileno())]
    null = subprocess.DEVNULL
    with theirs:
        try:
            return ours, subprocess.Popen(
                argv,
                stdin=null,
                stdout=null,
                env={"LC_ALL": "C.UTF-8"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise OstlerError(kind_of_os_error(error, "crashed"), f"cannot start a screen process: {error}") from error
