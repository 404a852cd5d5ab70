"""ACP, the Agent Client Protocol, as its client: one dialog for every agent that speaks it.

JSON-RPC over stdio, protocol 1. What one agent does otherwise than others is said by its `Acp` (`protocol`). The
dialog has a handshake, the modes of its access, offers and a meter, each in a file beside this one.
"""

from typing import Any

from ostler.access import suffices, widest
from ostler.agents.acp.access_modes import AccessModes
from ostler.agents.acp.asks import asked_of, key_of, malformed, needed, option_of
from ostler.agents.acp.handshake import Handshake
from ostler.agents.acp.meter import Meter
from ostler.agents.acp.offers import OFFERS, AcpOffers
from ostler.agents.acp.prompt_blocks import prompt_blocks
from ostler.agents.acp.protocol import CALLS, CODES, Acp
from ostler.agents.acp.reader import AcpReader, judged
from ostler.agents.acp.rpc import Rpc, refusal
from ostler.agents.acp.session_options import AcpSessionOptions
from ostler.agents.acp.shown_terminals import shown_terminals
from ostler.agents.dialog import AnswerKind, Ask, Call, Dialog, Emit, Fail, Over, Step, Withdrawn, Write
from ostler.agents.values import Record, table, text
from ostler.errors import INTERNAL_ERROR, OstlerError, quoted
from ostler.model import Answered, Exit, Host, Notice, Offered, Problem, Turn

INTERNAL = -32603


class AcpDialog(Dialog):
    """One process of an ACP agent, as `acp` describes the agent."""

    def __init__(self, turn: Turn, host: Host, acp: Acp) -> None:
        super().__init__(turn, host)
        self._acp = acp
        self.leaves_commands = acp.leaves_commands
        self._rpc = Rpc()
        self._options = AcpSessionOptions(turn.agent)
        self._access_modes = AccessModes(acp, turn, self._options)
        self._handshake = Handshake(turn, host, acp, self._rpc, self._options, self._access_modes)
        self._offers = AcpOffers(acp, self._options, self._access_modes)
        self._meter = Meter(acp, new=not turn.resume)
        self._prompt = 0  # the request that the running turn is; 0: none runs
        self._stopping = 0  # the prompt whose end was asked for
        self._deferred_prompt: Write | None = None  # a prompt that waits for another model to be set
        self._asks: dict[str, Record] = {}  # ask → the agent's request
        self._always: set[tuple[str, str]] = set()  # what was allowed for the rest of the session
        self._past: set[str] = set()  # tool calls of turns before

    # -- what people want

    def open(self) -> list[Step]:
        return self._handshake.open()

    def prompt(self, turn: Turn) -> list[Step]:
        takes = table(self._handshake.info.abilities.get("promptCapabilities"))
        blocks, notices = prompt_blocks(turn, self._acp, takes)
        if isinstance(self.reader, AcpReader):
            self._past |= self.reader.done | {*self.reader.calls}
        self.reader = reader = AcpReader(turn, self._acp, self._meter)
        reader.agent_session, reader.model = self._handshake.agent_session, self._options.model
        request = self._rpc.request("session/prompt", {"sessionId": self._session, "prompt": blocks})
        self._prompt = request.record["id"]
        started = Emit([reader.started(), *(Notice(code="prompt", text=said) for said in notices)])
        if self._rpc.waits_for("session/set_"):
            self._deferred_prompt = request
            return [started]
        return [started, *self.offers(), request]

    def interrupt(self) -> list[Step]:
        if self._deferred_prompt is not None:
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
            raise OstlerError("not_found", f"the ask {quoted(ask)} is not open")
        if kind == "allow_always":
            # An agent's own "always" may be written into the user's settings: ours lasts as long as the dialog.
            self._always.add(key_of(self._call_of(request), self._acp))
            kind = "allow_once"
        # An agent that hears "cancelled" first may take it for a no, and go on to its end.
        steps: list[Step] = self.interrupt() if kind == "cancelled" and self._prompt else []
        option = None if kind == "cancelled" else option_of(request, kind)
        steps += self._rpc.respond(ask, {"outcome": _outcome(option)})
        if kind.startswith("reject") and isinstance(self.reader, AcpReader):
            events = self.reader.rejected(self._call_of(request), message or "it was refused")
            steps += [Emit(events)] if events else []
        return steps

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        return [self._handshake.set(request) for request in self._offers.choose(model, mode)]

    def check_mode(self, mode: str) -> None:
        self._access_modes.check(mode)

    def reply(self, call: str, result: dict[str, Any] | None, problem: Problem | None = None) -> list[Step]:
        if problem is None:
            return [*self._rpc.respond(call, result or {})]
        return [*self._rpc.refuse(call, CODES.get(problem.kind, INTERNAL), problem.message)]

    def close(self) -> list[Step]:
        if self._session and self._handshake.info.able_in_session("close"):
            return [self._rpc.request("session/close", {"sessionId": self._session})]
        return []

    # -- what the process says

    @property
    def _session(self) -> str:
        return self._handshake.session

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

    def read_noise(self, line: str) -> list[Step]:
        if not self._handshake.ready:
            self._handshake.info.printed(line)
        return super().read_noise(line)

    def startup_error(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        return self._handshake.info.startup_error(exit)

    def offered(self) -> Offered:
        return self._offers.offered()

    def unread(self, record: Record) -> list[Step]:
        if not isinstance(record.get("method"), str) or "id" not in record:
            return []
        id = record["id"]
        for name in self._rpc.taken_back(id):
            self._rpc.refuse(name, INTERNAL, "")
            self._asks.pop(name, None)
        return [refusal(id, INTERNAL, INTERNAL_ERROR)]

    def _update(self, params: Record) -> list[Step]:
        update = params.get("update")
        if params.get("sessionId") != self._session or not isinstance(update, dict):
            return []
        self._handshake.stirred = True
        kind = update.get("sessionUpdate")
        if kind in OFFERS:
            return self._offers_changed(update)
        if not self._prompt:
            # History that is replayed, or a word after the answer.
            self._past.add(text(update.get("toolCallId")))
            return []
        steps = shown_terminals(update) if "_meta" in update or "toolCallId" in update else []
        if kind == "tool_call":
            self._past.discard(text(update.get("toolCallId")))  # some agents count anew in each turn
        elif kind == "tool_call_update" and text(update.get("toolCallId")) in self._past:
            return steps
        assert self.reader is not None
        events = self.reader.read(update)
        if events:
            steps.append(Emit(events))
        return steps

    def _offers_changed(self, update: Record) -> list[Step]:
        self._offers.take(update)
        if self._handshake.ready and (problem := self._access_modes.violation()):
            return [Fail(problem)]
        return self.offers() if self._prompt and self._deferred_prompt is None else []

    def _response(self, record: Record) -> list[Step]:
        id, method = record.get("id"), self._rpc.answered(record)
        error = record.get("error")
        problem = None if error is None else table(error) or {"message": text(error)}
        if not method:
            return []  # an answer to nothing that we asked
        if method == "session/prompt":
            return self._ended(table(record.get("result")), problem) if id == self._prompt else []
        if problem is not None and self._deferred_prompt is not None and method.startswith("session/set_"):
            return self._not_said(method, problem)
        if problem is not None:
            return self._handshake.refused(method, problem)
        steps = self._handshake.answered(method, table(record.get("result")))
        if self._deferred_prompt is not None and not self._rpc.waits_for("session/set_"):
            steps += [*self.offers(), self._deferred_prompt]
            self._deferred_prompt = None
        return steps

    def _not_said(self, method: str, error: Record) -> list[Step]:
        """Ends a turn whose prompt was never sent: the agent did not take the mode or the model."""
        self._offers.take_back()
        self._prompt, self._deferred_prompt = 0, None
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
        self._prompt, self._deferred_prompt = 0, None
        events = reader.stopped(result) if error is None else reader.refused(error, self._handshake.info.logins)
        return [*self._let_go(), *([Emit(events)] if events else []), Over()]

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
        if self._handshake.echoed(method):
            return [Fail(self._handshake.info.no_agent("it only echoes its input"))]
        ask = method == "session/request_permission"
        if not ask and method not in CALLS:
            return [refusal(id, -32601, f"{method} is not served here")]
        if params.get("sessionId") != self._session:
            return [refusal(id, -32602, "this session is not open here")]
        if ask and (wrong := malformed(params)):
            return [refusal(id, -32602, wrong)]
        name = self._rpc.take("ask" if ask else "call", id)
        if not name:
            return [refusal(id, INTERNAL, "too many requests are open")]
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
        asked = asked_of(ask, call, request, self._acp, self.first.folder)
        # copilot asks to "read" where an edit leads out of the folder: the call itself counts, too.
        own = {**call, **{name: value for name, value in known.items() if value}}
        needs = widest(needed(each, self.first.folder, self.first.walled) for each in (call, own))
        if not suffices(access, needs):
            by = f"access {access}"
            emitted = [*events, asked, Answered(id=ask, option="reject_once", by=by)]
            self._asks.pop(ask)
            rejected = self._rpc.respond(ask, {"outcome": _outcome(option_of(request, "reject_once"))})
            return [Emit(emitted), *rejected, Emit(reader.rejected(call, f"{by} does not allow it", needs))]
        if key_of(call, self._acp) in self._always and option_of(request, "allow_once") is not None:
            emitted = [*events, asked, Answered(id=ask, option="allow_always", by="an earlier answer")]
            return [Emit(emitted), *self.answer(ask, "allow_once")]
        return [*([Emit(events)] if events else []), Ask(asked)]

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


def _outcome(option: str | None) -> Record:
    return {"outcome": "selected", "optionId": option} if option is not None else {"outcome": "cancelled"}
