"""The conversations that an ACP agent keeps, by its own list: a dialog that opens no session."""

from ostler.agents.acp_opening import AcpOpening
from ostler.agents.acp_rpc import refusal
from ostler.agents.adapter import Conversation, Record
from ostler.agents.dialog import Fail, Ready, Step
from ostler.agents.values import table, tables, text
from ostler.words import Host, Problem, Turn

PAGES = 100  # an agent whose list has no end is left alone


class AcpList(AcpOpening):
    """`initialize`, then `session/list` page by page until there are enough; `Ready` once `found` is whole."""

    def __init__(self, turn: Turn, host: Host, limit: int, folder: str | None = None) -> None:
        super().__init__(turn, host)
        self.found: list[Conversation] = []
        self._limit, self._pages = limit, 0
        self._where = {} if folder is None else {"cwd": folder}

    def initialized(self) -> list[Step]:
        if "list" not in table(self._abilities.get("sessionCapabilities")):
            message = f"{self.first.agent} cannot list its conversations"
            return [Fail(Problem(kind="unsupported", message=message, hint="Go on with one by --agent-session ID"))]
        return [self._rpc.request("session/list", self._where)]

    def read(self, record: Record) -> list[Step]:
        if isinstance(method := record.get("method"), str):
            return [refusal(record["id"], -32601, f"{method} is not served here")] if "id" in record else []
        method, error = self._rpc.answered(record), record.get("error")
        if method and error is not None:
            return self.not_done(method, table(error) or {"message": text(error)})
        if method != "session/list":
            return self.done(method, table(record.get("result"))) if method else []
        return self._page(table(record.get("result")))

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
