"""Where hooks call: one endpoint for all turns of an ostler process, which the token of a launch leads to its turn.

A server has its own port for it. Any other process opens a small one on loopback with the first turn that has hooks,
and closes it at its end.
"""

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import structs

from ostler import clock
from ostler.agents.hooks import BODY_LIMIT
from ostler.errors import OstlerError, kind_of_os_error, quoted
from ostler.model import Callback, Hook, Turn
from ostler.process import tree
from ostler.settings import Settings
from ostler.store import Store
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.hooks.hook_turn import ASK, HookReply, HookTurn, Journaling
from ostler.work.hooks.intake import Refused, Repeated, shortened
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.transports.transport import Attempt

if TYPE_CHECKING:  # imported with the first turn that has hooks: most have none
    from ostler.work.hooks.listener import Listener

PATH = "/api/hooks"
LATE = 60.0  # seconds after the end of a turn in which its hooks are still journaled
LATEST = 256  # turns that have ended and are remembered so long
RULES_TAKE = 2.0  # seconds that a hook waits where only rules decide

_log = logging.getLogger(__name__)
_UNKNOWN = HookReply(status=401)


class Callbacks:
    """All turns of this process that have hooks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns: dict[str, HookTurn] = {}  # by token; those that have ended stay for a while
        # The token that a process was started with → that of the turn it serves now, and its session.
        self._routes: dict[str, tuple[str, str]] = {}
        self._listener: Listener | None = None
        self._opening = asyncio.Lock()
        self.api_url = ""  # of the server, if this process is one

    def serve_at(self, url: str) -> None:
        """This process is a server that is reached there: its port takes the hooks of its turns."""
        self.api_url = url

    async def callback(self, turn: Turn, settings: Settings) -> Callback:
        """A callback for one launch; the endpoint is open by then. Raises OstlerError if it cannot be."""
        asks = turn.hooks == "ask"
        survives = TRANSPORT_FACTS[turn.transport].survives
        patience = None if asks and settings.ask_limit is None else RULES_TAKE
        if asks and settings.ask_limit is not None:
            patience = settings.ask_limit + RULES_TAKE
        return Callback(
            url=await self._url(),
            token=secrets.token_urlsafe(32),
            python=sys.executable,
            decides=asks or any(rule.answer == "deny" for rule in settings.asks) or turn.access == "write",
            asks=asks,
            patience=patience,
            api_url=self.api_url,
            listener=(os.getpid(), tree.identity(os.getpid()) or 0) if survives else None,
        )

    @asynccontextmanager
    async def listening(self, attempt: Attempt, journaling: Journaling) -> AsyncIterator[HookTurn | None]:
        """While an attempt runs: its hooks are taken. None: it has none."""
        if attempt.callback is None:
            yield None
            return
        self._forget()
        hooked = self._turns[attempt.callback.token] = HookTurn(
            attempt.turn, attempt.agent, attempt.redactor, journaling, before=attempt.adopts or ()
        )
        try:
            yield hooked
        finally:
            hooked.close()

    def route(self, token: str, to: str, session: str) -> None:
        """A process that serves many turns calls with the token that it was started with: its hooks are now those of
        the launch that has the token `to`, until it is routed elsewhere or `unroute` ends it.
        """
        self._routes[token] = (to, session)

    def unroute(self, token: str) -> None:
        """That process is gone."""
        self._routes.pop(token, None)

    def tokens_of(self, session: str) -> tuple[str, ...]:
        """With which processes of that session call: they are kept secret in all of its turns."""
        return tuple(token for token, (_, of) in self._routes.items() if of == session)

    async def take(self, token: str, event: str, body: bytes) -> HookReply:
        """What a hook is told. The token decides alone whose it is; never raises for what somebody sent."""
        hooked = self._find(token)
        if hooked is None:
            _log.info("a hook came with a wrong or an expired token")
            return _UNKNOWN
        if len(body) > BODY_LIMIT:
            return HookReply(status=413)
        try:
            return await hooked.take(event, body) if hooked.closed_at is None else await self._late(hooked, event, body)
        except OstlerError as error:  # a full disk: the agent goes on, but for a call that is to be decided
            _log.warning("turn %s: a hook could not be kept: %s", hooked.turn.id, error)
            return HookReply(status=503)

    def holds(self, turn: str, ask: str) -> bool:
        """Whether an ask of that turn is one of a hook."""
        return ask.startswith(ASK) and any(each.turn.id == turn for each in self._open())

    async def answer(self, turn: str, answer: AskAnswer) -> None:
        """Raises not_found, bad_request."""
        for hooked in self._open():
            if hooked.turn.id == turn:
                await hooked.answer(answer)
                return
        raise OstlerError("not_found", f"the ask {quoted(answer.ask)} is not open: no turn is running")

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    # -- the endpoint

    async def _url(self) -> str:
        if self.api_url:
            return self.api_url + PATH
        from ostler.work.hooks.listener import Listener

        async with self._opening:
            if self._listener is None:
                try:
                    self._listener = await Listener.open(self.take)
                except OSError as error:
                    what = f"no callback endpoint for hooks could be opened on 127.0.0.1: {error}"
                    kind = kind_of_os_error(error, "unsupported")
                    raise OstlerError(kind, what, "Run it without hooks, or start `ostler up`") from error
            return f"http://127.0.0.1:{self._listener.port}{PATH}"

    # -- turns

    def _find(self, token: str) -> HookTurn | None:
        """Compared in constant time: all of them, whichever it is."""
        self._forget()
        given, found = token.encode("utf-8", "replace"), None
        routed = {token: turn for token, (turn, _) in self._routes.items()}
        named = {**{known: known for known in self._turns}, **routed}
        for known, turn in named.items():
            if secrets.compare_digest(known.encode(), given):
                found = self._turns.get(turn)
        return found

    def _open(self) -> list[HookTurn]:
        return [hooked for hooked in self._turns.values() if hooked.closed_at is None]

    def _forget(self) -> None:
        now = clock.monotonic()
        ended = [(token, hooked.closed_at) for token, hooked in self._turns.items() if hooked.closed_at is not None]
        for n, (token, at) in enumerate(reversed(ended)):
            if n >= LATEST or now - at > LATE:
                del self._turns[token]

    async def _late(self, hooked: HookTurn, event: str, body: bytes) -> HookReply:
        """Kept where nobody writes the journal; else by the turn of the same session that runs here by now."""
        taken = hooked.intake.take(event, body, clock.monotonic())
        if isinstance(taken, Refused):
            return HookReply(status=taken.status)
        if isinstance(taken, Repeated):
            return HookReply()
        hook = Hook(name=taken.name, payload=shortened(taken.payload), late=True, quiet=True, turn=hooked.turn.id)
        hook = hooked.redactor.clean(structs.replace(hook, at=clock.now()))
        if not await self._store.append_late(hooked.turn.session, hook):
            running = next((each for each in self._open() if each.turn.session == hooked.turn.session), None)
            if running is None:
                _log.info("turn %s: a late hook (%s) is left out, since another turn runs", hooked.turn.id, taken.name)
                return HookReply()
            with suppress(OstlerError):  # that turn has ended meanwhile
                await running.add_late(structs.replace(hook, of=hooked.turn.id))
        return HookReply()
