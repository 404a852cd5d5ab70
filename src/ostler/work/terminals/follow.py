"""Viewers that follow a session's primary terminal from one to the next."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from ostler.access import Rights
from ostler.errors import OstlerError
from ostler.model import Problem, TerminalRow, json_head
from ostler.store.watch import StoreWatch
from ostler.supervise import Loop
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import (
    Ack,
    Format,
    Frame,
    Hello,
    Refresh,
    RefusedMessage,
    Viewing,
    encode_message,
    read_viewer_message,
)
from ostler.work.terminals.ended import last_screen
from ostler.work.terminals.files import empty
from ostler.work.terminals.terminal import Terminal
from ostler.work.transports.tasks import cancel_all

_EXIT = json_head("exit").decode()
_POLL = 0.05
_PATIENCE = 1.0  # a dead owner writes nothing
_UNREAD = 100


class Followed:
    """Looks for all followers together whether a session has another primary terminal."""

    def __init__(
        self,
        primary: Callable[[str], TerminalRow | None],
        locate: Callable[[str], Awaitable[Terminal]],
        watch: Callable[[], StoreWatch],
    ) -> None:
        """`primary` says which terminal of a session is to be shown; `locate` finds it, wherever it lives."""
        self._primary, self.locate, self._new_watch = primary, locate, watch
        self._followers: set[PrimaryViewing] = set()
        self._watch: StoreWatch | None = None
        self._seen = 0  # how far the store's log of changes was read
        self._looking = Loop("following primary terminals", self._look, longest=5.0, troubled=self._refuse_all)

    def add(self, follower: "PrimaryViewing") -> None:
        """Raises `store`."""
        follower.goes_to(self.target(follower.session))
        self._followers.add(follower)
        self._looking.start()

    async def remove(self, follower: "PrimaryViewing") -> None:
        self._followers.discard(follower)
        if not self._followers:
            await self._stop()

    async def close(self) -> None:
        for follower in list(self._followers):
            await follower.close()
        await self._stop()

    def target(self, session: str) -> str | None:
        """The primary terminal; without a live one the newest that there was. Raises `store`."""
        try:
            row = self._primary(session)
        except OstlerError as error:
            if error.kind != "not_found":
                raise
            return None  # the session is gone: nobody is moved
        return row.id if row else None

    async def _look(self) -> None:
        try:
            if self._watch is None:
                self._watch = self._new_watch()
                self._seen = self._watch.newest_touch()
            self._move_all()
            self._seen = await self._touched(self._watch, self._seen)
        except BaseException:
            self._drop_watch()
            raise

    def _drop_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _refuse_all(self, error: Exception) -> None:
        """Their terminals go on; where the next one is to be seen nobody knows."""
        problem = error if isinstance(error, OstlerError) else OstlerError("crashed", "the session cannot be followed")
        for follower in self._followers:
            follower.refuse(problem)

    def _move_all(self) -> None:
        targets = {session: self.target(session) for session in {each.session for each in self._followers}}
        for follower in self._followers:
            follower.goes_to(targets[follower.session])

    async def _touched(self, watch: StoreWatch, seen: int) -> int:
        """Waits until a row of a session or terminal has changed, or a second."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        version = watch.version()
        while loop.time() < deadline:
            await asyncio.sleep(_POLL)
            if (now := watch.version()) != version:
                version = now
                if (last := watch.newest_touch()) != seen:
                    return last
        return seen

    async def _stop(self) -> None:
        await self._looking.stop()
        self._drop_watch()


class PrimaryViewing:
    """A `Viewing` of whichever terminal is the primary one: each begins with a `hello` and a snapshot.

    When its terminal ends it stays there until another one appears. It ends with a viewing that ends without
    the terminal: its viewer sent too much, or the terminal's owner does not answer.
    """

    def __init__(
        self, followed: Followed, session: str, author: Author, rights: Rights, format: Format = "bytes"
    ) -> None:
        self.session = session
        self._format = format
        self._followed, self._author, self._rights = followed, author, rights
        self._target: str | None = None
        self._at: str | None = None
        self._inner: Viewing | None = None
        self._refused: deque[str] = deque(maxlen=_UNREAD)
        self._news = asyncio.Event()
        self._closed = False
        self._over = False  # the viewing of the terminal has ended, though the terminal has not
        followed.add(self)

    def goes_to(self, target: str | None) -> None:
        """None: there is none, so it stays where it is."""
        if target is not None and target != self._target:
            self._target = target
            self._news.set()

    async def frames(self) -> AsyncIterator[Frame]:
        if self._target is None:
            yield encode_message(Hello(terminal=None, viewer=self._author.id, rights=self._rights, format=self._format))
            yield last_screen(empty(), self._format)
        while not self._closed:
            if self._target is not None and self._target != self._at:
                self._at = self._target
                async with aclosing(self._of(self._target)) as frames:
                    async for frame in frames:
                        yield frame
                if self._over:
                    return
            while self._refused:
                yield self._refused.popleft()
            await self._moved()

    def receive(self, frame: Frame) -> None:
        if self._inner is not None:
            self._inner.receive(frame)
            return
        try:
            said = read_viewer_message(frame)
            if not isinstance(said, Ack | Refresh):
                self.refuse(OstlerError("not_found", "there is no terminal to type into"), said.n)
        except OstlerError as error:
            self.refuse(error, 0)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._news.set()
            await self._followed.remove(self)
            await self._leave()

    async def _of(self, target: str) -> AsyncGenerator[Frame, None]:
        """The frames of this terminal until it ends or is no longer the one."""
        try:
            terminal = await self._followed.locate(target)
            inner = self._inner = await terminal.view(self._author, self._rights, format=self._format)
        except OstlerError as error:
            yield _refusal(error, 0)
            if error.kind != "not_found":  # its owner may answer again
                await asyncio.sleep(_PATIENCE)
                self._at = None
            return
        frames = inner.frames()
        exited = False
        try:
            async with aclosing(self._until_moved(frames)) as shown:
                async for frame in shown:
                    yield frame
                    exited = isinstance(frame, str) and frame.startswith(_EXIT)
            self._over = not exited and self._target == self._at and not self._closed
        finally:
            await self._leave()

    async def _until_moved(self, frames: AsyncIterator[Frame]) -> AsyncGenerator[Frame, None]:
        """The frames, and what there is to refuse meanwhile, until they end or there is another terminal."""
        following = asyncio.ensure_future(anext(frames, None))
        news = asyncio.ensure_future(self._moved())
        try:
            while True:
                await asyncio.wait((following, news), return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    if (frame := following.result()) is None:
                        return
                    yield frame
                    following = asyncio.ensure_future(anext(frames, None))
                elif self._target != self._at or self._closed:
                    return
                else:
                    while self._refused:
                        yield self._refused.popleft()
                    news = asyncio.ensure_future(self._moved())
        finally:
            await cancel_all([following, news])

    async def _moved(self) -> None:
        """Returns when there is something to do: another terminal, something to refuse, the end."""
        while self._target == self._at and not self._closed and not self._refused:
            self._news.clear()
            await self._news.wait()

    async def _leave(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.close()

    def refuse(self, error: OstlerError, number: int = 0) -> None:
        """Tells the viewer what is wrong; `number`: of the frame that it sent, if that is it."""
        self._refused.append(_refusal(error, number))
        self._news.set()


def _refusal(error: OstlerError, number: int) -> str:
    return encode_message(RefusedMessage(problem=Problem.of(error), re=number))
