"""A turn as its caller holds it: awaited for its envelope, or iterated for its events."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from ostler.errors import OstlerError
from ostler.model import AnyEvent, Envelope, SignalName
from ostler.work.transports.stop import Stop


class TurnHandle:
    """One turn. `await` it for its envelope, or iterate over its events with `async for`: with either it begins.

    Both raise OstlerError, and leave nothing behind, when it cannot begin. Leaving the loop early cancels the turn,
    and so does cancelling the task that awaits it. `envelope` is None until the turn has ended.
    """

    def __init__(self, run: "Callable[[TurnHandle], AsyncGenerator[AnyEvent, None]]") -> None:
        """`run` yields the turn's events, heeds `stop`, and sets `envelope`."""
        self.stop = Stop()
        self.envelope: Envelope | None = None
        self._events = run(self)
        self._begun = False
        self._error: Exception | None = None
        self._over = asyncio.Event()
        self._closing = asyncio.Lock()

    def __await__(self) -> Generator[Any, None, Envelope]:
        return self._to_end().__await__()

    async def __aiter__(self) -> AsyncGenerator[AnyEvent, None]:
        self._begun = True
        try:
            async for event in self._events:
                yield event
        except Exception as error:
            self._error = error
            raise
        finally:
            await self.aclose()

    def cancel(self, signal: SignalName | None = None) -> None:
        """Cancels the turn; its last events and its envelope follow as usual. With `signal` its processes get that.

        One that is still being prepared, or waits, has none: it raises `cancelled`.
        """
        self.stop.cancel(signal=signal)

    async def aclose(self) -> None:
        """Ends the turn if it runs, and waits for its end."""
        async with self._closing:
            await self._events.aclose()
        self._begun = True
        self._over.set()

    async def _to_end(self) -> Envelope:
        if not self._begun:
            async for _ in self:
                pass
        await self._over.wait()  # somebody else may be reading its events
        if self._error is not None:
            raise self._error
        if self.envelope is None:
            raise OstlerError("cancelled", "cancelled before the turn began")
        return self.envelope

    def __repr__(self) -> str:
        state = self.envelope.outcome if self.envelope else "running" if self._begun else "not begun"
        return f"<TurnHandle {self.stop.turn or '(no id yet)'}: {state}>"
