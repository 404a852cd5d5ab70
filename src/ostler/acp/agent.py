"""ostler as an ACP agent: what each method does."""

import os
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from ostler import __version__
from ostler.access import Access
from ostler.acp.client import AcpClient, client_of
from ostler.acp.errors import AUTH_REQUIRED, INVALID_REQUEST, NOT_FOUND, UNKNOWN_METHOD, AcpError
from ostler.acp.options import options_of
from ostler.acp.servers import servers_of, takes
from ostler.acp.session import OpenSession
from ostler.acp.wire import AcpConnection
from ostler.agents.values import text
from ostler.errors import OstlerError, quoted
from ostler.model import McpServer, Session, TurnOptions
from ostler.work import LiveSession, Ostler
from ostler.work.probe import login
from ostler.work.sessions.choice import choose
from ostler.work.turns.environment import child_environment
from ostler.work.turns.options import check_options
from ostler.work.turns.setup import server_of

PROTOCOL = 1
LISTED = 50  # sessions in one answer
LOGIN = "cli"

Params = dict[str, Any]
Result = dict[str, Any]


class AcpAgent:
    """One connection's sessions. `agent` and `access` are those of new ones."""

    def __init__(
        self, ostler: Ostler, wire: AcpConnection, agent: str | None = None, access: Access | None = None
    ) -> None:
        self.ostler, self.wire = ostler, wire
        self._agent, self._access = agent, access
        self._server = server_of(ostler.setup, choose(ostler.settings, agent).agent)
        self._client: AcpClient | None = None
        self._open: dict[str, OpenSession] = {}
        self._methods: dict[str, Callable[[Params], Awaitable[Result]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    # -- for the wire

    async def request(self, method: str, params: Params) -> Result:
        if method not in self._methods:
            raise AcpError(UNKNOWN_METHOD, f"there is no method {method[:100]}")
        if self._client is None and method != "initialize":
            raise AcpError(INVALID_REQUEST, "send initialize first")
        return await self._methods[method](params)

    async def answered(self, method: str, params: Params, result: Result) -> None:
        """A session is greeted once the client knows it."""
        if method in ("session/new", "session/load", "session/resume", "session/fork"):
            id = text(result.get("sessionId")) or text(params.get("sessionId"))
            if session := self._open.get(id):
                await session.send_commands()
                await session.send_servers()

    async def notified(self, method: str, params: Params) -> None:
        if method == "session/cancel" and (session := self._open.get(text(params.get("sessionId")))):
            await session.cancel()

    async def cancel(self, method: str, params: Params) -> bool:
        """A prompt is answered as by session/cancel: its turn has an end, and updates that tell it."""
        if method != "session/prompt":
            return False
        await self.notified("session/cancel", params)
        return True

    async def leave(self) -> None:
        for session in self._open.values():
            await session.cancel()

    # -- the connection

    async def _initialize(self, params: Params) -> Result:
        version = params.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool):
            raise OstlerError("bad_request", "protocolVersion must be a number")
        self._client = client_of(params.get("clientCapabilities"))
        session: Params = {name: {} for name in ("list", "resume", "close", "delete")}
        return {
            "protocolVersion": PROTOCOL,  # whatever was asked for: the client decides whether it can go on
            "agentInfo": {"name": "ostler", "title": "ostler", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {
                    "image": self._server.images != "no",
                    "audio": False,
                    "embeddedContext": True,
                },
                "mcpCapabilities": {name: self._known_to_take(name) for name in ("http", "sse")},
                "sessionCapabilities": {**session, **({"fork": {}} if self._server.forks else {})},
            },
            "authMethods": [] if self._logged_in() else [self._login()],  # some clients use what is offered unasked
        }

    def _known_to_take(self, transport: str) -> bool:
        """An ACP agent by the settings alone says it when it starts, so nothing is promised for it."""
        return self._server.one_shot and transport in takes(self._server)

    def _logged_in(self) -> bool:
        setup = self.ostler.setup
        passed = setup.settings.env_pass
        known = child_environment(
            setup.environ, self._server, add=setup.settings.env, pass_patterns=passed, launch_env={}
        )
        return login(self._server, known, setup.home) == "yes"

    def _login(self) -> Result:
        title = self._server.title
        return {
            "id": LOGIN,
            "name": f"Log in to {title}",
            "description": f"Log in with its own command line in a terminal (`{self._server.binaries[0]}`), then go on",
        }

    async def _authenticate(self, params: Params) -> Result:
        """ostler holds no logins: it looks whether the agent's own CLI has one, as far as that can be seen."""
        if params.get("methodId") != LOGIN:
            raise OstlerError("bad_request", f"there is no method {quoted(params.get('methodId'))}", f"Use {LOGIN}")
        [report] = await self.ostler.doctor([self._server.name], sandboxes=False)
        if report.problem or report.login == "no":
            wrong = report.problem or f"{self._server.title} is not logged in"
            hint = report.install if report.problem else f"Run `{self._server.binaries[0]}` in a terminal and log in"
            raise AcpError(AUTH_REQUIRED, f"{wrong}. {hint}", {"kind": "unauthenticated"})
        return {}

    # -- sessions

    async def _new(self, params: Params) -> Result:
        folder, servers, options = _folder(params), servers_of(params), options_of(params)
        live = await self.ostler.session(
            self._agent, folder=folder, access=self._access, system=options.system, system_mode=options.system_mode
        )
        check_options(options, live.setup.settings)
        await live.keep()  # a client may come back for it in another process before its first turn
        session = self._opened(live, servers, options)
        return {"sessionId": session.id, **session.state()}

    async def _load(self, params: Params) -> Result:
        session = await self._take_up(params)
        await session.replay()
        return session.state()

    async def _resume(self, params: Params) -> Result:
        return (await self._take_up(params)).state()

    async def _fork(self, params: Params) -> Result:
        row, folder, servers, options = self._known(params), _folder(params), servers_of(params), options_of(params)
        original = await self.ostler.session(session=row.id, folder=folder)
        session = self._opened(await original.fork(), servers, options)
        return {"sessionId": session.id, **session.state()}

    async def _take_up(self, params: Params) -> OpenSession:
        row = self._known(params)
        folder, servers, options = _folder(params), servers_of(params), options_of(params)
        live = await self.ostler.session(session=row.id, folder=folder)
        session = self._open.get(row.id)
        if session is None:
            return self._opened(live, servers, options)
        session.servers, session.options = servers, options
        return session

    async def _list(self, params: Params) -> Result:
        cwd, cursor = params.get("cwd"), params.get("cursor")
        start = int(cursor) if isinstance(cursor, str) and re.fullmatch(r"[0-9]{1,9}", cursor) else None
        if cursor is not None and start is None:
            raise OstlerError("bad_request", f"{quoted(cursor)} is not a valid cursor")
        where = os.path.realpath(_folder(params)) if cwd is not None else None
        rows = [
            row
            for row in self.ostler.sessions()
            if row.agent != "exec" and row.state != "closed" and where in (None, row.folder)
        ]
        shown = rows[start or 0 : (start or 0) + LISTED]
        more = {"nextCursor": str((start or 0) + LISTED)} if len(rows) > (start or 0) + LISTED else {}
        return {"sessions": [_info(row) for row in shown], **more}

    async def _close(self, params: Params) -> Result:
        row = self._known(params)
        session = self._open.pop(row.id, None)
        if session is not None:
            await session.close()
        return {}

    async def _delete(self, params: Params) -> Result:
        row = self._known(params)
        await self._close(params)
        await self.ostler.remove(row.id)
        return {}

    # -- turns and choices

    async def _prompt(self, params: Params) -> Result:
        session = self._of(params)
        return await session.prompt(params.get("prompt"), options_of(params, session.options))

    async def _set_mode(self, params: Params) -> Result:
        await self._of(params).set_access(params.get("modeId"))
        return {}

    async def _set_option(self, params: Params) -> Result:
        return await self._of(params).set_option(params.get("configId"), params.get("value"))

    # --

    def _opened(self, live: LiveSession, servers: tuple[McpServer, ...], options: TurnOptions) -> OpenSession:
        assert self._client is not None
        session = self._open[live.id] = OpenSession(self.ostler, live, self._client, self.wire)
        session.servers, session.options = servers, options
        return session

    def _known(self, params: Params) -> Session:
        id = text(params.get("sessionId"))
        row = self.ostler.store.session(id) if id else None
        if row is None or row.agent == "exec":
            raise AcpError(NOT_FOUND, f"there is no session {quoted(id[:100])}", {"kind": "not_found"})
        return row

    def _of(self, params: Params) -> OpenSession:
        """One that is open in this connection."""
        row = self._known(params)
        if row.id not in self._open:
            raise AcpError(NOT_FOUND, f"session {row.id} is not open here: load or resume it", {"kind": "not_found"})
        return self._open[row.id]


def _folder(params: Params) -> str:
    folder = params.get("cwd")
    if not isinstance(folder, str) or not os.path.isabs(folder) or "\0" in folder:
        raise OstlerError("bad_request", f"cwd must be an absolute path, not {quoted(str(folder)[:200])}")
    return folder


def _info(row: Session) -> Result:
    used = datetime.fromtimestamp(row.used_at, UTC).isoformat(timespec="seconds")
    title = row.name or row.title
    return {"sessionId": row.id, "cwd": row.folder, "updatedAt": used, **({"title": title} if title else {})}
