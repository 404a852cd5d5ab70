"""JSON-RPC as ACP uses it: both sides send requests, and their ids have nothing to do with each other."""

import itertools
from typing import Any

from ostler.agents.dialog import Write
from ostler.agents.values import Record

MAX_OPEN = 1000  # requests of the agent that wait for us at a time


class Rpc:
    """Who waits for what."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._sent: dict[int, str] = {}  # our request → its method
        self._theirs: dict[str, Any] = {}  # our name for a request of the agent → the id that it gave it

    # -- ours

    def request(self, method: str, params: dict[str, Any]) -> Write:
        id = next(self._numbers)
        self._sent[id] = method
        return Write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def notify(self, method: str, params: dict[str, Any]) -> Write:
        return Write({"jsonrpc": "2.0", "method": method, "params": params})

    def answered(self, record: Record) -> str:
        """The method of ours that a response answers; "" for an answer to nothing that we asked."""
        id = record.get("id")
        return self._sent.pop(id, "") if isinstance(id, int) and not isinstance(id, bool) else ""

    def waits_for(self, method: str) -> bool:
        return any(sent.startswith(method) for sent in self._sent.values())

    # -- theirs

    def take(self, prefix: str, id: Any) -> str:
        """Keeps a request of the agent under a name of ours; "" when too many are open."""
        if len(self._theirs) >= MAX_OPEN:
            return ""
        name = f"{prefix}:{next(self._numbers)}"
        self._theirs[name] = id
        return name

    def respond(self, name: str, result: dict[str, Any]) -> list[Write]:
        """The answer to a request of the agent; none if it took it back."""
        if name not in self._theirs:
            return []
        return [Write({"jsonrpc": "2.0", "id": self._theirs.pop(name), "result": result})]

    def refuse(self, name: str, code: int, message: str) -> list[Write]:
        return [refusal(self._theirs.pop(name), code, message)] if name in self._theirs else []

    def open(self) -> list[str]:
        """The names of all that the agent still waits for."""
        return list(self._theirs)

    def taken_back(self, id: Any) -> list[str]:
        """The names of requests with this id; ids are compared with their type: 1 is not "1", nor true."""
        return [name for name, theirs in self._theirs.items() if theirs == id and type(theirs) is type(id)]


def refusal(id: Any, code: int, message: str) -> Write:
    return Write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
