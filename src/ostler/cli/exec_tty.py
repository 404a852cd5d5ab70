"""`ostler exec --tty`: the command in a terminal of ostler, and that in the user's own."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ostler.cli.attach import author
from ostler.cli.client import AttachEnd, Client
from ostler.cli.live import print_lines
from ostler.cli.tty import UserTerminal
from ostler.cli.turns import Events
from ostler.cli.views import json_text
from ostler.model import AnyEvent, Envelope, TerminalOpened
from ostler.render.lines import ending
from ostler.work import Ostler
from ostler.work.turns.artifacts import diff_of


class TerminalView:
    """A `TurnDisplay` of a turn that has a terminal: begins to show it when that is opened, ends with the envelope.

    Without a terminal of the user's own the output is written as it is, and nothing is typed.
    """

    def __init__(self, o: Ostler, *, json: bool, quiet: bool) -> None:
        self._o, self._json, self._quiet = o, json, quiet
        self._user = UserTerminal()
        self._showing: asyncio.Task[AttachEnd] | None = None

    def begin(self, agent: str) -> None:
        pass

    def show(self, event: AnyEvent) -> None:
        if isinstance(event, TerminalOpened) and (self._user.shows or not self._json):
            self._showing = asyncio.create_task(self._attach(event.terminal))

    async def shown(self, events: Events) -> AsyncGenerator[AnyEvent, None]:
        """The same events; after the last one everything has been shown."""
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
            if self._showing is not None:
                await self._showing
        finally:
            if self._showing is not None:
                self._showing.cancel()
                await asyncio.gather(self._showing, return_exceptions=True)

    def end(self, envelope: Envelope) -> None:
        self.stop()
        if self._json:
            sys.stdout.write(json_text(envelope))
        elif not self._quiet:
            print_lines([[], *ending(envelope, diff_of(envelope))])
        sys.stdout.flush()

    def stop(self) -> None:
        self._user.restore()

    async def _attach(self, terminal: str) -> AttachEnd:
        viewing = await self._o.terminals.view(terminal, author(), "type", offset=0)
        with self._user:
            how = await Client(viewing, self._user, take="always").run()
        if how.how != "ended":  # nobody is left to see it
            self._o.turns.cancel_all()
        return how
