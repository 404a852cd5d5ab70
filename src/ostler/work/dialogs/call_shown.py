"""Terminals of an agent's own, of which it tells us the bytes: they can be watched, not typed into."""

import re
import signal
from typing import Any

from msgspec.structs import replace

from ostler.model import AnyEvent, Exit, Session, SignalName, TerminalClosed, TerminalOpened, Turn
from ostler.store import Redactor
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.output_terminal import OutputTerminal
from ostler.work.transports.transport import Add

MOST = 32  # at a time
LINKS = 1000  # ids that tool calls named before anything was told of them
_NEWLINE = re.compile("(?<!\r)\n")


class ShownTerminals:
    """Those of one dialog; they end with the turn that shows them."""

    def __init__(self, context: TerminalContext, session: str, add: Add) -> None:
        self._context = context
        self._session = session
        self._add = add
        self._live: dict[str, ShownTerminal] = {}  # by the agent's id
        self._over: set[str] = set()
        self._links: dict[str, str] = {}  # id → the tool call that shows it
        self._turn: tuple[Turn, Redactor] | None = None

    def begin(self, turn: Turn, redactor: Redactor) -> None:
        self._turn = turn, redactor
        self._over.clear()
        self._links.clear()

    async def update(self, id: str, params: dict[str, Any]) -> None:
        """Takes what the agent says about one of them; what makes no sense is dropped."""
        what = params.get("what")
        if not id or id in self._over:
            return
        shown = self._live.get(id) or await self._open(id, self._links.get(id) or params.get("tool") or "")
        if shown is None:
            return
        data = params.get("data")
        if what in ("terminal_output", "terminal_output_delta") and isinstance(data, str):
            shown.append_output(data)
        elif what == "terminal_exit":
            await self._close(id, _exit_of(params))

    async def link(self, id: str, tool: str) -> None:
        """That tool call shows it: now, or once the agent tells of it. The first one counts."""
        shown = self._live.get(id)
        if shown is not None and not shown.tool:
            shown.tool = tool
            await self._add([shown.opened()])
        elif shown is None and len(self._links) < LINKS:
            self._links.setdefault(id, tool)

    async def end(self) -> None:
        """The turn is over: nothing more will be told."""
        for id in list(self._live):
            await self._close(id, None)
        self._turn = None

    async def _open(self, id: str, tool: str) -> "ShownTerminal | None":
        session = self._context.store.session(self._session)
        if self._turn is None or session is None or len(self._live) >= MOST:
            return None
        shown = ShownTerminal(self._context, session, *self._turn)
        shown.tool = tool
        shown.open()
        await shown.added()
        self._live[id] = shown
        await self._add([shown.opened()])
        return shown

    async def _close(self, id: str, exit: Exit | None) -> None:
        shown = self._live.pop(id)
        self._over.add(id)
        await shown.finish(exit)
        await self._add([TerminalClosed(terminal=shown.row.id, exit_code=exit.code if exit else None)])


class ShownTerminal(OutputTerminal):
    """Like a command's, but what it writes comes from the agent."""

    def __init__(self, context: TerminalContext, session: Session, turn: Turn, redactor: Redactor) -> None:
        super().__init__(context, session, turn, redactor)
        self._row = replace(self._row, name=f"{turn.agent} {self._row.id}", source="acp")
        self.tool = ""  # the tool call that shows it

    def opened(self) -> AnyEvent:
        return TerminalOpened(terminal=self._row.id, title=self._row.name, tool=self.tool)

    async def kill(self, signal: SignalName | None = None) -> None:
        """There is nothing of ours to end: the agent has the program."""

    def append_output(self, text: str) -> None:
        data = _NEWLINE.sub("\r\n", text).encode("utf-8", "replace")
        self._output(self._masked("stdout", data))

    async def finish(self, exit: Exit | None) -> None:
        await self.end(None, exit)


def _exit_of(params: dict[str, Any]) -> Exit | None:
    code, name = params.get("exit_code"), params.get("signal")
    if isinstance(name, str) and name in signal.Signals.__members__:
        return Exit(signal=signal.Signals[name].value)
    return Exit(code=code) if isinstance(code, int) and not isinstance(code, bool) and code >= 0 else None
