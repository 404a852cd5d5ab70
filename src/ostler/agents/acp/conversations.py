"""The conversations that an ACP agent keeps, by its own list: a dialog that opens no session."""

from ostler.agents.acp.agent_info import AgentInfo
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.rpc import Rpc, refusal
from ostler.agents.adapter import Conversation
from ostler.agents.dialog import Dialog, Fail, Ready, Step
from ostler.agents.values import Record, table, tables, text
from ostler.model import Exit, Host, Problem, Turn

PAGES = 100  # an agent whose list has no end is left alone


class AcpList(Dialog):
    """`initialize`, then `session/list` page by page until there are enough; `Ready` once `found` is whole."""

    def __init__(self, turn: Turn, host: Host, limit: int, folder: str | None = None) -> None:
        super().__init__(turn, host)
        self.found: list[Conversation] = []
        self._rpc, self._info = Rpc(), AgentInfo(turn, Acp())
        self._limit, self._pages = limit, 0
        self._where = {} if folder is None else {"cwd": folder}

    def open(self) -> list[Step]:
        return [self._rpc.request("initialize", self._info.initialize())]

    def read(self, record: Record) -> list[Step]:
        if isinstance(method := record.get("method"), str):
            return [refusal(record["id"], -32601, f"{method} is not served here")] if "id" in record else []
        method, error = self._rpc.answered(record), record.get("error")
        if method and error is not None:
            return [Fail(self._info.refusal(method, table(error) or {"message": text(error)}))]
        if method == "initialize":
            return self._initialized(table(record.get("result")))
        return self._page(table(record.get("result"))) if method else []

    def read_noise(self, line: str) -> list[Step]:
        self._info.printed(line)
        return super().read_noise(line)

    def startup_error(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        return self._info.startup_error(exit)

    def _initialized(self, result: Record) -> list[Step]:
        if problem := self._info.initialized(result):
            return [Fail(problem)]
        if not self._info.able_in_session("list"):
            message = f"{self.first.agent} cannot list its conversations"
            return [Fail(Problem(kind="unsupported", message=message, hint="Continue one with --agent-session ID"))]
        return [self._rpc.request("session/list", self._where)]

    def _page(self, result: Record) -> list[Step]:
        self._pages += 1
        self.found += [
            Conversation(id=id, folder=text(each.get("cwd")), title=" ".join(text(each.get("title")).split())[:200])
            for each in tables(result.get("sessions"))
            if (id := text(each.get("sessionId")))
        ]
        cursor = text(result.get("nextCursor"))
        if cursor and len(self.found) < self._limit and self._pages < PAGES:
            return [self._rpc.request("session/list", {**self._where, "cursor": cursor})]
        del self.found[self._limit :]
        return [Ready()]
