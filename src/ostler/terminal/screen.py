"""Screens of terminals: each a cursor over its byte log, emulated in another process, rebuilt when that dies."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress

from ostler.errors import OstlerError
from ostler.terminal.screen_follow import Followers, Updates
from ostler.terminal.screen_link import Link
from ostler.terminal.screen_tail import Tail
from ostler.terminal.screen_words import (
    Answer,
    Changed,
    Checkpoint,
    Close,
    Closed,
    Done,
    Facts,
    Limits,
    Look,
    Modes,
    Open,
    Replies,
    Request,
    Seen,
    Snapshot,
    Told,
    Update,
    Watch,
)

ReadLog = Callable[[int, int], tuple[int, bytes]]  # offset, limit → where the bytes begin, the bytes

PER_PROCESS = 200
CLOSE_LIMIT = 2.0


class Screen:
    """The screen of one terminal. Made by `Screens.open`."""

    def __init__(self, id: int, tail: Tail, told: "Callable[[Facts], None]", reply: Callable[[bytes], None]) -> None:
        self.id = id
        self.tail = tail
        self.restarts = 0
        self.alone = False  # it made a process crash: it gets one of its own
        self.link: Link | None = None
        self.followers = Followers()
        self.closed = asyncio.get_running_loop().create_future()
        self._told, self._reply = told, reply
        self._asks: dict[int, tuple[Look, asyncio.Future[Snapshot]]] = {}
        self._numbers = itertools.count(1)

    @property
    def offset(self) -> int:
        """How far the emulation has come."""
        return self.tail.done

    @property
    def modes(self) -> Modes:
        """The program's modes at `offset`, without asking; `key_modes` has those for keys."""
        return self.tail.modes

    @property
    def backlog(self) -> int:
        """Bytes that were fed and not emulated yet. A source that can wait should, above some 512 KB."""
        return self.tail.end - self.tail.done

    def feed(self, offset: int, data: bytes) -> None:
        """The log has got `data` at `offset`. Never blocks; what does not fit now is read from the log later."""
        self.tail.grew(offset, data)
        self.pump()

    def resize(self, cols: int, rows: int) -> None:
        """Takes effect after the bytes fed so far. Sizes out of bounds are clamped."""
        self.tail.resized(cols, rows)
        self.pump()

    async def snapshot(self, history: bool = False) -> Snapshot:
        """The screen after all bytes fed so far; with `history` its `vt` begins with the scrollback.

        Raises `crashed` if looking at it kills the process, `not_found` if it is closed.
        """
        if self.tail.closing:
            raise OstlerError("not_found", f"the screen {self.id} is closed")
        look = Look(self.id, next(self._numbers), history)
        self._asks[look.ask] = (look, asyncio.get_running_loop().create_future())
        self.tail.then(look)
        self.pump()
        try:
            return await self._asks[look.ask][1]
        finally:
            del self._asks[look.ask]

    def changes(self) -> Updates:
        """Updates of the screen, the first with every row; ends when the screen is closed, after the last one."""
        updates = self.followers.add(self._watch)
        if not self.tail.closing:
            self._watch()
        return updates

    async def close(self) -> None:
        """Emulates what is left, sends the last update, and forgets the screen; idempotent."""
        if not self.tail.closing:
            self.tail.closing = True
            self.tail.then(Close(self.id))
            self.pump()
        await asyncio.shield(self.closed)

    def pump(self) -> None:
        """Sends what may be sent now."""
        link = self.link
        while link and link.may_send() and (request := self.tail.next(link.careful)):
            link.send(request)

    def attach(self, link: Link) -> None:
        """Goes on with this process: from the start, or from the last checkpoint."""
        self.link = link
        self.tail.rewind()
        for look, asked in self._asks.values():
            if not asked.done():
                self.tail.then(look)
        if self.followers:
            self.tail.then(Watch(self.id, True))
        if self.tail.closing:
            self.tail.then(Close(self.id))

    def hear(self, answer: Answer) -> None:
        match answer:
            case Replies(_, offset, data):
                self.tail.told = max(self.tail.told, offset)
                self._reply(data)
            case Told(_, facts):
                self.tail.told = max(self.tail.told, facts.offset)
                self._tell(facts)
            case Changed(_, update):
                self.followers.update(update)
            case Seen(_, ask, snapshot):
                if (asked := self._asks.get(ask)) and not asked[1].done():
                    asked[1].set_result(snapshot)
            case Checkpoint():
                self.tail.keep(answer)
            case Closed():
                self.end()

    def blame(self, request: Request) -> None:
        """The process died of this request. If it is the second time, the next process will not get it."""
        if not self.tail.again(request):
            return
        self.alone = True
        if isinstance(request, Look) and (asked := self._asks.get(request.ask)):
            if not asked[1].done():
                error = OstlerError("crashed", f"looking at the screen {self.id} crashed the emulator")
                asked[1].set_exception(error)
        else:
            before = self.modes
            self.tail.skip(request)
            if self.modes != before:
                self._tell(Facts(modes=self.modes, offset=self.tail.end))

    def end(self) -> None:
        self.followers.end()
        for _, asked in self._asks.values():
            if not asked.done():
                asked.set_exception(OstlerError("not_found", f"the screen {self.id} is closed"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _tell(self, facts: Facts) -> None:
        self.tail.modes = facts.modes or self.tail.modes
        self.followers.tell(facts)
        self._told(facts)

    def _watch(self) -> None:
        if not self.tail.closing:
            self.tail.then(Watch(self.id, bool(self.followers)))
            self.pump()


def nothing(_: object) -> None:
    """For those who do not listen."""


class Screens:
    """All screens of this ostler. Starts screen processes as they are needed, and replaces those that die."""

    def __init__(self, per_process: int = PER_PROCESS) -> None:
        self._per_process = per_process
        self._screens: dict[int, Screen] = {}
        self._links: list[Link] = []
        self._ids = itertools.count(1)
        self._burials: set[asyncio.Task[None]] = set()
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
        told: Callable[[Facts], None] = nothing,
        notice: Callable[[str], None] = nothing,
        offset: int = 0,
        limits: Limits | None = None,
    ) -> Screen:
        """An empty screen at `offset` of a log. `reply` gets what the program is answered, in stream order,
        `told` bells, titles and the like, `notice` what went wrong with the emulation. Raises `too_many`.
        """
        if self._closed:
            raise OstlerError("bad_request", "screens are closed, none can be opened any more")
        id = next(self._ids)
        opening = Open(id, cols, rows, offset, limits or Limits())
        screen = self._screens[id] = Screen(id, Tail(opening, read_log, notice), told, reply)
        screen.closed.add_done_callback(lambda _: self._screens.pop(id, None))
        try:
            screen.attach(self._place())
        except OstlerError:
            screen.end()
            raise
        screen.pump()
        return screen

    async def close(self) -> None:
        """Ends all screens and their processes at once; idempotent."""
        self._closed = True
        for screen in list(self._screens.values()):
            screen.end()
        links, self._links = self._links, []
        for link in links:
            link.drop()
        for link in links:
            await link.gone(CLOSE_LIMIT)
        while self._burials:
            await asyncio.wait(self._burials)

    def _place(self) -> Link:
        """A process with room for one more."""
        crowd = dict.fromkeys(self._links, 0)
        for screen in self._screens.values():
            if screen.link in crowd:
                crowd[screen.link] += self._per_process if screen.alone else 1
        free = [link for link in self._links if crowd[link] < self._per_process]
        return free[0] if free else self._start()

    def _start(self) -> Link:
        link = Link(self._hear, self._pump, self._lost)
        self._links.append(link)
        return link

    def _hear(self, answer: Answer) -> None:
        if isinstance(answer, Done):
            for id, offset in answer.offsets.items():
                if screen := self._screens.get(id):
                    screen.tail.came_to(offset)
        elif screen := self._screens.get(answer.id):
            screen.hear(answer)

    def _pump(self, link: Link) -> None:
        """The process has room again. After a crash it is treated with care until all have caught up."""
        mine = [screen for screen in self._screens.values() if screen.link is link]
        if link.careful and all(screen.tail.rebuilt for screen in mine):
            link.careful = False
        for screen in mine:
            screen.pump()

    def _lost(self, link: Link) -> None:
        """A process died: its screens go on in a new one, with care; who crashed it again, in one of its own."""
        self._links.remove(link)
        self._bury(link)
        mine = [screen for screen in self._screens.values() if screen.link is link]
        for screen in mine:
            screen.restarts += 1
            if not link.careful:
                screen.tail.doubt()
            elif link.last and link.last.id == screen.id and not link.idle:
                screen.blame(link.last)
        with suppress(OstlerError):
            self._rebuild([screen for screen in mine if not screen.alone])
        for screen in mine:
            if screen.alone:
                with suppress(OstlerError):
                    self._rebuild([screen])

    def _rebuild(self, screens: list[Screen]) -> None:
        if not screens or self._closed:
            return
        link = self._start()
        link.careful = True
        for screen in screens:
            screen.attach(link)
        self._pump(link)

    def _bury(self, link: Link) -> None:
        burial = asyncio.get_running_loop().create_task(link.gone(1.0))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)


__all__ = ["Limits", "Modes", "Screen", "Screens", "Snapshot", "Update", "Updates"]
