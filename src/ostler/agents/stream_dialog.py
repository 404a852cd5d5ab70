"""Dialogs by stream-json: claude and qwen read messages and control requests on stdin, and ask on stdout."""

import itertools
from collections.abc import Callable
from typing import Any

from ostler.agents.adapter import Reader, Record, literal, title_of, with_attachments
from ostler.agents.dialog import (
    AnswerKind,
    Ask,
    Dialog,
    Fail,
    Over,
    Ready,
    Step,
    Tell,
    Withdrawn,
    Write,
)
from ostler.agents.proposals import proposed
from ostler.agents.values import table, tables, text
from ostler.errors import OstlerError
from ostler.words import Asked, AskOption, Host, Notice, Problem, Turn

ONCE = AskOption(id="allow_once", name="Allow", kind="allow_once")
ALWAYS = AskOption(id="allow_always", name="Allow for this session", kind="allow_always")
REJECT = AskOption(id="reject_once", name="Deny", kind="reject_once")


class StreamDialog(Dialog):
    """The control protocol: each request has an id, and its response names it."""

    reader_of: Callable[[Turn], Reader]

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self._numbers = itertools.count(1)
        self._sent: dict[str, str] = {}  # request id → what it asked for
        self._asks: dict[str, dict[str, Any]] = {}  # request id → the agent's request
        self._model = ""

    # -- what people want

    def open(self) -> list[Step]:
        return [self._request("initialize")]

    def prompt(self, turn: Turn) -> list[Step]:
        self.reader = type(self).reader_of(turn)
        content = with_attachments(literal(turn), turn.attachments)
        return [Write({"type": "user", "message": {"role": "user", "content": content}})]

    def interrupt(self) -> list[Step]:
        return [self._request("interrupt")]

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        if mode is not None:
            return super().change(mode=mode)
        return [self._request("set_model", model=model)]

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        request = self._asks.pop(ask, None)
        if request is None:
            raise OstlerError("not_found", f"the ask {ask!r} is not open")
        if kind == "cancelled":  # the interrupt that follows ends it
            return [self._respond(ask, {"behavior": "deny", "message": "cancelled", "interrupt": True})]
        if kind.startswith("reject"):
            return [self._respond(ask, {"behavior": "deny", "message": message or "The user refused this."})]
        allowed: dict[str, Any] = {"behavior": "allow", "updatedInput": table(request.get("input"))}
        if kind == "allow_always":
            allowed["updatedPermissions"] = rules_of(request)
        return [self._respond(ask, allowed)]

    # -- what the process says

    def read(self, record: Record) -> list[Step]:
        kind = record.get("type")
        if kind == "control_response":
            return self._response(table(record.get("response")))
        if kind == "control_request":
            return self._asked(text(record.get("request_id")), table(record.get("request")))
        if kind == "control_cancel_request":
            return self._cancelled(text(record.get("request_id")))
        if self.reader is None:
            return []
        events = self.reader.read(record)
        steps: list[Step] = [Tell(events)] if events else []
        if kind == "result" and self.reader.result is not None:
            steps.append(Over())
        return steps

    def _response(self, response: dict[str, Any]) -> list[Step]:
        wanted = self._sent.pop(text(response.get("request_id")), "")
        if response.get("subtype") == "success":
            return [self._ready(table(response.get("response")))] if wanted == "initialize" else []
        message = text(response.get("error")) or "refused"
        if wanted == "initialize":
            return [Fail(Problem(kind="unsupported", message=f"{self.first.agent} opens no dialog: {message}"))]
        if not wanted:
            return []
        return [Tell([Notice(code="refused", text=f"{self.first.agent} refused {wanted}: {message}")])]

    def _ready(self, told: dict[str, Any]) -> Ready:
        return Ready(agent_session=text(told.get("session_id")) or None)

    def _asked(self, id: str, request: dict[str, Any]) -> list[Step]:
        if request.get("subtype") != "can_use_tool":
            # A hook or an MCP server of ours: none was announced.
            error = f"{request.get('subtype')} is not served here"
            return [
                Write({"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": error}})
            ]
        self._asks[id] = request
        name, input = text(request.get("tool_name")), table(request.get("input"))
        files, diff = proposed(input, self.first.folder)
        return [
            Ask(
                Asked(
                    id=id,
                    tool=name,
                    title=title_of(name, input) or text(request.get("description")),
                    input=input,
                    diff=diff,
                    files=files,
                    options=(ONCE, ALWAYS, REJECT) if rules_of(request) else (ONCE, REJECT),
                    reason=text(request.get("decision_reason")),
                )
            )
        ]

    def _cancelled(self, id: str) -> list[Step]:
        return [Withdrawn(id)] if self._asks.pop(id, None) is not None else []

    # -- records

    def _request(self, subtype: str, **more: Any) -> Write:
        id = f"ostler-{next(self._numbers)}"
        self._sent[id] = subtype
        return Write({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **more}})

    def _respond(self, id: str, response: dict[str, Any]) -> Write:
        return Write(
            {"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}}
        )


def rules_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules that the agent itself proposes for "always", kept to this session and to rules alone:
    a mode or another folder would widen the access, another destination would write the user's settings.
    """
    return [
        {**each, "behavior": "allow", "destination": "session"}
        for each in tables(request.get("permission_suggestions"))
        if each.get("type") == "addRules" and each.get("behavior") == "allow"
    ]
