"""Dialogs by stream-json: claude and qwen read messages and control requests on stdin, and ask on stdout."""

import itertools
from collections.abc import Callable
from typing import Any

from msgspec import structs

from ostler.agents.dialog import (
    LEFT_ACCESS_HINT,
    AnswerKind,
    Ask,
    Dialog,
    Emit,
    Fail,
    Over,
    Ready,
    Step,
    Withdrawn,
    Write,
)
from ostler.agents.launches import literal, with_attachments
from ostler.agents.messages import MessagesReader
from ostler.agents.offers import listed, offers
from ostler.agents.proposals import proposed
from ostler.agents.reader import Reader
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, items, table, tables, text
from ostler.errors import INTERNAL_ERROR, ErrorKind, OstlerError, quoted
from ostler.model import Answered, Asked, AskOption, Host, Notice, Offered, Problem, Turn

MODE, MODELS = "set_permission_mode", "get_available_models"
ONCE = AskOption(id="allow_once", name="Allow", kind="allow_once")
ALWAYS = AskOption(id="allow_always", name="Allow for this session", kind="allow_always")
REJECT = AskOption(id="reject_once", name="Deny", kind="reject_once")


class StreamDialog(Dialog):
    """The control protocol: each request has an id, and its response names it."""

    def __init__(self, turn: Turn, host: Host, reader_of: Callable[[Turn], Reader]) -> None:
        super().__init__(turn, host)
        self._reader_of = reader_of
        self._numbers = itertools.count(1)
        self._sent: dict[str, str] = {}  # request id → what it asked for
        self._asks: dict[str, dict[str, Any]] = {}  # request id → the agent's request
        self._running = False  # a turn does
        self._deferred_prompt: Write | None = None  # a prompt that waits for another mode to be set
        self._mode = ""
        self._offered = Offered(quiet=True)

    # -- what people want

    def open(self) -> list[Step]:
        return [self._request("initialize")]

    def prompt(self, turn: Turn) -> list[Step]:
        self.reader = self._reader_of(turn)
        return self._prompt(with_attachments(literal(turn), turn.attachments))

    def _prompt(self, content: str) -> list[Step]:
        """Begins the turn; nothing is said in a mode that was not wanted."""
        self._running = True
        said = Write({"type": "user", "message": {"role": "user", "content": content}})
        if MODE in self._sent.values():
            self._deferred_prompt = said
            return []
        return [said]

    def interrupt(self) -> list[Step]:
        if self._deferred_prompt is not None:
            return self._not_said("cancelled", "cancelled")
        return [self._request("interrupt")]

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        steps: list[Step] = [self._request("set_model", model=model)] if model is not None else []
        if mode is not None:
            self.check_mode(mode)
            steps += [self._request(MODE, mode=mode)] if mode != self._mode else []
        return steps

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        request = self._asks.pop(ask, None)
        if request is None:
            raise OstlerError("not_found", f"the ask {quoted(ask)} is not open")
        if kind == "cancelled":  # the interrupt that follows ends it
            self._declined(request, "")
            return [self._respond(ask, {"behavior": "deny", "message": "cancelled", "interrupt": True})]
        if kind.startswith("reject"):
            self._declined(request, message or "it was refused")
            return [self._respond(ask, {"behavior": "deny", "message": message or "The user refused this."})]
        allowed: dict[str, Any] = {"behavior": "allow", "updatedInput": table(request.get("input"))}
        if kind == "allow_always":
            allowed["updatedPermissions"] = rules_of(request)
        return [self._respond(ask, allowed)]

    def _declined(self, request: dict[str, Any], why: str) -> None:
        """The agent's own records tell of it like of any refusal: the reader has to know whose it was."""
        if isinstance(self.reader, MessagesReader):
            self.reader.declined[text(request.get("tool_use_id"))] = why

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
        steps: list[Step] = [Emit(events)] if events else []
        if kind == "system":
            steps += self._of_itself(record)
        if kind == "result" and self.reader.result is not None:
            steps.append(self._over())
        return steps

    def unread(self, record: Record) -> list[Step]:
        if record.get("type") != "control_request":
            return []
        id = text(record.get("request_id"))
        self._asks.pop(id, None)
        return [self._not_served(id, INTERNAL_ERROR)]

    def _response(self, response: dict[str, Any]) -> list[Step]:
        wanted = self._sent.pop(text(response.get("request_id")), "")
        if response.get("subtype") == "success":
            return self._done(wanted, table(response.get("response")))
        message = text(response.get("error")) or "refused"
        if wanted == "initialize":
            return [Fail(Problem(kind="unsupported", message=f"{self.first.agent} could not open a dialog: {message}"))]
        if wanted == MODE and self._deferred_prompt is not None:
            return self._not_said("bad_request", f"{self.first.agent} refused the mode: {message}")
        if not wanted:
            return []
        return [Emit([Notice(code="refused", text=f"{self.first.agent} refused {wanted}: {message}")])]

    def _done(self, wanted: str, reply: dict[str, Any]) -> list[Step]:
        if wanted == "initialize":
            self._mode = text(reply.get("current_permission_mode"))
            self._offered = Offered(
                quiet=True,
                commands=offers(reply.get("commands"), "name", ""),
                models=offers(reply.get("models"), "value", "displayName"),
            )
            ready = Ready(agent_session=text(reply.get("session_id")) or None)
            asked = table(reply.get("capabilities")).get("can_get_available_models") is True
            return [ready, self._request(MODELS)] if asked else [ready]
        if wanted == MODELS:
            self._offered = structs.replace(self._offered, models=offers(reply.get("models"), "id", "label"))
        if wanted != MODE:
            return []
        self._mode = text(reply.get("mode")) or self._mode
        held, self._deferred_prompt = self._deferred_prompt, None
        return [held] if held is not None else []

    def _over(self) -> Over:
        self._running = False
        return Over()

    def _not_said(self, kind: ErrorKind, why: str) -> list[Step]:
        """Ends a turn whose prompt was never sent."""
        self._deferred_prompt = None
        assert self.reader is not None
        self.reader.fail("not sent", kind, why)
        return [self._over()]

    # -- what it tells of itself

    def offered(self) -> Offered:
        within = self.modes.get(self.first.access, ())
        modes = listed((mode, "", "") for mode in within)
        return structs.replace(self._offered, modes=modes, mode=self._mode if modes else "")

    def _of_itself(self, record: Record) -> list[Step]:
        """The mode and the model that hold now, and commands where it told none before."""
        self._mode = text(record.get("permissionMode")) or text(record.get("permission_mode")) or self._mode
        if record.get("subtype") == "init":
            commands = self._offered.commands or listed((name, "", "") for name in items(record.get("slash_commands")))
            self._offered = structs.replace(self._offered, model=text(record.get("model")), commands=commands)
        within = self.modes.get(self.first.access, ())
        if within and self.first.access != "full" and self._mode not in ("", *within):
            left = f"{self.first.agent} left the modes of access {self.first.access} for {quoted(self._mode)}"
            return [Fail(Problem(kind="denied", message=left, hint=LEFT_ACCESS_HINT))]
        return self.offers() if self._running else []

    def _asked(self, id: str, request: dict[str, Any]) -> list[Step]:
        if request.get("subtype") != "can_use_tool":
            # A hook or an MCP server of ours: none was announced.
            return [self._not_served(id, f"{request.get('subtype')} is not served here")]
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

    def _allowed_before(self, asked: Asked) -> list[Step]:
        """The same was allowed for the session."""
        answered = Answered(id=asked.id, option="allow_always", by="an earlier answer")
        return [Emit([asked, answered]), *self.answer(asked.id, "allow_once")]

    def _cancelled(self, id: str) -> list[Step]:
        request = self._asks.pop(id, None)
        if request is None:
            return []
        self._declined(request, "")
        return [Withdrawn(id)]

    # -- records

    def _request(self, subtype: str, **more: Any) -> Write:
        id = f"ostler-{next(self._numbers)}"
        self._sent[id] = subtype
        return Write({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **more}})

    def _respond(self, id: str, response: dict[str, Any]) -> Write:
        return Write(
            {"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}}
        )

    def _not_served(self, id: str, error: str) -> Write:
        response = {"subtype": "error", "request_id": id, "error": error}
        return Write({"type": "control_response", "response": response})


def rules_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules that the agent itself proposes for "always", kept to this session and to rules alone:
    a mode or another folder would widen the access, another destination would write the user's settings.
    """
    return [
        {**each, "behavior": "allow", "destination": "session"}
        for each in tables(request.get("permission_suggestions"))
        if each.get("type") == "addRules" and each.get("behavior") == "allow"
    ]
