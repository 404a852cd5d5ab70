"""ACP, the Agent Client Protocol, as its client: one dialog for every agent that speaks it.

JSON-RPC over stdio, protocol 1. Rules that all agents keep stand in the files beside (`acp_opening`, `acp_asks`,
`acp_reader` …); what one agent does otherwise is said by its `Acp`.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import structs

from ostler.agents.acp_asks import asked_of, key_of, needed, option_of, suffices, widest
from ostler.agents.acp_meter import Meter
from ostler.agents.acp_offers import OFFERS, AcpOffers
from ostler.agents.acp_reader import AcpReader, judged
from ostler.agents.acp_rpc import refusal
from ostler.agents.acp_words import CALLS, CODES, GUARD, Acp
from ostler.agents.adapter import Record
from ostler.agents.dialog import AnswerKind, Ask, Call, DialogFace, Over, Step, Tell, Withdrawn, Write
from ostler.agents.mcp import TRANSPORTS
from ostler.agents.values import table, tables, text
from ostler.errors import OstlerError
from ostler.words import Answered, Attachment, Host, Launch, Notice, Problem, Turn


class AcpDialog(AcpOffers):
    """One ACP agent. Subclasses say `acp`, and override what they do otherwise."""

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self._meter = Meter(self.acp, new=not turn.resume)
        self._prompt = 0  # the request that the running turn is; 0: none runs
        self._stopping = 0  # the prompt whose end was asked for
        self._held: Write | None = None  # a prompt that waits for another model to be set
        self._asks: dict[str, Record] = {}  # ask → the agent's request
        self._always: set[tuple[str, str]] = set()  # what was allowed for the rest of the session
        self._past: set[str] = set()  # tool calls of turns before

    # -- what people want

    def prompt(self, turn: Turn) -> list[Step]:
        blocks, notices = self._content(turn)
        if isinstance(self.reader, AcpReader):
            self._past |= self.reader.done | {*self.reader.calls}
        self.reader = reader = AcpReader(turn, self.acp, self._meter)
        reader.agent_session, reader.model = self.agent_session, self._offered.model
        request = self._rpc.request("session/prompt", {"sessionId": self._session, "prompt": blocks})
        self._prompt = request.record["id"]
        told = Tell([reader.started(), *(Notice(code="prompt", text=said) for said in notices)])
        if self._rpc.waits_for("session/set_"):
            self._held = request
            return [told]
        return [told, *self.offers(), request]

    def interrupt(self) -> list[Step]:
        if self._held is not None:
            return self._ended({"stopReason": "cancelled"}, None)
        if self._stopping == self._prompt:
            return []
        self._stopping = self._prompt
        return [self._rpc.notify("session/cancel", {"sessionId": self._session})]

    def give_up(self) -> list[Step]:
        return [self._rpc.notify("$/cancel_request", {"requestId": self._prompt})] if self._prompt else []

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        request = self._asks.pop(ask, None)
        if request is None:
            raise OstlerError("not_found", f"the ask {ask!r} is not open")
        if kind == "allow_always":
            # An agent's own "always" may be written into the user's settings: ours lasts as long as the dialog.
            self._always.add(key_of(self._call_of(request), self.acp))
            kind = "allow_once"
        # An agent that hears "cancelled" first may take it for a no, and go on to its end.
        steps: list[Step] = self.interrupt() if kind == "cancelled" and self._prompt else []
        option = None if kind == "cancelled" else option_of(request, kind)
        steps += self._rpc.respond(ask, {"outcome": _outcome(option)})
        if kind.startswith("reject") and isinstance(self.reader, AcpReader):
            events = self.reader.rejected(self._call_of(request), message or "it was refused")
            steps += [Tell(events)] if events else []
        return steps

    def reply(self, call: str, result: dict[str, Any] | None, problem: Problem | None = None) -> list[Step]:
        if problem is None:
            return [*self._rpc.respond(call, result or {})]
        return [*self._rpc.refuse(call, CODES.get(problem.kind, -32603), problem.message)]

    def close(self) -> list[Step]:
        if self._session and "close" in table(self._abilities.get("sessionCapabilities")):
            return [self._rpc.request("session/close", {"sessionId": self._session})]
        return []

    # -- what the process says

    def read(self, record: Record) -> list[Step]:
        method = record.get("method")
        if method == "session/update" and "id" not in record:
            return self._update(table(record.get("params")))
        if not isinstance(method, str):
            return self._response(record)
        if "id" in record:
            return self._asked_of_us(record["id"], method, table(record.get("params")))
        if method == "$/cancel_request":
            return self._taken_back(table(record.get("params")))
        return []

    def _update(self, params: Record) -> list[Step]:
        update = params.get("update")
        if params.get("sessionId") != self._session or not isinstance(update, dict):
            return []
        self._stirred = True
        kind = update.get("sessionUpdate")
        if kind in OFFERS:
            self.heard_offers(update)
            return self.strayed() or (self.offers() if self._prompt and self._held is None else [])
        if not self._prompt:
            # History that is replayed, or a word after the answer.
            self._past.add(text(update.get("toolCallId")))
            return []
        steps = _shown_terminals(update) if "_meta" in update or "toolCallId" in update else []
        if kind == "tool_call":
            self._past.discard(text(update.get("toolCallId")))  # some agents count anew in each turn
        elif kind == "tool_call_update" and text(update.get("toolCallId")) in self._past:
            return steps
        assert self.reader is not None
        events = self.reader.read(update)
        if events:
            steps.append(Tell(events))
        return steps

    def _response(self, record: Record) -> list[Step]:
        id, method = record.get("id"), self._rpc.answered(record)
        error = record.get("error")
        problem = None if error is None else table(error) or {"message": text(error)}
        if not method:
            return []  # an answer to nothing that we asked
        if method == "session/prompt":
            return self._ended(table(record.get("result")), problem) if id == self._prompt else []
        if problem is not None and self._held is not None and method.startswith("session/set_"):
            return self._not_said(method, problem)
        if problem is not None:
            return self.not_done(method, problem)
        steps = self.done(method, table(record.get("result")))
        if self._held is not None and not self._rpc.waits_for("session/set_"):
            steps += [*self.offers(), self._held]
            self._held = None
        return steps

    def _not_said(self, method: str, error: Record) -> list[Step]:
        """Ends a turn whose prompt was never sent: the agent did not take the mode or the model."""
        self._offered.state = self._before
        self._prompt, self._held = 0, None
        kind, said = judged(error)
        assert self.reader is not None
        self.reader.fail(
            f"{method} refused",
            kind if kind == "unauthenticated" else "bad_request",
            f"{self.first.agent} refused {method}: {said}",
        )
        return [Over()]

    def _ended(self, result: Record, error: Record | None) -> list[Step]:
        reader = self.reader
        assert isinstance(reader, AcpReader)
        self._prompt, self._held = 0, None
        events = reader.stopped(result) if error is None else reader.refused(error, self._logins)
        return [*self._let_go(), *([Tell(events)] if events else []), Over()]

    def _let_go(self) -> list[Step]:
        """Answers what a turn that is over still waits for."""
        steps: list[Step] = []
        for name in self._rpc.open():
            if self._asks.pop(name, None) is None:
                steps += self._rpc.refuse(name, -32800, "the turn is over")
            else:
                steps += [*self._rpc.respond(name, {"outcome": _outcome(None)}), Withdrawn(name)]
        return steps

    # -- what the agent asks of us

    def _asked_of_us(self, id: Any, method: str, params: Record) -> list[Step]:
        if self.echoed(method):
            return [self._no_agent("it says back what it is told")]
        ask = method == "session/request_permission"
        if not ask and method not in CALLS:
            return [refusal(id, -32601, f"{method} is not served here")]
        if params.get("sessionId") != self._session:
            return [refusal(id, -32602, "this session is not open here")]
        name = self._rpc.take("ask" if ask else "call", id)
        if not name:
            return [refusal(id, -32603, "too many requests are open")]
        if ask:
            return self._permission(name, params)
        return [Call(name, CALLS[method], {key: value for key, value in params.items() if key != "_meta"})]

    def _permission(self, ask: str, request: Record) -> list[Step]:
        self._asks[ask] = request
        reader, access = self.reader, self.first.access
        if not self._prompt or not isinstance(reader, AcpReader):
            return self.answer(ask, "cancelled")
        self._past.discard(text(table(request.get("toolCall")).get("toolCallId")))
        known = dict(reader.calls.get(text(table(request.get("toolCall")).get("toolCallId")), {}))
        events = reader.asked_about(table(request.get("toolCall")))
        call = self._call_of(request)
        asked = asked_of(ask, call, request, self.acp, self.first.folder)
        # copilot asks to "read" where an edit leads out of the folder: the call itself counts, too.
        needs = widest(needed(each, self.first.folder) for each in (call, known) if each)
        if not suffices(access, needs):
            by = f"access {access}"
            told = [*events, asked, Answered(id=ask, option="reject_once", by=by)]
            self._asks.pop(ask)
            rejected = self._rpc.respond(ask, {"outcome": _outcome(option_of(request, "reject_once"))})
            return [Tell(told), *rejected, Tell(reader.rejected(call, f"{by} does not allow it"))]
        if key_of(call, self.acp) in self._always and option_of(request, "allow_once") is not None:
            told = [*events, asked, Answered(id=ask, option="allow_always", by="an answer before")]
            return [Tell(told), *self.answer(ask, "allow_once")]
        return [*([Tell(events)] if events else []), Ask(asked)]

    def _call_of(self, request: Record) -> Record:
        """The tool call that a permission request is about, with what is known of it."""
        call = table(request.get("toolCall"))
        known = self.reader.calls.get(text(call.get("toolCallId")), {}) if isinstance(self.reader, AcpReader) else {}
        return {**known, **{name: value for name, value in call.items() if value is not None}}

    def _taken_back(self, params: Record) -> list[Step]:
        """The agent no longer wants an answer to its request."""
        steps: list[Step] = []
        for name in self._rpc.taken_back(params.get("requestId", params.get("id"))):
            steps += self._rpc.refuse(name, -32800, "cancelled")
            self._asks.pop(name, None)
            steps.append(Withdrawn(name))
        return steps

    # -- records

    def _content(self, turn: Turn) -> tuple[list[Record], list[str]]:
        """The prompt as blocks, and what was done to it."""
        notices = []
        if turn.system and turn.first and self.acp.system == "prompt":
            turn = structs.replace(turn, prompt=f"{turn.system}\n\n{turn.prompt}")
            notices.append("the system prompt was put before the first prompt")
        guarded = not turn.command and turn.prompt.lstrip()[:1] in tuple(self.acp.marks)
        said = GUARD + turn.prompt if guarded else turn.prompt
        return [{"type": "text", "text": said}, *map(self.block, turn.attachments)], notices

    def block(self, attached: Attachment) -> Record:
        """What goes with a prompt, as a block of it. Raises unsupported."""
        takes = table(self._abilities.get("promptCapabilities"))
        if attached.image and not takes.get("image"):
            what = f"{self.first.agent} takes no images: {attached.path}"
            raise OstlerError("unsupported", what, "Leave it out, or choose another agent")
        if attached.data:
            kind, _, data = attached.data.removeprefix("data:").partition(";base64,")
            return {"type": "image", "mimeType": kind, "data": data}
        if attached.content is None:
            name = attached.name or attached.path.rpartition("/")[2]
            return {"type": "resource_link", "uri": f"file://{quote(attached.path)}", "name": name}
        if takes.get("embeddedContext") and self.acp.embeds:
            resource = {"uri": f"file:///{attached.name}", "text": attached.content}
            return {"type": "resource", "resource": resource}
        return {"type": "text", "text": f'<file name="{attached.name}">\n{attached.content}\n</file>'}


def _outcome(option: str | None) -> Record:
    return {"outcome": "selected", "optionId": option} if option is not None else {"outcome": "cancelled"}


def _shown_terminals(update: Record) -> list[Step]:
    """The terminals that a tool call shows, and those of the agent's own, told in `_meta` of its tool calls."""
    meta, tool = table(update.get("_meta")), text(update.get("toolCallId"))
    linked = [
        {"terminal_id": content.get("terminalId"), "what": "terminal_link", "tool": tool}
        for content in tables(update.get("content"))
        if content.get("type") == "terminal" and tool
    ]
    told = [
        {**found, "what": name, "tool": tool}
        for name in ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit")
        if isinstance(found := meta.get(name), dict)
    ]
    return [Call("", "terminal_show", params) for params in (*linked, *told)]


def bare(turn: Turn) -> Turn:
    """What of a turn decides its launch: the rest goes with prompts, or by the protocol."""
    return structs.replace(
        turn, prompt="", attachments=(), schema=None, command=False, agent_session=None, resume=False, fork=False
    )


def acp_face(
    acp: Acp, launch: Callable[[Turn, Host], Launch], needs: Sequence[str] = (), access: str = ""
) -> DialogFace:
    """The face of an agent that speaks ACP when it is launched so."""

    class Spoken(AcpDialog):
        pass

    Spoken.acp = acp
    return DialogFace(
        launch=launch,
        dialog=Spoken,
        needs=tuple(needs),
        images=True,
        mcp=TRANSPORTS,
        protocol="acp",
        access=access,
    )
