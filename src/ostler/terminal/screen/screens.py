"""Screens of terminals: emulated in processes of their own, which are replaced when they die."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from contextlib import suppress

from ostler.errors import OstlerError
from ostler.terminal.screen.link import ScreenLink
from ostler.terminal.screen.protocol import (
    Done,
    OpenScreen,
    ScreenAnswer,
    ScreenFacts,
    ScreenLimits,
)
from ostler.terminal.screen.screen import Screen
from ostler.terminal.screen.tail import Tail

ReadLog = Callable[[int, int], tuple[int, bytes]]  # offset, limit → where the bytes begin, the bytes

PER_PROCESS = 500
CLOSE_LIMIT = 2.0
LOOK_LIMIT = 30.0
RETRY_FIRST, RETRY_LAST = 0.05, 5.0  # seconds until the next try to start a process


_log = logging.getLogger(__name__)


def nothing(_: object) -> None:
    """For those who do not listen."""


class Screens:
    """All screens of this ostler. Starts screen processes as they are needed, and replaces those that die."""

    def __init__(self, per_process: int = PER_PROCESS, look_limit: float = LOOK_LIMIT) -> None:
        """No snapshot takes longer than `look_limit` seconds: after that it is `crashed`."""
        self._per_process = per_process
        self._look_limit = look_limit
        self._screens: dict[int, Screen] = {}
        self._links: list[ScreenLink] = []
        self._ids = itertools.count(1)
        self._burials: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._retry_after = RETRY_FIRST
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The living screen processes."""
        return [link.pid for link in self._links]

    def open(
        self,
        cols: int,
        rows: int,
        *,
        read_log: ReadLog,
        reply: Callable[[bytes], None] = nothing,
        on_facts: Callable[[ScreenFacts], None] = nothing,
        notice: Callable[[str], None] = nothing,
        offset: int = 0,
        limits: ScreenLimits | None = None,
    ) -> Screen:
        """An empty screen at `offset` of a log. `reply` gets what the program is answered, in stream order,
        `on_facts` bells, titles and the like, `notice` what went wrong with the emulation. Raises `too_many`.
        """
        if self._closed:
            raise OstlerError("bad_request", "screens are closed, no more can be opened")
        id = next(self._ids)
        link = self._place()
        tail = Tail(OpenScreen(id, cols, rows, offset, limits or ScreenLimits()), read_log, notice)
        screen = self._screens[id] = Screen(id, tail, on_facts, reply, self._look_limit)
        screen.closed.add_done_callback(lambda _: self._screens.pop(id, None))
        screen.attach(link)
        return screen

    def warm(self) -> None:
        """Starts a process ahead of need: the first screen need not wait for it."""
        if not self._links and not self._closed:
            with suppress(OstlerError):  # the first terminal tries again, and says why it cannot
                self._start()

    async def close(self) -> None:
        """Ends all screens and their processes at once; idempotent."""
        self._closed = True
        if self._retry:
            self._retry.cancel()
        for screen in list(self._screens.values()):
            screen.end()
        links, self._links = self._links, []
        for link in links:
            link.drop()
        for link in links:
            await link.gone(CLOSE_LIMIT)
        while self._burials:
            await asyncio.wait(self._burials)

    def _place(self) -> ScreenLink:
        """A process with room for one more."""
        crowd = dict.fromkeys(self._links, 0)
        for screen in self._screens.values():
            if screen.link in crowd:
                crowd[screen.link] += self._per_process if screen.alone else 1
        free = [link for link in self._links if crowd[link] < self._per_process]
        return free[0] if free else self._start()

    def _start(self) -> ScreenLink:
        link = ScreenLink(self._receive, self._lost)
        _log.debug("a screen process is started (pid %d)", link.pid)
        self._links.append(link)
        return link

    def _receive(self, answer: ScreenAnswer) -> None:
        if isinstance(answer, Done):
            self._retry_after = RETRY_FIRST
            for id, offset in answer.offsets.items():
                if screen := self._screens.get(id):
                    screen.came_to(offset)
        elif screen := self._screens.get(answer.id):
            screen.receive(answer)

    # -- when a process dies

    def _lost(self, link: ScreenLink) -> None:
        """Its screens go on in a new one; who crashed it twice, in one of its own."""
        self._links.remove(link)
        self._bury(link)
        doing = link.doing()
        at = f" at screen {doing.id}" if doing else ""
        _log.warning("the screen process %d died%s: it is replaced", link.pid, at)
        for screen in [screen for screen in self._screens.values() if screen.link is link]:
            screen.link = None
            screen.restarts += 1
            if doing and doing.id == screen.id:
                screen.blame(doing)
        if link.answered or doing:
            self._rebuild()
        else:
            self._rebuild_later()  # it did not even begin: at once would be in vain, again and again

    def _rebuild(self) -> None:
        """Gives a process to every screen that has none."""
        self._retry = None
        lost = [screen for screen in self._screens.values() if screen.link is None]
        crowd = [screen for screen in lost if not screen.alone]
        groups = [[screen] for screen in lost if screen.alone]
        groups += [crowd[at : at + self._per_process] for at in range(0, len(crowd), self._per_process)]
        try:
            for group in groups:
                link = self._start()
                for screen in group:
                    screen.attach(link)
        except OstlerError as error:
            _log.warning("%s (trying again in %.1f s)", error, self._retry_after)
            self._rebuild_later()

    def _rebuild_later(self) -> None:
        if not self._closed and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._retry_after, self._rebuild)
            self._retry_after = min(2 * self._retry_after, RETRY_LAST)

    def _bury(self, link: ScreenLink) -> None:
        burial = asyncio.get_running_loop().create_task(link.gone(1.0))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)
