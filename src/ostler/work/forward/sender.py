"""Sends what is in the outbox: in order, in batches, again and again where it may go well another time."""

import asyncio
import contextlib
import logging
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import EVENT_DECODER, Forwarded, Session
from ostler.settings import Settings, TokenSource
from ostler.store import Store
from ostler.store.outbox import OutboxRow
from ostler.supervise import Loop, pause_after
from ostler.work.forward.post import ANSWER_LIMIT, Posted, origin_of, post
from ostler.work.forward.shapes import (
    FORWARD,
    JOURNAL,
    RESULT,
    OutgoingPost,
    answer_row,
    batch,
    parts_of,
    target_of,
    webhook,
)

CLAIM = 60.0  # seconds in which a batch is sent, before another process may take it
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
PATIENCE: dict[str, float] = {FORWARD: 86_400.0}  # seconds after which it is given up
NOTIFY_PATIENCE = 3600.0  # a notice that is older helps nobody
COMMAND_TAKES = 20.0
LOOK = 5.0  # seconds after which somebody who stays looks for what others have left
DRAIN = 3.0  # seconds at the end in which what is due is still sent
_SAID = 2000  # characters of an answer that are kept
_AGAIN = (408, 425, 429)  # and all of 500 and above

_log = logging.getLogger(__name__)


class _GivenUp(Exception):
    """It will not go well another time either."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


class Sender:
    """One for each process; `wake` when something was put into the outbox."""

    def __init__(
        self, store: Store, settings_in: Callable[[str], Settings], environ: Mapping[str, str], stays: bool
    ) -> None:
        self._store, self._settings_in, self._environ, self._stays = store, settings_in, environ, stays
        self._woken = asyncio.Event()
        self._loop = Loop("sending to backends", self._step)

    def start(self) -> None:
        """If there is something to send, or there may be any time."""
        if self._stays or self._store.outbox_size():
            self.wake()

    def wake(self) -> None:
        self._woken.set()
        self._loop.start()

    async def close(self) -> None:
        """What is due is still sent, for a short time; the rest stays for the next ostler."""
        if self._loop.running:
            deadline = clock.monotonic() + DRAIN
            while (due := self._store.outbox_due()) is not None and due <= clock.now() + CLAIM:
                if self._tried() or clock.monotonic() > deadline:
                    break
                await asyncio.sleep(0.02)
        await self._loop.stop()

    async def delivered(self, turn: str, seconds: float) -> bool:
        """Waits until nothing of a turn is left to be sent; False: it took too long."""
        deadline = clock.monotonic() + seconds
        while self._store.outbox_size(turn):
            if clock.monotonic() >= deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    def _tried(self) -> bool:
        """Whether everything that waits has failed before: it will not be sent in a moment."""
        return self._store.outbox_untried() == 0

    # -- one batch

    async def _step(self) -> None:
        """One batch, or a wait. To look costs no write: those who watch the store are not woken."""
        self._woken.clear()
        due, now = self._store.outbox_due(), clock.now()
        if due is not None and due <= now and (rows := await self._store.claim_outbox(now, now + CLAIM)):
            await self._send(rows)
            return
        pause = LOOK if due is None else max(0.05, min(due - now, LOOK))
        with contextlib.suppress(TimeoutError):  # something may be due by now
            await asyncio.wait_for(self._woken.wait(), pause if due is not None or self._stays else None)

    async def _send(self, rows: list[OutboxRow]) -> None:
        """A backend takes a batch, everybody else one thing at a time."""
        if rows[0].target == FORWARD:
            await self._try(rows, self._forward)
            return
        send = self._journal if rows[0].target == JOURNAL else self._notify
        for n, row in enumerate(rows):
            if not await self._try([row], send):
                await self._store.put_off_outbox([each.n for each in rows[n + 1 :]], clock.now())
                return

    async def _try(self, rows: list[OutboxRow], send: Callable[[list[OutboxRow]], Awaitable[None]]) -> bool:
        """False: it is to be tried again later."""
        try:
            await send(rows)
        except _GivenUp as given_up:
            await self._give_up(rows, given_up)
        except (OSError, TimeoutError) as error:
            await self._put_off(rows, error)
            return False
        return True

    async def _journal(self, rows: list[OutboxRow]) -> None:
        """What a backend said is written down as soon as nobody else writes the journal."""
        (row,) = rows
        event = structs.replace(EVENT_DECODER.decode(row.body), at=clock.now(), turn=row.turn)
        if await self._store.append_late(row.session, event):
            await self._store.settle_outbox([row.n])
        else:
            await self._store.put_off_outbox([row.n], clock.now() + FIRST_PAUSE)

    async def _forward(self, rows: list[OutboxRow]) -> None:
        session, forward = self._session(rows), self._settings_in(rows[0].folder).forward
        if not forward.url:
            raise _GivenUp("the settings no longer name a backend")
        said = await self._post(batch(forward, session, rows), forward)
        _log.debug("session %s: %d events forwarded", session.id, len(rows))
        answer, tries = said.body[:_SAID], rows[0].tries + 1
        event = Forwarded(to=origin_of(forward.url), ok=True, status=said.status, answer=answer, tries=tries)
        await self._settle(rows, event)

    async def _notify(self, rows: list[OutboxRow]) -> None:
        (row,) = rows
        parts = (part for entry in self._settings_in(row.folder).notify for part in parts_of(entry))
        entry = next((part for part in parts if target_of(part) == row.target), None)
        if entry is None:
            raise _GivenUp("the settings no longer name it")
        if entry.command:
            await self._output(entry.command, row.body)
        if entry.url:
            await self._post(webhook(entry, row), entry)
        await self._store.settle_outbox([row.n])

    def _session(self, rows: Sequence[OutboxRow]) -> Session:
        session = self._store.session(rows[0].session)
        if session is None:
            raise _GivenUp("its session is gone")
        return session

    async def _post(self, message: OutgoingPost, token: TokenSource) -> Posted:
        """Raises _GivenUp for what will not go well, OSError and TimeoutError for what may."""
        headers, secret = dict(message.headers), await self._token(token)
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        try:
            said = await post(message.url, headers, message.body, allow_private=token.allow_private)
        except OstlerError as error:
            raise _GivenUp(str(error)) from error
        if 200 <= said.status < 300:
            return said
        why = f"{origin_of(message.url)} answered {said.status}"
        if said.status in _AGAIN or said.status >= 500:
            raise ConnectionError(why)
        raise _GivenUp(f"{why}: {said.body[:_SAID]}" if said.body else why, said.status)

    async def _token(self, token: TokenSource) -> str:
        if token.token_command:
            printed = await self._output(token.token_command, b"")
            return printed.decode("utf-8", "replace").strip()
        return token.token or self._environ.get(token.token_env, "")

    # -- commands

    async def _output(self, argv: Sequence[str], given: bytes) -> bytes:
        """What a command of the user's settings prints. Raises OSError where it fails."""
        program = os.path.expanduser(argv[0])
        process = await asyncio.create_subprocess_exec(
            program, *argv[1:], stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=dict(self._environ), start_new_session=True
        )
        try:
            async with asyncio.timeout(COMMAND_TAKES):
                printed, _ = await process.communicate(given)
        finally:
            await _ended(process)
        if process.returncode != 0:
            raise OSError(f"{argv[0]} ended with {process.returncode}")
        return printed[:ANSWER_LIMIT]

    # -- afterwards

    async def _settle(self, rows: Sequence[OutboxRow], event: Forwarded) -> None:
        """The answer to a result goes to the journal, in one transaction with its leaving the outbox."""
        result = next((row for row in reversed(rows) if row.what == RESULT), None)
        await self._store.settle_outbox([row.n for row in rows], answer_row(result, event) if result else None)

    async def _give_up(self, rows: Sequence[OutboxRow], given_up: _GivenUp) -> None:
        first = rows[0]
        _log.warning("session %s: not told to %s: %s", first.session, first.target.partition(":")[0], given_up)
        if first.target != FORWARD:
            await self._store.settle_outbox([row.n for row in rows])
            return
        url = self._settings_in(first.folder).forward.url
        to = origin_of(url) if url else "the backend"
        said = str(given_up)[:_SAID]
        event = Forwarded(to=to, ok=False, status=given_up.status, answer=said, tries=first.tries + 1)
        await self._settle(rows, event)

    async def _put_off(self, rows: Sequence[OutboxRow], error: Exception) -> None:
        first = rows[0]
        why = str(error) or type(error).__name__
        patience = PATIENCE.get(first.target, NOTIFY_PATIENCE)
        if clock.now() - first.created_at > patience:
            await self._give_up(rows, _GivenUp(f"given up after {first.tries + 1} tries: {why}"))
            return
        pause = pause_after(first.tries + 1, FIRST_PAUSE, LONGEST_PAUSE)
        _log.warning("session %s: %s; trying again in %.0f s", first.session, why, pause)
        await self._store.put_off_outbox([row.n for row in rows], clock.now() + pause)


async def _ended(process: Process) -> None:
    """With all that it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, 9)
        await process.wait()
