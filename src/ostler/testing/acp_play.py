"""A turn of the scripted agent, told as ACP updates."""

from __future__ import annotations

import os

from ostler.testing.children import Interrupted
from ostler.testing.steps import Play

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import Any

    from ostler.testing.acp_agent import ScriptedAcpAgent, ScriptedSession
    from ostler.testing.steps import Setting

KINDS = {"shell": "execute", "write": "edit", "edit": "edit", "read": "read", "search": "search", "web": "fetch"}
CHUNKS = {"text_delta": "agent_message_chunk", "thought_delta": "agent_thought_chunk"}
WHOLE = {"text": "text_delta", "thought": "thought_delta"}
STATUS = {"active": "in_progress", "done": "completed"}
CODES = {"unauthenticated": -32000, "not_found": -32002}


class AcpRefusal(Exception):
    """A request that was not served."""

    def __init__(self, message: str, code: int = -32603) -> None:
        super().__init__(message)
        self.code = code


class AcpPlay(Play):
    """Writes updates where `Play` writes records. `outcome` is the answer to the prompt."""

    def __init__(self, setting: Setting, agent: ScriptedAcpAgent, session: ScriptedSession) -> None:
        super().__init__(setting)
        self.agent, self.session = agent, session
        self.outcome: dict[str, Any] = {}
        self._streamed: set[str] = set()  # ids of texts whose pieces were sent

    def record(self, **record: Any) -> None:
        kind = record.get("kind") or record.get("type")
        match kind:
            case "text_delta" | "thought_delta":
                self._streamed.add(record.get("id", ""))
                self._update(CHUNKS[kind], content={"type": "text", "text": record["text"]})
            case "text" | "thought" if record.get("id", "") not in self._streamed:
                self._update(CHUNKS[WHOLE[kind]], content={"type": "text", "text": record["text"]})
            case "tool_started":
                self._update("tool_call", **self._call(record))
            case "tool_ended":
                self._update("tool_call_update", **_end(record))
            case "plan":
                self._update("plan", entries=[_entry(step) for step in record["steps"]])
            case "usage":
                cost = record.get("cost_usd")
                more = {} if cost is None else {"cost": {"amount": cost, "currency": "USD"}}
                self._update("usage_update", used=record["usage"].get("input_tokens", 0), size=200_000, **more)
            case "result":
                self.outcome = _outcome(record)

    def _update(self, update: str, **what: Any) -> None:
        self.agent.update(self.session.id, update, **what)

    def _call(self, record: dict[str, Any]) -> dict[str, Any]:
        files = [{"path": os.path.abspath(file["path"])} for file in record.get("files", [])]
        return {
            "toolCallId": record["id"],
            "title": record.get("title") or record["name"],
            "kind": KINDS.get(record["name"], "other"),
            "status": "in_progress",
            "rawInput": record.get("input"),
            "locations": files,
        }

    # -- asks

    def step_ask(self, value: dict[str, Any]) -> None:
        tool, id = value.get("tool", "shell"), self._id("c")
        call = self._call({"id": id, "name": tool, "title": value.get("title", ""), "input": value.get("input")})
        kinds = value.get("options", ("allow_once", "reject_once"))
        if self._allowed({**call, "status": "pending"}, kinds):
            self.steps(value.get("then", []), {})
        else:
            self.record(kind="tool_ended", id=id, ok=False, output="it was not allowed")

    def _refused(self, tool: str, id: str, target: str, needed: str = "read") -> bool:
        if super()._refused(tool, id, target, needed):
            return True
        if self.session.mode != "ask" or tool not in ("shell", "write"):
            return False
        call: dict[str, Any] = {"toolCallId": id, "title": target, "kind": KINDS[tool], "status": "pending"}
        if tool == "write":
            call["locations"] = [{"path": os.path.abspath(target)}]
        if self._allowed(call, ("allow_once", "allow_always", "reject_once")):
            return False
        self.record(kind="tool_ended", id=id, ok=False, output="it was not allowed", denied=True)
        return True

    def _allowed(self, call: dict[str, Any], kinds: Any) -> bool:
        options = [{"optionId": f"o{n}", "name": kind.replace("_", " "), "kind": kind} for n, kind in enumerate(kinds)]
        params = {"sessionId": self.session.id, "toolCall": call, "options": options}
        outcome = self.agent.ask("session/request_permission", params).get("outcome", {})
        if outcome.get("outcome") != "selected":
            raise Interrupted(130)
        chosen = next((option for option in options if option["optionId"] == outcome.get("optionId")), None)
        return chosen is not None and chosen["kind"].startswith("allow")

    # -- through the client

    def write_file(self, path: str, content: str) -> None:
        if not self.agent.client.get("fs", {}).get("writeTextFile"):
            return super().write_file(path, content)
        params = {"sessionId": self.session.id, "path": os.path.abspath(path), "content": content}
        try:
            self.agent.ask("fs/write_text_file", params)
        except AcpRefusal as error:
            raise OSError(str(error)) from None

    def read_file(self, path: str) -> str:
        if not self.agent.client.get("fs", {}).get("readTextFile"):
            return super().read_file(path)
        params = {"sessionId": self.session.id, "path": os.path.abspath(path)}
        try:
            return str(self.agent.ask("fs/read_text_file", params).get("content"))
        except AcpRefusal as error:
            raise OSError(str(error)) from None

    def run_command(self, argv: list[str], id: str) -> tuple[int, str]:
        """In a terminal of the client; by itself where the client has none after all."""
        if not self.agent.client.get("terminal"):
            return super().run_command(argv, id)
        session = {"sessionId": self.session.id}
        try:
            params = {**session, "command": argv[0], "args": argv[1:], "cwd": os.getcwd()}
            terminal = {**session, "terminalId": self.agent.ask("terminal/create", params)["terminalId"]}
        except (AcpRefusal, KeyError):
            return super().run_command(argv, id)
        try:
            content = [{"type": "terminal", "terminalId": terminal["terminalId"]}]
            self._update("tool_call_update", toolCallId=id, content=content)
            exit = self.agent.ask("terminal/wait_for_exit", terminal)
            output = self.agent.ask("terminal/output", terminal)
        finally:
            self.agent.ask("terminal/release", terminal)
        code = exit.get("exitCode")
        return 128 if code is None else int(code), str(output.get("output", ""))

    def step_flood(self, value: Any) -> None:
        """That many updates, as fast as they go."""
        wanted = value if isinstance(value, dict) else {"lines": int(value or 10_000)}
        width = wanted.get("width", 0)
        for number in range(wanted.get("lines", 10_000)):
            self._update("agent_message_chunk", content={"type": "text", "text": f"line {number}\n".rjust(width, ".")})


def _end(record: dict[str, Any]) -> dict[str, Any]:
    shown = [{"type": "content", "content": {"type": "text", "text": record.get("output", "")}}]
    raw = {"output": record.get("output", ""), "exit_code": record.get("exit_code")}
    return {
        "toolCallId": record["id"],
        "status": "completed" if record.get("ok") else "failed",
        "content": shown,
        "rawOutput": {name: value for name, value in raw.items() if value is not None},
    }


def _entry(step: dict[str, Any]) -> dict[str, Any]:
    return {"content": step["text"], "priority": "medium", "status": STATUS.get(step.get("status", ""), "pending")}


def _outcome(record: dict[str, Any]) -> dict[str, Any]:
    """The answer to the prompt: how the turn ended."""
    if record["ok"]:
        usage = record.get("usage") or {}
        counts = {"inputTokens": usage.get("input_tokens", 0), "outputTokens": usage.get("output_tokens", 0)}
        told = {"usage": {**counts, "totalTokens": sum(counts.values())}} if usage else {}
        return {"result": {"stopReason": "end_turn", **told}}
    error = record.get("error") or {}
    if error.get("kind") == "cancelled":
        return {"result": {"stopReason": "cancelled"}}
    if error.get("kind") == "denied":
        return {"result": {"stopReason": "refusal"}}
    return {"error": {"code": CODES.get(error.get("kind", ""), -32603), "message": str(error.get("message"))}}
