"""How a dialog with an ACP agent begins: from `initialize` to a session with the right mode and model."""

from collections.abc import Callable

from ostler.agents.acp.access_modes import AccessModes
from ostler.agents.acp.agent_info import AgentInfo
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.rpc import Rpc
from ostler.agents.acp.session_options import AcpSessionOptions, SetRequest
from ostler.agents.dialog import Fail, Ready, Step, Write
from ostler.agents.mcp import over_acp
from ostler.agents.values import Record, table, text
from ostler.errors import OstlerError
from ostler.model import Host, McpServer, Problem, Turn

OPENS = ("session/new", "session/load", "session/resume")


class Handshake:
    """Ends with `Ready` or with `Fail`; the session that it opened is kept here."""

    def __init__(
        self, turn: Turn, host: Host, acp: Acp, rpc: Rpc, options: AcpSessionOptions, access_modes: AccessModes
    ) -> None:
        self._turn, self._host, self._acp, self._rpc = turn, host, acp, rpc
        self._options, self._access_modes = options, access_modes
        self.info = AgentInfo(turn, acp)
        self.session = ""  # its id, as the agent takes it
        self.ready = False
        self.stirred = False  # an update came since the last request of the opening
        self._to_set: list[Callable[[], SetRequest | None]] = []  # what is still to be set before the first prompt

    @property
    def agent_session(self) -> str:
        return self.session.removeprefix(self._acp.loads_as)

    def open(self) -> list[Step]:
        return [self._rpc.request("initialize", self.info.initialize())]

    def echoed(self, method: str) -> bool:
        """Whether the agent asks of us what we have just asked of it: programs like `cat` do."""
        return method == "initialize" and not self.info.abilities and not self.ready

    def answered(self, method: str, result: Record) -> list[Step]:
        """What follows the answer to a request of ours."""
        if method == "initialize":
            problem = self.info.initialized(result)
            return [Fail(problem)] if problem else self._open_session()
        if method in OPENS:
            return self._in_session(method, result)
        if not method.startswith("session/set_"):
            return []
        self._options.take(result)
        return [] if self.ready else self._next_request()

    def refused(self, method: str, error: Record) -> list[Step]:
        return [] if method == "session/close" else [Fail(self.info.refusal(method, error))]

    def set(self, request: SetRequest) -> Write:
        """Has the agent set a mode, a model or an option of the session."""
        self.stirred = False
        return self._rpc.request(request[0], {"sessionId": self.session, **request[1]})

    def _open_session(self) -> list[Step]:
        turn = self._turn
        if unfit := self._unfit():
            return [_unsupported(unfit, "Leave it out, or choose another agent")]
        where: Record = {"cwd": turn.folder, "mcpServers": [over_acp(server) for server in self._servers()]}
        if meta := self._acp.meta(turn, self._host):
            where["_meta"] = meta
        if not turn.resume:
            return [self._rpc.request("session/new", where)]
        if turn.fork:
            return [_unsupported(f"{turn.agent} cannot fork a session over ACP", "Start a new session")]
        self.session = self._acp.loads_as + (turn.agent_session or "")
        if self.info.able_in_session("resume"):
            return [self._rpc.request("session/resume", {"sessionId": self.session, **where})]
        if self.info.abilities.get("loadSession"):
            return [self._rpc.request("session/load", {"sessionId": self.session, **where})]
        return [_unsupported(f"{turn.agent} cannot resume a session over ACP", "Start a new session")]

    def _servers(self) -> tuple[McpServer, ...]:
        return () if self._acp.mcp_by_flag else self._turn.mcp

    def _unfit(self) -> str:
        """The first MCP server that the agent does not take; programs are taken by all."""
        able = table(self.info.abilities.get("mcpCapabilities"))
        for server in self._servers():
            if server.transport != "stdio" and able.get(server.transport) is not True:
                return f"{self._turn.agent} does not accept MCP servers by {server.transport}: {server.name}"
        return ""

    def _in_session(self, method: str, result: Record) -> list[Step]:
        self.session = self.session or text(result.get("sessionId"))
        if not self.session:
            return [Fail(self.info.no_agent("it named no session"))]
        self._options.take(result)
        mode, model, options = self._access_modes.own, self._turn.model, self._options
        if mode:
            self._to_set.append(lambda: options.set_mode(mode))
        for id, value in self._acp.options.items():
            self._to_set.append(lambda id=id, value=value: options.set_option(id, value))  # type: ignore[misc]
        if model and not self._acp.model_by_flag:
            self._to_set.append(lambda: options.set_model(model))
        self.stirred = self._acp.replays_late and method == "session/load"
        return self._next_request()

    def _next_request(self) -> list[Step]:
        try:
            while self._to_set:
                if (request := self._to_set.pop(0)()) is not None:
                    return [self.set(request)]
        except OstlerError as error:
            return [Fail(Problem.of(error))]
        if self.stirred and self._acp.replays_late:
            # It still replays. Whatever it says before it answers this comes before the next turn.
            return [self.set(("session/set_mode", {"modeId": self._options.mode}))]
        self.ready = True
        if problem := self._access_modes.violation():
            return [Fail(problem)]
        return [Ready(agent_session=self.agent_session, model=self._options.model)]


def _unsupported(message: str, hint: str) -> Fail:
    return Fail(Problem(kind="unsupported", message=message, hint=hint))
