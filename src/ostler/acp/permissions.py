"""Asks of a running turn, put to the client; whoever answers first, here or elsewhere, counts."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ostler.acp.errors import AcpError
from ostler.acp.updates import UpdateTranslator
from ostler.acp.wire import AcpConnection
from ostler.agents.values import table, text
from ostler.errors import OstlerError, quoted
from ostler.model import Answered, AnyEvent, Asked
from ostler.work import Ostler
from ostler.work.dialogs.asks import AskAnswer

EDITOR = "the editor"
CANCELLED = "cancelled"
# A rule answers at once: nobody is to see a question that is gone before it can be read.
AT_ONCE = 0.05


class Permissions:
    """The open asks of one turn as requests to the client. `close` takes back those that are left."""

    def __init__(
        self,
        ostler: Ostler,
        wire: AcpConnection,
        session: str,
        updates: UpdateTranslator,
        cancel: Callable[[], Awaitable[None]],
    ) -> None:
        self._ostler, self._wire, self._session, self._updates = ostler, wire, session, updates
        self._cancel = cancel  # ends the turn, and with it every ask
        self._open: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._ended: set[asyncio.Task[None]] = set()

    def handle(self, event: AnyEvent) -> None:
        """After its updates were told."""
        if isinstance(event, Asked):
            answered = asyncio.Event()
            self._open[event.id] = asyncio.create_task(self._ask(event, answered)), answered
        elif isinstance(event, Answered) and event.id in self._open:
            task, answered = self._open.pop(event.id)
            answered.set()
            self._ended.add(task)
            if event.by != EDITOR:
                task.cancel()

    async def close(self) -> None:
        tasks = [*(task for task, _ in self._open.values()), *self._ended]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, asked: Asked, answered: asyncio.Event) -> None:
        with suppress(TimeoutError):  # no rule has answered: the editor is asked
            await asyncio.wait_for(answered.wait(), AT_ONCE)
            return
        params = {"sessionId": self._session, **self._updates.permission(asked)}
        try:
            option, message = chosen(asked, await self._wire.request("session/request_permission", params))
        except AcpError as error:
            option, message = "deny", f"the editor could not be asked: {error}"
        except OstlerError:  # it is gone
            option, message = CANCELLED, ""
        if option == CANCELLED:
            await self._cancel()
            return
        answer = AskAnswer(ask=asked.id, option=option, by=EDITOR, message=message)
        with suppress(OstlerError):  # answered elsewhere, or the turn is over
            await self._ostler.answer(asked.turn, answer)


def chosen(asked: Asked, response: object) -> tuple[str, str]:
    """The kind of the option that the client chose, and a word to it. Whatever is no clear yes is a no.

    `cancelled` is said of a prompt that was cancelled before anybody answered.
    """
    outcome = table(table(response).get("outcome"))
    if outcome.get("outcome") == CANCELLED:
        return CANCELLED, ""
    if outcome.get("outcome") == "selected":
        id = text(outcome.get("optionId"))
        kind = next((option.kind for option in asked.options if option.id == id), None)
        if kind is not None:
            return kind, ""
        return "deny", f"the editor chose an unknown option: {quoted(id[:100])}"
    return "deny", "the answer of the editor is not valid"
