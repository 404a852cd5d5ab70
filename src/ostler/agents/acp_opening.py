"""How a dialog with an ACP agent begins: from `initialize` to a session with the right mode and model."""

from collections.abc import Callable

from ostler.agents.acp_reader import judged
from ostler.agents.acp_rpc import Rpc
from ostler.agents.acp_session import SessionOptions, Wish, fits
from ostler.agents.acp_words import PROTOCOL, Acp, unasking
from ostler.agents.adapter import Record, spoken
from ostler.agents.dialog import LEFT, Dialog, Fail, Ready, Step, Write
from ostler.agents.mcp import over_acp
from ostler.agents.values import table, tables, text
from ostler.errors import ErrorKind, OstlerError
from ostler.words import Exit, Host, McpServer, Problem, Turn


class AcpOpening(Dialog):
    """The part of an ACP dialog that ends with `Ready`, or with `Fail`."""

    acp = Acp()

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self._rpc = Rpc()
        self._offered = SessionOptions()
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

    def may(self, mode: str) -> bool:
        """Whether a mode stays within the access."""
        own = self.mode_for(self.first)
        if self.acp.keeps_mode:
            return fits(mode, own)
        return self.first.access == "full" or any(fits(mode, each) for each in (own, *self.acp.safe_modes) if each)

    def strayed(self) -> list[Step]:
        """What to do when the agent has left, by itself or by a command, what keeps the access."""
        if not self._ready:
            return []
        if not self.mode_for(self.first):
            return self._unasked()
        access, now = self.first.access, self._offered
        left = "" if self.may(now.mode) else f"the mode that keeps access {access} for {now.mode!r}"
        for id, value in self.acp.options.items():
            if access != "full" and now.value(id) not in ("", value):
                left = f"access {access}: {id} is {now.value(id)!r}"
        return [Fail(Problem(kind="denied", message=f"{self.first.agent} left {left}", hint=LEFT))] if left else []

    def _unasked(self) -> list[Step]:
        """Nothing is known of its modes but their names: one that says that it does not ask keeps no access."""
        mode, access = self._offered.mode, self.first.access
        names = [each.name for each in self._offered.modes(lambda id: fits(id, mode))]
        if access == "full" or not any(map(unasking, (mode, *names))):
            return []
        acts = f"{self.first.agent} is in its mode {mode!r}, in which it does not ask: access {access} would not hold"
        hint = "Give it another mode by its command line or its own settings, or use --access full"
        return [Fail(Problem(kind="denied", message=acts, hint=hint))]

    def read_noise(self, line: str) -> list[Step]:
        if not self._ready and len(self._noise) < 20 and line.strip():
            self._noise.append(line.strip()[:200])
        return super().read_noise(line)

    def unborn(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        if not self._noise or self._logins or self._abilities:
            return None
        ended = f" and ended with {spoken(exit)}" if exit else ""
        return self._no_agent(f"it printed {self._noise[0]!r}{ended}").problem

    def echoed(self, method: str) -> bool:
        """Whether the agent asks of us what we have just asked of it: programs like `cat` do."""
        return method == "initialize" and not self._abilities and not self._ready

    def _no_agent(self, why: str) -> Fail:
        message = f"{self.first.agent} is no ACP agent: {why}"
        return Fail(Problem(kind="unsupported", message=message, hint="Check its command line, and its version"))

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
            version = "no version" if spoken is None else f"version {spoken!r:.50}"
            wrong = f"{agent} speaks {version} of ACP, ostler speaks version {PROTOCOL}"
            return [Fail(Problem(kind="unsupported", message=wrong, hint=f"Update {agent} or ostler"))]
        if self.acp.names and (name := text(table(result.get("agentInfo")).get("name"))) not in self.acp.names:
            other = (
                f"{agent} calls itself {name!r}, not {self.acp.names[0]!r}: what keeps it to its access is not known"
            )
            return [
                Fail(Problem(kind="denied", message=other, hint=f"Update it, or mend acp.{agent} in your settings"))
            ]
        self._abilities = table(result.get("agentCapabilities"))
        self._logins = "; ".join(filter(None, map(_login, tables(result.get("authMethods")))))
        return self.initialized()

    def initialized(self) -> list[Step]:
        """What comes first, now that the agent has told its abilities: a session."""
        agent = self.first.agent
        if unfit := self._unfit():
            return [Fail(Problem(kind="unsupported", message=unfit, hint="Leave it out, or choose another agent"))]
        where: Record = {"cwd": self.first.folder, "mcpServers": [over_acp(server) for server in self._servers()]}
        if meta := self.acp.meta(self.first, self.host):
            where["_meta"] = meta
        if not self.first.resume:
            return [self._rpc.request("session/new", where)]
        if self.first.fork:
            forks = f"{agent} cannot fork a session over ACP"
            return [Fail(Problem(kind="unsupported", message=forks, hint="Start a new session"))]
        self._session = self.acp.loads_as + (self.first.agent_session or "")
        if "resume" in table(self._abilities.get("sessionCapabilities")):
            return [self._rpc.request("session/resume", {"sessionId": self._session, **where})]
        if self._abilities.get("loadSession"):
            return [self._rpc.request("session/load", {"sessionId": self._session, **where})]
        resumes = f"{agent} cannot resume a session over ACP"
        return [Fail(Problem(kind="unsupported", message=resumes, hint="Start a new session"))]

    def _servers(self) -> tuple[McpServer, ...]:
        return () if self.acp.mcp_by_flag else self.first.mcp

    def _unfit(self) -> str:
        """The first MCP server that the agent does not take; programs are taken by all."""
        able = table(self._abilities.get("mcpCapabilities"))
        for server in self._servers():
            if server.transport != "stdio" and able.get(server.transport) is not True:
                return f"{self.first.agent} takes no MCP servers by {server.transport}: {server.name}"
        return ""

    def _in_session(self, method: str, result: Record) -> list[Step]:
        self._session = self._session or text(result.get("sessionId"))
        if not self._session:
            return [self._no_agent("it named no session")]
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
            told = self._named(error, error.kind)
            return [Fail(Problem(kind=told.kind, message=told.message, hint=told.hint))]
        if self._stirred and self.acp.replays_late:
            # It still replays. Whatever it says before it answers this comes before the next turn.
            return [self._set(("session/set_mode", {"modeId": self._offered.mode}))]
        self._ready = True
        return self.strayed() or [Ready(agent_session=self.agent_session, model=self._offered.model)]

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
        refused = f"{agent} opens no dialog ({method}): {said}"
        return [Fail(Problem(kind="unsupported", message=refused, hint="Check its command line, and its version"))]

    def _named(self, error: OstlerError, kind: ErrorKind) -> OstlerError:
        return OstlerError(kind, error.message.replace("the agent", self.first.agent), error.hint)

    def _set(self, wish: Wish) -> Write:
        self._stirred = False
        return self._rpc.request(wish[0], {"sessionId": self._session, **wish[1]})


def _login(method: Record) -> str:
    """How to log in, in the agent's own words."""
    if method.get("type") == "env_var":
        return "Set " + " and ".join(text(each.get("name")) for each in tables(method.get("vars")))
    return text(method.get("description")) or text(method.get("name"))
