"""Viewers that follow a session's primary terminal from one to the next."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from ostler.errors import OstlerError
from ostler.store.watch import Watch
from ostler.terminal.lease import Author
from ostler.terminal.viewing import Ack, Frame, Hello, Refresh, Refused, Rights, Viewing, read_said, told
from ostler.words import Problem
from ostler.work.ended import shown
from ostler.work.terminal_files import empty

if TYPE_CHECKING:
    from ostler.work.terminals import Terminals

_POLL = 0.05
_PATIENCE = 1.0  # a dead owner writes nothing
_UNREAD = 100


class Followed:
    """Looks for all followers together whether a session has another primary terminal."""

    def __init__(self, terminals: "Terminals") -> None:
        self.terminals = terminals
        self._followers: set[Following] = set()
        self._looking: asyncio.Task[None] | None = None

    def add(self, follower: "Following") -> None:
        self._followers.add(follower)
        follower.goes_to(self.target(follower.session))
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())

    async def remove(self, follower: "Following") -> None:
        self._followers.discard(follower)
        if not self._followers:
            await self._stop()

    async def close(self) -> None:
        for follower in list(self._followers):
            await follower.close()
        await self._stop()

    def target(self, session: str) -> str | None:
        """The primary terminal; without a live one the newest that there was."""
        try:
            row = self.terminals.primary(session) or next(iter(self.terminals.list(session)), None)
        except OstlerError:  # the session is gone, or the store is in trouble: nobody is moved
            return None
        return row.id if row else None

    async def _look(self) -> None:
        watch = self.terminals.watch()
        try:
            seen = watch.newest_touch()
            while True:
                self._move_all()
                seen = await self._touched(watch, seen)
        finally:
            watch.close()

    def _move_all(self) -> None:
        targets = {session: self.target(session) for session in {each.session for each in self._followers}}
        for follower in self._followers:
            follower.goes_to(targets[follower.session])

    async def _touched(self, watch: Watch, seen: int) -> int:
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
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


class Following:
    """A `Viewing` of whichever terminal is the primary one: each begins with a `hello` and a snapshot.

    When its terminal ends it stays there until another one appears. It ends with a viewing that ends without
    the terminal: its viewer sent too much, or the terminal's owner does not answer.
    """

    def __init__(self, followed: Followed, session: str, author: Author, rights: Rights) -> None:
        self.session = session
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
            yield told(Hello(terminal=None, viewer=self._author.id, rights=self._rights))
            yield told(shown(empty()))
        while not self._closed:
            if self._target is not None and self._target != self._at:
                self._at = self._target
                async for frame in self._of(self._target):
                    yield frame
                if self._over:
                    return
            while self._refused:
                yield self._refused.popleft()
            await self._moved()

    def hear(self, frame: Frame) -> None:
        if self._inner is not None:
            self._inner.hear(frame)
            return
        try:
            said = read_said(frame)
            if not isinstance(said, Ack | Refresh):
                self._refuse(OstlerError("not_found", "there is no terminal to type into"), said.n)
        except OstlerError as error:
            self._refuse(error, 0)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._news.set()
            await self._followed.remove(self)
            await self._leave()

    async def _of(self, target: str) -> AsyncIterator[Frame]:
        """The frames of this terminal until it ends or is no longer the one."""
        try:
            inner = self._inner = await self._followed.terminals.view(target, self._author, self._rights)
        except OstlerError as error:
            yield _refusal(error, 0)
            if error.kind != "not_found":  # its owner may answer again
                await asyncio.sleep(_PATIENCE)
                self._at = None
            return
        frames = inner.frames()
        news = asyncio.create_task(self._moved())
        exited = False
        try:
            while (frame := await _next_or(frames, news)) is not None:
                yield frame
                exited = isinstance(frame, str) and frame.startswith('{"kind":"exit"')
            self._over = not exited and not news.done()
        finally:
            news.cancel()
            await asyncio.gather(news, return_exceptions=True)
            await self._leave()

    async def _moved(self) -> None:
        """Returns when there is something to do: another terminal, something to refuse, the end."""
        while self._target == self._at and not self._closed and not self._refused:
            self._news.clear()
            await self._news.wait()

    async def _leave(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.close()

    def _refuse(self, error: OstlerError, number: int) -> None:
        self._refused.append(_refusal(error, number))
        self._news.set()


def _refusal(error: OstlerError, number: int) -> str:
    return told(Refused(problem=Problem(kind=error.kind, message=error.message, hint=error.hint), re=number))


async def _next_or(frames: AsyncIterator[Frame], news: "asyncio.Task[None]") -> Frame | None:
    """The next frame; None at their end, or when the news came first."""
    following = asyncio.ensure_future(anext(frames, None))
    try:
        await asyncio.wait((following, news), return_when=asyncio.FIRST_COMPLETED)
        return following.result() if following.done() else None
    finally:
        if not following.done():
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
