"""One screen: a cursor over the byte log of its terminal, emulated in another process."""

import asyncio
import itertools
from collections.abc import Callable

from ostler.errors import OstlerError
from ostler.terminal.screen.current_step import DRAW, LOOK, Doing
from ostler.terminal.screen.follow import Followers, ScreenUpdates
from ostler.terminal.screen.link import ScreenLink
from ostler.terminal.screen.protocol import (
    Checkpoint,
    Closed,
    CloseScreen,
    FactsChanged,
    Modes,
    Replies,
    RowsChanged,
    ScreenAnswer,
    ScreenFacts,
    Snapshot,
    SnapshotTaken,
    TakeSnapshot,
    WatchRows,
)
from ostler.terminal.screen.tail import Tail


class Screen:
    """The screen of one terminal. Made by `Screens.open`."""

    def __init__(
        self,
        id: int,
        tail: Tail,
        on_facts: Callable[[ScreenFacts], None],
        reply: Callable[[bytes], None],
        look_limit: float,
    ) -> None:
        self.id = id
        self.tail = tail
        self.restarts = 0
        self.alone = False  # it made a process crash: it gets one of its own
        self.link: ScreenLink | None = None  # None: no process can be started now
        self.followers = Followers()
        self.closed = asyncio.get_running_loop().create_future()
        self._on_facts, self._reply = on_facts, reply
        self._look_limit = look_limit
        self._asks: dict[int, tuple[TakeSnapshot, asyncio.Future[Snapshot]]] = {}
        self._numbers = itertools.count(1)

    @property
    def offset(self) -> int:
        """How far the emulation has come, as far as is known: it may be some hundredths of a second further."""
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
        """The log has got `data` at `offset`. Never blocks: it is read from the log when the process has room."""
        self.tail.grew(offset + len(data))
        if self.link:
            self.link.want(self.id, self.tail.next, len(data))

    def resize(self, cols: int, rows: int) -> None:
        """Takes effect after the bytes fed so far. Sizes out of bounds are clamped."""
        self.tail.resized(cols, rows)
        self.pump()

    async def snapshot(self, history: bool = False) -> Snapshot:
        """The screen after all bytes fed so far; with `history` its `vt` begins with the scrollback.

        Raises `crashed` if looking at it kills the process or none can be started, `not_found` if it is closed.
        """
        if self.tail.closing:
            raise OstlerError("not_found", f"the screen {self.id} is closed")
        look = TakeSnapshot(self.id, next(self._numbers), history)
        asked: asyncio.Future[Snapshot] = asyncio.get_running_loop().create_future()
        self._asks[look.ask] = (look, asked)
        self.tail.then(look)
        self.pump()
        try:
            async with asyncio.timeout(self._look_limit):
                return await asked
        except TimeoutError:
            hint = "Try again. If it keeps failing, check the limits on processes, open files and memory"
            raise OstlerError("crashed", f"the emulator did not answer in {self._look_limit:.0f} s", hint) from None
        finally:
            del self._asks[look.ask]

    def changes(self) -> ScreenUpdates:
        """Updates of the screen, the first with every row; ends when the screen is closed, after the last one."""
        updates = self.followers.add(self._watch)
        if not self.tail.closing:
            self._watch()
        return updates

    async def close(self) -> None:
        """Emulates what is left, sends the last update, and forgets the screen; idempotent."""
        if not self.tail.closing:
            self.tail.closing = True
            self.tail.then(CloseScreen(self.id))
            self.pump()
            if not self.link:
                self.end()
        await asyncio.shield(self.closed)

    def pump(self) -> None:
        """Has sent what is waiting."""
        if self.link:
            self.link.want(self.id, self.tail.next)

    def attach(self, link: ScreenLink) -> None:
        """Goes on with this process: from the start, or from the last checkpoint."""
        self.link = link
        self.tail.rewind()
        for look, asked in self._asks.values():
            if not asked.done():
                self.tail.then(look)
        if self.followers:
            self.tail.then(WatchRows(self.id, True))
        if self.tail.closing:
            self.tail.then(CloseScreen(self.id))
        self.pump()

    def came_to(self, offset: int) -> None:
        self.tail.came_to(offset)
        if self.tail.waiting:
            self.pump()

    def receive(self, answer: ScreenAnswer) -> None:
        match answer:
            case Replies(_, offset, data):
                self.tail.reported = max(self.tail.reported, offset)
                self._reply(data)
            case FactsChanged(_, facts):
                self.tail.reported = max(self.tail.reported, facts.offset)
                self._show_facts(facts)
            case RowsChanged(_, update):
                self.tail.passed(DRAW)
                self.followers.update(update)
            case SnapshotTaken(_, ask, snapshot):
                if (asked := self._asks.get(ask)) and not asked[1].done():
                    asked[1].set_result(snapshot)
            case Checkpoint():
                self.tail.keep(answer)
            case Closed():
                self.end()

    def blame(self, doing: Doing) -> None:
        """The process died at this. If it is the second time, the next process will not get it."""
        if not self.tail.again(doing):
            return
        self.alone = True
        if doing.what == LOOK:
            if (asked := self._asks.get(doing.number)) and not asked[1].done():
                error = OstlerError("crashed", f"a snapshot of screen {self.id} crashed the emulator")
                asked[1].set_exception(error)
            return
        before = self.modes
        self.tail.skip(doing)
        if self.modes != before:
            self._show_facts(ScreenFacts(modes=self.modes, offset=self.tail.end))

    def end(self) -> None:
        self.followers.end()
        for _, asked in self._asks.values():
            if not asked.done():
                asked.set_exception(OstlerError("not_found", f"the screen {self.id} is closed"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _show_facts(self, facts: ScreenFacts) -> None:
        self.tail.modes = facts.modes or self.tail.modes
        self.followers.add_facts(facts)
        self._on_facts(facts)

    def _watch(self) -> None:
        if not self.tail.closing:
            self.tail.then(WatchRows(self.id, bool(self.followers)))
            self.pump()
