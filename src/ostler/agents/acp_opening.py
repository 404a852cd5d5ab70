"""How a dialog with an ACP agent begins: from `initialize` to a session with the right mode and model."""

from collections.abc import Callable

from ostler.agents.acp_reader import judged
from ostler.agents.acp_rpc import Rpc
from ostler.agents.acp_session import Offered, Wish, fits
from ostler.agents.acp_words import PROTOCOL, Acp
from ostler.agents.adapter import Record, spoken
from ostler.agents.dialog import Dialog, Fail, Ready, Step, Write
from ostler.agents.values import table, tables, text
from ostler.errors import OstlerError
from ostler.words import Exit, Host, Problem, Turn


class AcpOpening(Dialog):
    """The part of an ACP dialog that ends with `Ready`, or with `Fail`."""

    acp = Acp()

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self._rpc = Rpc()
        self._offered = Offered()
        self._session = ""
        self._abilities: Record = {}
        self._logins = ""
        self._noise: list[str] = []  # what it printed before it talked
        self._ready = False
        self._wishes: list[Callable[[], Wish | None]] = []  # what is still to be set before the first prompt
        self._stirred = False  # an update came since the last request of the opening

    def open(self) -> list[Step]:
        fs = {"readTextFile": self.acp.reads, "writeTextFile": self.acp.writes and self.first.access != "read"}
        terminal = self.acp.terminals and self.first.access == "full"  # a command that we run is in no sandbox
        abilities = {"fs": fs, "terminal": terminal, "_meta": {"terminal_output": True}}
        about = {"name": "ostler", "title": "ostler", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "clientCapabilities": abilities, "clientInfo": about}
        return [self._rpc.request("initialize", params)]

    @property
    def agent_session(self) -> str:
        return self._session.removeprefix(self.acp.loads_as)

    def mode_for(self, turn: Turn) -> str:
        """The mode that asks, within the access; "" where the agent has none."""
        return self.acp.modes.get(turn.access, "")

    def strayed(self) -> list[Step]:
        """What to do when the agent has left the mode that keeps the access."""
        wanted = self.mode_for(self.first)
        if not (self.acp.keeps_mode and self._ready and wanted) or fits(self._offered.mode, wanted):
            return []
        left = f"{self.first.agent} left the mode that keeps access {self.first.access} for {self._offered.mode!r}"
        return [Fail(Problem(kind="denied", message=left))]

    def read_noise(self, line: str) -> list[Step]:
        if not self._ready and len(self._noise) < 20 and line.strip():
            self._noise.append(line.strip()[:200])
        return super().read_noise(line)

    def unborn(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        if not self._noise or self._logins or self._abilities:
            return None
        message = f"{self.first.agent} is no ACP agent: it printed {self._noise[0]!r}"
        ended = f" and ended with {spoken(exit)}" if exit else ""
        return Problem(kind="unsupported", message=message + ended, hint="Check its command line, and its version")

    # -- what it answers

    def done(self, method: str, result: Record) -> list[Step]:
        if method == "initialize":
            return self._initialized(result)
        if method in ("session/new", "session/load", "session/resume"):
            return self._in_session(method, result)
        if not method.startswith("session/set_"):
            return []
        self._offered.told(result)
        return [] if self._ready else self._next_wish()

    def _initialized(self, result: Record) -> list[Step]:
        agent, spoken = self.first.agent, result.get("protocolVersion")
        if spoken != PROTOCOL or isinstance(spoken, bool):
            wrong = f"{agent} speaks version {spoken} of ACP, ostler speaks {PROTOCOL}"
            return [Fail(Problem(kind="unsupported", message=wrong, hint=f"Update {agent} or ostler"))]
        self._abilities = table(result.get("agentCapabilities"))
        self._logins = "; ".join(filter(None, map(_login, tables(result.get("authMethods")))))
        where = {"cwd": self.first.folder, "mcpServers": []}
        if not self.first.resume:
            return [self._rpc.request("session/new", where)]
        if self.first.fork:
            return [Fail(Problem(kind="unsupported", message=f"{agent} cannot fork a session over ACP"))]
        self._session = self.acp.loads_as + (self.first.agent_session or "")
        if "resume" in table(self._abilities.get("sessionCapabilities")):
            return [self._rpc.request("session/resume", {"sessionId": self._session, **where})]
        if self._abilities.get("loadSession"):
            return [self._rpc.request("session/load", {"sessionId": self._session, **where})]
        return [Fail(Problem(kind="unsupported", message=f"{agent} cannot resume a session over ACP"))]

    def _in_session(self, method: str, result: Record) -> list[Step]:
        self._session = self._session or text(result.get("sessionId"))
        if not self._session:
            return [Fail(Problem(kind="unsupported", message=f"{self.first.agent} named no session"))]
        self._offered.told(result)
        mode, model, offered = self.mode_for(self.first), self.first.model, self._offered
        if mode:
            self._wishes.append(lambda: offered.set_mode(mode))
        for id, value in self.acp.options.items():
            self._wishes.append(lambda id=id, value=value: offered.set_option(id, value))  # type: ignore[misc]
        if model and not self.acp.model_by_flag:
            self._wishes.append(lambda: offered.set_model(model))
        self._stirred = self.acp.replays_late and method == "session/load"
        return self._next_wish()

    def _next_wish(self) -> list[Step]:
        try:
            while self._wishes:
                if (wish := self._wishes.pop(0)()) is not None:
                    return [self._set(wish)]
        except OstlerError as error:
            message = error.message.replace("the agent", self.first.agent)
            return [Fail(Problem(kind=error.kind, message=message, hint=error.hint))]
        if self._stirred and self.acp.replays_late:
            # It still replays. Whatever it says before it answers this comes before the next turn.
            return [self._set(("session/set_mode", {"modeId": self._offered.mode}))]
        self._ready = True
        return [Ready(agent_session=self.agent_session, model=self._offered.model)]

    def not_done(self, method: str, error: Record) -> list[Step]:
        kind, said = judged(error)
        agent = self.first.agent
        if kind == "unauthenticated":
            hint = self._logins or f"Log in to {agent}"
            return [Fail(Problem(kind=kind, message=f"{agent} needs a login: {said}", hint=hint))]
        if method in ("session/load", "session/resume"):
            gone = f"{agent} has no session {self.agent_session}: {said}"
            return [Fail(Problem(kind="not_found", message=gone, hint="Start a new session"))]
        if method.startswith("session/set_"):
            return [Fail(Problem(kind="bad_request", message=f"{agent} refused {method}: {said}"))]
        if method == "session/close":
            return []
        return [Fail(Problem(kind="unsupported", message=f"{agent} opens no dialog ({method}): {said}"))]

    def _set(self, wish: Wish) -> Write:
        self._stirred = False
        return self._rpc.request(wish[0], {"sessionId": self._session, **wish[1]})


def _login(method: Record) -> str:
    """How to log in, in the agent's own words."""
    if method.get("type") == "env_var":
        return "Set " + " and ".join(text(each.get("name")) for each in tables(method.get("vars")))
    return text(method.get("description")) or text(method.get("name"))
