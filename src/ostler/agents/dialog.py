"""The dialog face of an agent: one process serves many turns, asks before it acts, and can be interrupted.

Pure, like all adapters: a dialog is told what came from the process and what people want, and returns
steps. Whoever runs the process (work/dialogs/open_dialogs.py) carries the steps out, in order.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from ostler.access import Access
from ostler.agents.reader import Reader
from ostler.agents.values import Record
from ostler.errors import OstlerError, quoted
from ostler.model import AnyEvent, Asked, Exit, Host, Launch, Notice, Offered, Problem, Raw, Turn, Verdict

AnswerKind = Literal["allow_once", "allow_always", "reject_once", "reject_always", "cancelled"]
CallName = Literal[
    "read_file",
    "write_file",
    "terminal_create",
    "terminal_output",
    "terminal_wait",
    "terminal_kill",
    "terminal_release",
    "terminal_show",  # bytes of a terminal that is the agent's own: nothing is answered
]


# How a record begins that somebody waits for: a request or an answer (JSON-RPC, claude's control protocol), an end.
AWAITED = (
    r'\s*\{\s*(?:(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:'
    r'|"type"\s*:\s*"(?:result|control_)|"method"\s*:\s*"turn/completed")'
)
LEFT_ACCESS_HINT = "The next turn starts a new process. To allow this mode, use a wider --access"


# -- steps ------------------------------------------------------------------------------------------------


class Write(Struct, frozen=True):
    """One record for the process: a line of JSON on its stdin."""

    record: Any


class Emit(Struct, frozen=True):
    """Events of the running turn. Between turns they are dropped, but for notices."""

    events: list[AnyEvent]


class Ready(Struct, frozen=True):
    """The handshake is over: prompts may be sent. `agent_session` is the agent's own id."""

    agent_session: str | None = None
    model: str | None = None


class Ask(Struct, frozen=True):
    """An open question. It stays open until `answer` or `Withdrawn`."""

    asked: Asked


class Withdrawn(Struct, frozen=True):
    """The agent no longer waits for the answer to this ask, or for the outcome of this call."""

    ask: str


class Over(Struct, frozen=True):
    """The running turn has ended; `verdict` judges it. The process stays usable."""


class Call(Struct, frozen=True):
    """The agent wants something done on this machine; the outcome goes to `reply` under the same id."""

    id: str
    name: CallName
    params: dict[str, Any]


class Fail(Struct, frozen=True):
    """The dialog cannot go on: the turn that runs ends with this, and the process is ended."""

    problem: Problem


Step = Write | Emit | Ready | Ask | Withdrawn | Over | Call | Fail


# -- a dialog ---------------------------------------------------------------------------------------------


class Dialog:
    """One process of one agent, from its handshake to its close. Subclasses speak the agent's protocol.

    `reader` judges the running turn by the same rule of proof as everywhere; it is made anew by each prompt.
    """

    steers = False  # a running turn can be told more
    leaves_commands = False  # an interrupt leaves the command alive that ran
    modes: Mapping[Access, tuple[str, ...]] = {}  # what may be set within each access, where that is known before

    def __init__(self, turn: Turn, host: Host) -> None:
        self.first = turn
        self.host = host
        self.reader: Reader | None = None  # of the turn that runs
        self._last_offered: Offered | None = None

    # What people want.

    def open(self) -> list[Step]:
        """The first records, once the process runs. `Ready` or `Fail` follows sooner or later."""
        raise NotImplementedError

    def prompt(self, turn: Turn) -> list[Step]:
        """Begins a turn. Called only after `Ready`, and never while another runs."""
        raise NotImplementedError

    def interrupt(self) -> list[Step]:
        """Asks for the end of the running turn, with what it runs; `Over` follows."""
        raise NotImplementedError

    def give_up(self) -> list[Step]:
        """The turn went on after an interrupt: the last thing to try before the process is ended."""
        return []

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        """Answers an open ask by the kind of an option it has. Raises not_found for one that is not open."""
        raise NotImplementedError

    def steer(self, text: str) -> list[Step]:
        """Tells the running turn more."""
        raise OstlerError(
            "unsupported", f"{self.first.agent} cannot be steered while it is working", "Queue it as the next prompt"
        )

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        """Another model or mode for the turns that follow."""
        raise OstlerError("unsupported", f"{self.first.agent} cannot change that in a dialog", "Start a new session")

    def check_mode(self, mode: str) -> None:
        """Raises where `change` would, as far as that is known before the start: a mode never widens the access."""
        agent, access = self.first.agent, self.first.access
        if mode in self.modes.get(access, ()):
            return
        if not self.modes:
            raise OstlerError("unsupported", f"{agent} has no modes that could be set", "Leave the mode out")
        if any(mode in names for names in self.modes.values()):
            raise too_wide(agent, mode, access, self.modes.get(access, ()))
        raise OstlerError(
            "bad_request", f"{agent} has no mode {quoted(mode)}", f"It has: {', '.join(self.modes[access])}"
        )

    def usual_model(self) -> list[Step]:
        """Back to the model that the agent takes by itself. Raises unsupported where that needs a new process."""
        raise OstlerError("unsupported", f"{self.first.agent} cannot go back to its own model in a dialog")

    def reply(self, call: str, result: dict[str, Any] | None, problem: Problem | None = None) -> list[Step]:
        """The outcome of a `Call`."""
        raise NotImplementedError

    def close(self) -> list[Step]:
        """The last records before stdin is closed."""
        return []

    # What the process says.

    def read(self, record: Record) -> list[Step]:
        """Steps of one record. What is unknown is told as raw; never raises for what an agent sends."""
        raise NotImplementedError

    def unread(self, record: Record) -> list[Step]:
        """Answers a request that `read` failed at, with an error: the agent must not wait for ever."""
        return []

    def read_noise(self, line: str) -> list[Step]:
        """A line of stdout that is no record: a banner, a stray print."""
        return [Emit([Raw(line=line)])] if line.strip() else []

    def read_cut(self, head: str) -> list[Step]:
        """A line that was too long to be kept, by its beginning. One that somebody waits for ends the dialog."""
        cut = Emit([Raw(line=head), Notice(code="line_cut", text="a line of output was too long and was cut")])
        if not re.match(AWAITED, head):
            return [cut]
        message = f"{self.first.agent} sent a message that is too long to be read"
        return [cut, Fail(Problem(kind="unsupported", message=message, hint="Ask for less at once"))]

    def offered(self) -> Offered:
        """What the agent offers, as far as it has told."""
        return Offered(quiet=True)

    def offers(self) -> list[Step]:
        """Tells what is offered, where it differs from what was told before. For the time while a turn runs."""
        now = self.offered()
        if now == self._last_offered or not (now.commands or now.models or now.modes or self._last_offered):
            return []
        self._last_offered = now
        return [Emit([now])]

    def startup_error(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        """Why the process ended before it was ready, where the protocol tells more than stderr."""
        return None

    def verdict(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        """How the turn went, after `Over` (exit None), or after the process ended in the middle of it."""
        assert self.reader is not None
        return self.reader.end(exit, stderr_tail)


def too_wide(agent: str, mode: str, access: Access, within: Sequence[str]) -> OstlerError:
    message = f"the mode {quoted(mode)} of {agent} may go beyond --access {access}"
    return OstlerError("denied", message, f"Within it: {', '.join(within) or 'none'}. Others need a wider --access")


class DialogFace(Struct, frozen=True, kw_only=True):
    """How an agent holds a dialog: its launch (stdin stays open) and its side of the talk."""

    launch: Callable[[Turn, Host], Launch]
    dialog: Callable[[Turn, Host], Dialog]
    needs: tuple[str, ...] = ()  # flags beyond those of one-shot turns
    help: tuple[tuple[str, ...], ...] = ()
    steers: bool = False  # it takes words while it works
    acknowledges: bool = False  # it says at once that it takes a prompt up, before it asks its model
    images: bool = False  # it carries images in its prompts
    mcp: tuple[str, ...] = ()  # the transports of MCP servers that it takes
    protocol: str = ""  # "stream-json", "app-server", "acp": for the docs
    access: str = ""  # how it is made to ask, and what of its asks is refused unseen: for the docs
