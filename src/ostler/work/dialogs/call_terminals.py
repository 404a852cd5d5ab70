"""Commands that an agent has us run, each in a real terminal: watched and typed into like any other.

A command that we run is in no sandbox of the agent's: under `write` it runs behind the wall of the agent, and where
there is none only a turn with access full may have one.
"""

import asyncio
import contextlib
import re
import shlex
import shutil
import signal
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ostler.errors import OstlerError, quoted
from ostler.model import AnyEvent, Exit, TerminalClosed, TerminalOpened, Turn
from ostler.store import Redactor
from ostler.work.dialogs.call_shown import ShownTerminals
from ostler.work.terminals.context import TerminalContext
from ostler.work.terminals.programs import ProgramOptions
from ostler.work.transports.transport import Add
from ostler.work.turns.environment import ALLOWED, QUIET, matches
from ostler.work.turns.setup import Setup
from ostler.work.walls import Enclosure

if TYPE_CHECKING:
    from ostler.terminal.live import LiveTerminal
    from ostler.work.terminals.pty_terminal import PtyTerminal
    from ostler.work.terminals.terminals import Terminals

COLS, ROWS = 120, 30
KEPT = 100  # ended commands that an agent did not release
REMEMBERED = 10_000  # released ids: a second release is no error
_SHELL = re.compile(r"[\s|&;<>()$`\"']")
CallParams = dict[str, Any]


class CallTerminals:
    """The commands of one dialog. Their ids mean nothing to any other one."""

    def __init__(self, context: TerminalContext, terminals: "Callable[[], Terminals]", session: str) -> None:
        self._context, self._terminals = context, terminals
        self._session = session
        self._known: dict[str, CallTerminal] = {}
        self._released: deque[str] = deque(maxlen=REMEMBERED)
        self._unlinked: dict[str, str] = {}  # title of each whose tool call is not known yet
        self._turn: Turn | None = None
        self._add: Add | None = None
        self._enclosure: Enclosure | None = None
        self._stopped = ""  # the turn that was interrupted last
        self._shown = ShownTerminals(context, session, self._add_events)

    # -- turns and the dialog

    def begin(self, turn: Turn, add: Add, redactor: Redactor, enclosure: Enclosure | None = None) -> None:
        """A turn begins: commands are its own, and events go to its journal. `enclosure`: its agent's."""
        self._turn, self._add, self._enclosure = turn, add, enclosure
        self._shown.begin(turn, redactor)

    async def pause(self) -> None:
        """The turn is over. What still runs goes on until the agent or the dialog ends it."""
        await self._shown.end()
        self._turn = self._add = None

    async def stop(self) -> None:
        """The turn was interrupted, and so is what it runs; what is just being started ends once it has been."""
        self._stopped = self._turn.id if self._turn else ""
        own = [each for each in self._known.values() if self._turn and each.turn == self._turn.id]
        await asyncio.gather(*(each.kill() for each in own))

    async def close(self) -> None:
        """Ends everything; what is to be seen of it stays."""
        await self._shown.end()
        await asyncio.gather(*(self.release({"terminalId": id}) for id in list(self._known)))

    async def show(self, params: CallParams) -> None:
        """A word about a terminal of the agent's own, or about the tool call that shows one."""
        id = params.get("terminal_id")
        if not isinstance(id, str):
            return
        if params.get("what") == "terminal_link":
            await self._link(id, params["tool"])
        elif id not in self._known:
            await self._shown.update(id, params)

    async def _link(self, id: str, tool: str) -> None:
        """Told once; an id that is not of this dialog links to nothing."""
        title = self._unlinked.pop(id, None)
        if title is not None:
            await self._add_events([TerminalOpened(terminal=id, title=title, tool=tool)])
        elif id not in self._known:
            await self._shown.link(id, tool)

    # -- calls

    async def create(self, params: CallParams) -> CallParams:
        """Starts the command; its terminal's id.

        Raises denied, bad_request, missing, not_found, too_many; cancelled where the turn was interrupted.
        """
        turn = self._turn
        if turn is None:
            raise OstlerError("bad_request", "no turn is running")
        self._refuse_stopped(turn)
        walled = self._allowed(turn)
        limit = _limit(params)
        base = command_environment(self._context.setup_in(turn.folder), turn) | (walled.env if walled else {})
        env = _variables(params)
        argv = _argv(params, {**base, **env}.get("PATH"))
        folder = _folder(params, turn)
        options = ProgramOptions(
            argv,
            folder=folder,
            env=env,
            cols=COLS,
            rows=ROWS,
            turn=turn.id,
            base=base,
            wall=walled.wall if walled else None,
        )
        program = await self._terminals().open_program(self._session, options)
        id = program.row.id
        made = self._known[id] = CallTerminal(program, limit, turn.id, self._add_events)
        title = (argv[2] if argv[:2] == ["sh", "-c"] and not params.get("args") else shlex.join(argv))[:200]
        self._prune()
        try:
            await self._add_events([TerminalOpened(terminal=id, title=title)])
            self._unlinked[id] = title
        finally:
            made.opening_told.set()
        if turn.id == self._stopped:
            await made.kill()
        return {"terminalId": id}

    def _refuse_stopped(self, turn: Turn) -> None:
        if turn.id == self._stopped:
            raise OstlerError("cancelled", "the turn was interrupted")

    def _allowed(self, turn: Turn) -> Enclosure | None:
        """The wall that a command runs behind; None where it needs none. Raises denied."""
        if turn.access == "full":
            return None
        if turn.access == "write" and self._enclosure is not None and self._enclosure.wall is not None:
            return self._enclosure
        what = f"access {turn.access} does not allow commands that ostler runs"
        if turn.access == "read":
            raise OstlerError("denied", what, "Run it with --access write")
        raise OstlerError("denied", f"{what}: nothing confines them", "Run it with --access full")

    def output(self, params: CallParams) -> CallParams:
        """What it said so far, at most its limit, and how it ended if it has."""
        found = self._find(params)
        text, truncated = found.text()
        said = {"output": text, "truncated": truncated}
        return said if found.exit is None else {**said, "exitStatus": exit_status(found.exit)}

    async def wait(self, params: CallParams) -> CallParams:
        return exit_status(await self._find(params).wait())

    async def kill(self, params: CallParams) -> CallParams:
        """Answered once its end is known; its output can still be asked for."""
        await self._find(params).kill()
        return {}

    async def release(self, params: CallParams) -> CallParams:
        """Ends it if it runs. From here on the agent does not know it; people still see it."""
        if _id_of(params) in self._released:
            return {}
        found = self._find(params)
        del self._known[found.id]
        self._released.append(found.id)
        await found.kill()
        return {}

    def _find(self, params: CallParams) -> "CallTerminal":
        id = _id_of(params)
        found = self._known.get(id)
        if found is None:
            raise OstlerError("not_found", f"there is no terminal {quoted(id)} in this session")
        return found

    def _prune(self) -> None:
        ended = [id for id, each in self._known.items() if each.exit is not None]
        for id in ended[: max(0, len(ended) - KEPT)]:
            del self._known[id]
            self._released.append(id)
        for id in list(self._unlinked)[:-KEPT]:
            del self._unlinked[id]

    async def _add_events(self, events: list[AnyEvent]) -> None:
        """Between turns there is no journal to tell."""
        if self._add is not None:
            with contextlib.suppress(OstlerError):  # the turn meets the same trouble, and tells it
                await self._add(events)


class CallTerminal:
    """One command: its text for the agent, and its end."""

    def __init__(self, program: "PtyTerminal", limit: int | None, turn: str, tell: Add) -> None:
        """`tell` is given its end, once `opening_told` is set. It may be killed before that."""
        self.id = program.row.id
        self.turn = turn
        self.exit: Exit | None = None
        self.opening_told = asyncio.Event()
        self._program = program
        self._limit = limit
        self._kept: tuple[str, bool] | None = None  # the last text, once the log is let go
        self._over = asyncio.create_task(self._follow(tell))
        program.at_end = self._keep

    def text(self) -> tuple[str, bool]:
        """The last of its output within the limit, and whether there was more."""
        if self._kept is not None:
            return self._kept
        return self._program.live.log.tail_text(self._limit, more=self.exit is None)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._over)

    async def kill(self) -> None:
        if self.exit is None:
            await self._program.terminate()
        await self.wait()

    async def _follow(self, tell: Add) -> Exit:
        exit = self.exit = await self._program.finished()
        await self.opening_told.wait()
        await tell([TerminalClosed(terminal=self.id, exit_code=exit.code)])
        return exit

    def _keep(self, terminal: "LiveTerminal") -> None:
        self._kept = terminal.log.tail_text(self._limit)


def exit_status(exit: Exit) -> CallParams:
    """Exactly one of the two."""
    if exit.signal is None:
        return {"exitCode": exit.code or 0}
    try:
        return {"signal": signal.Signals(exit.signal).name}
    except ValueError:
        return {"signal": f"SIGRTMIN+{exit.signal - signal.SIGRTMIN}"}


def command_environment(setup: Setup, turn: Turn) -> dict[str, str]:
    """Of the user's environment what every agent gets, not the keys of any; and nothing that waits in a pager."""
    patterns = (*ALLOWED, *setup.settings.env_pass)
    passed = {name: value for name, value in setup.environ.items() if matches(name, patterns)}
    return {**passed, **QUIET, **setup.settings.env, **turn.env}


# -- what an agent may send -------------------------------------------------------------------------------


def _id_of(params: CallParams) -> str:
    id = params.get("terminalId")
    if not isinstance(id, str):
        raise OstlerError("bad_request", f"terminalId is {quoted(id)}, not a string")
    return id


def _argv(params: CallParams, path: str | None) -> list[str]:
    """The command as it is; some agents send a whole shell line instead of one."""
    command, args = params.get("command"), _list(params, "args")
    if not isinstance(command, str) or not command.strip():
        raise OstlerError("bad_request", "a command is needed")
    if not all(isinstance(word, str) for word in args):
        raise OstlerError("bad_request", "args is not a list of strings")
    for word in (command, *args):
        _check_text(word)
    if not args and _SHELL.search(command) and shutil.which(command, path=path) is None:
        return ["sh", "-c", command]
    return [command, *args]


def _variables(params: CallParams) -> dict[str, str]:
    env: dict[str, str] = {}
    for each in _list(params, "env"):
        match each:
            case {"name": str(name), "value": str(value)} if name and "=" not in name:
                _check_text(name)
                _check_text(value)
                env[name] = value
            case _:
                raise OstlerError("bad_request", f"{quoted(each)} is not a variable: it needs a name and a value")
    return env


def _list(params: CallParams, name: str) -> list[Any]:
    value = params.get(name)
    if value is not None and not isinstance(value, list):
        raise OstlerError("bad_request", f"{name} is {quoted(value)}, not a list")
    return value or []


def _check_text(word: str) -> None:
    try:
        if b"\0" not in word.encode():
            return
    except UnicodeEncodeError:
        pass  # refused below
    raise OstlerError("bad_request", f"{quoted(word)} cannot be given to a program")


def _folder(params: Mapping[str, Any], turn: Turn) -> str:
    cwd = params.get("cwd")
    if cwd is None:
        return turn.folder
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise OstlerError("bad_request", f"cwd is {quoted(cwd)}, not an absolute path")
    _check_text(cwd)
    return cwd


def _limit(params: CallParams) -> int | None:
    limit = params.get("outputByteLimit")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise OstlerError("bad_request", f"outputByteLimit is {quoted(limit)}, not a number of bytes")
    return limit
