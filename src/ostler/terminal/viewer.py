"""A viewer of a terminal of this process: a cursor into its log, not a queue."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.model import Problem, TerminalRow
from ostler.terminal.byte_stream import FOREVER, ByteStream
from ostler.terminal.keyboard import Keyboard
from ostler.terminal.lease import Author
from ostler.terminal.pace import Budget
from ostler.terminal.row_stream import RowStream
from ostler.terminal.screen.protocol import ScreenFacts
from ostler.terminal.viewer_protocol import (
    Ack,
    AnyViewerMessage,
    Format,
    Frame,
    Hello,
    Refresh,
    RefusedMessage,
    encode_message,
    read_viewer_message,
)

MESSAGES, MESSAGES_AT_ONCE = 2000, 6000  # a second, that a viewer may send
ERRORS, ERRORS_AT_ONCE = 20, 200  # a second, that a viewer may cause
UNREAD = 400  # answers that wait for one who keeps on asking and does not read


class Viewer:
    """Implements `Viewing`. `walk` makes what it is sent, `obey` is given what the terminal is asked for, `left` is
    called once, at its end.
    """

    def __init__(
        self,
        row: TerminalRow,
        keyboard: Keyboard,
        author: Author,
        rights: Rights,
        *,
        walk: Callable[[Callable[[], None]], ByteStream | RowStream],
        obey: Callable[[Author, AnyViewerMessage], None],
        left: Callable[["Viewer"], None],
    ) -> None:
        self.author, self.rights = author, rights
        self._keyboard, self._obey, self._left = keyboard, obey, left
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._walk = walk(self._event.set)
        format: Format = "rows" if isinstance(self._walk, RowStream) else "bytes"
        hello = Hello(terminal=row, viewer=author.id, rights=rights, resumed=self._walk.resumed, format=format)
        self._messages: deque[str] = deque(
            [encode_message(hello)]
        )  # answers to this viewer; all else is read when it is sent
        self._lease_is_new = True
        self._over = False
        self._message_budget = Budget(MESSAGES, MESSAGES_AT_ONCE, self._loop.time())
        self._error_budget = Budget(ERRORS, ERRORS_AT_ONCE, self._loop.time())
        keyboard.came(author)

    async def frames(self) -> AsyncIterator[Frame]:
        """What to send, in order; ends after `exit`, `close`, or the error of a viewer that sent too much."""
        while (step := self._next()) is not None:
            if isinstance(step, float):
                await self._pause(step)
            else:
                yield step
        self._end()

    def receive(self, frame: Frame) -> None:
        """A frame of the viewer. What is wrong with it comes back as an `error` frame."""
        if self._over:
            return
        if not self._message_budget.take(self._loop.time()):
            self._end_with(f"more than {MESSAGES} messages a second")
            return
        number = 0
        try:
            said = read_viewer_message(frame)
            number = said.n
            self._do(said)
        except OstlerError as error:
            self._refuse(error, number)

    async def close(self) -> None:
        """The viewer has gone; its lease is given back shortly after. Idempotent."""
        self._messages.clear()
        self._end()

    # -- for the terminal

    def grew(self) -> None:
        """There is output."""
        if self._walk.hungry:
            self._event.set()

    def changed(self) -> None:
        """Something else is new: a size, the end."""
        self._event.set()

    def leased(self) -> None:
        """The keyboard has another holder."""
        self._lease_is_new = True
        self._event.set()

    def add_facts(self, facts: ScreenFacts) -> None:
        self._walk.add_facts(facts)
        self._event.set()

    # -- sending

    def _next(self) -> Frame | float | None:
        """A frame, or until when there is none, or None: nothing more will come."""
        if self._messages:
            return self._messages.popleft()
        if self._over or self._walk.over:
            return None
        if self._lease_is_new and self._walk.begun:
            self._lease_is_new = False
            return encode_message(self._keyboard.leased(self.author))
        return self._walk.next(self._loop.time())

    async def _pause(self, until: float) -> None:
        self._event.clear()
        timer = None if until == FOREVER else self._loop.call_at(until, self._event.set)
        try:
            await self._event.wait()
        finally:
            if timer:
                timer.cancel()

    # -- hearing

    def _do(self, said: AnyViewerMessage) -> None:
        match said:
            case Ack(offset=offset):
                self._walk.ack(offset)
                self._event.set()
            case Refresh():
                self._walk.refresh()
                self._event.set()
            case _ if self.rights == "view":
                raise OstlerError("denied", "this viewer may only watch", "Ask for a link: ostler link --rights type")
            case _:
                self._obey(self.author, said)
                self._walk.hurry()

    def _refuse(self, error: OstlerError, number: int) -> None:
        if not self._error_budget.take(self._loop.time()) or len(self._messages) >= UNREAD:
            self._end_with("too many invalid frames")
            return
        problem = Problem.of(error)
        self._messages.append(encode_message(RefusedMessage(problem=problem, re=number)))
        self._event.set()

    def _end_with(self, what: str) -> None:
        self._messages.append(
            encode_message(RefusedMessage(problem=Problem(kind="too_many", message=what, hint="Connect again")))
        )
        self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._walk.close()
            self._keyboard.went(self.author)
            self._left(self)
        self._event.set()
