"""ACP, the Agent Client Protocol, as its client: one dialog for every agent that speaks it (protocol 1).

JSON-RPC over stdio. Both sides send requests; ids of theirs and of ours are apart.
"""

import itertools
from typing import Any, Literal

from msgspec import Struct

from ostler.agents.acp_reader import AcpReader, diffs_of, name_of
from ostler.agents.adapter import Record, literal, title_of
from ostler.agents.dialog import (
    AnswerKind,
    Ask,
    Call,
    CallName,
    Dialog,
    DialogFace,
    Fail,
    Over,
    Ready,
    Step,
    Tell,
    Withdrawn,
    Write,
)
from ostler.agents.values import number, table, tables, text
from ostler.errors import ErrorKind, OstlerError
from ostler.words import Access, Answered, Asked, AskOption, FileChange, Host, Launch, Problem, Turn

PROTOCOL = 1
CALLS: dict[str, CallName] = {
    "fs/read_text_file": "read_file",
    "fs/write_text_file": "write_file",
    "terminal/create": "terminal_create",
    "terminal/output": "terminal_output",
    "terminal/wait_for_exit": "terminal_wait",
    "terminal/kill": "terminal_kill",
    "terminal/release": "terminal_release",
}
CODES: dict[ErrorKind, int] = {"not_found": -32002, "bad_request": -32602, "unsupported": -32601, "cancelled": -32800}
KINDS: tuple[Literal["allow_once", "allow_always", "reject_once", "reject_always"], ...] = (
    "allow_once",
    "allow_always",
    "reject_once",
    "reject_always",
)


class Acp(Struct, frozen=True, kw_only=True):
    """What differs between agents that speak ACP."""

    modes: dict[Access, str] = {}  # the mode for each access, by id or by the end of one
    reads: bool = True  # it may read files through us
    writes: bool = True
    terminals: bool = True
    marks: str = "/"  # what makes of a prompt a command


class AcpDialog(Dialog):
    """One ACP agent. Subclass or `acp = Acp(…)` for what differs."""

    acp = Acp()

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self._numbers = itertools.count(1)
        self._sent: dict[int, str] = {}  # our request → its method
        self._asks: dict[str, dict[str, Any]] = {}  # ask → the agent's request
        self._theirs: dict[str, Any] = {}  # ask or call → the id that the agent gave its request
        self._always: set[tuple[str, str]] = set()  # what was allowed for the rest of the session
        self._prompt = 0  # the request that a prompt is
        self._session = ""
        self._abilities: dict[str, Any] = {}
        self._options: list[dict[str, Any]] = []  # config options: model, mode, thought level
        self._modes: list[str] = []
        self._wishes: list[Step] = []  # what is still to be set before the first prompt

    # -- what people want

    def open(self) -> list[Step]:
        fs = {"readTextFile": self.acp.reads, "writeTextFile": self.acp.writes and self.first.access != "read"}
        abilities = {"fs": fs, "terminal": self.acp.terminals, "_meta": {"terminal_output": True}}
        about = {"name": "ostler", "title": "ostler", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "clientCapabilities": abilities, "clientInfo": about}
        return [self._request("initialize", params)]

    def prompt(self, turn: Turn) -> list[Step]:
        self.reader = AcpReader(turn)
        self.reader.agent_session = self._session
        self.reader.model = self._current("model")
        request = self._request("session/prompt", {"sessionId": self._session, "prompt": self._content(turn)})
        self._prompt = request.record["id"]
        return [Tell([self.reader.started()]), request]

    def interrupt(self) -> list[Step]:
        return [self._notify("session/cancel", {"sessionId": self._session})]

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        request = self._asks.pop(ask, None)
        if request is None:
            raise OstlerError("not_found", f"the ask {ask!r} is not open")
        if kind == "allow_always":
            # An agent's own "always" may be written into the user's settings: ours lasts as long as the dialog.
            self._always.add(_key(request))
            kind = "allow_once"
        option = None if kind == "cancelled" else _option(request, kind)
        outcome = {"outcome": "selected", "optionId": option} if option is not None else {"outcome": "cancelled"}
        return [self._respond(self._theirs.pop(ask), {"outcome": outcome})]

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        return [*([self._set_model(model)] if model else []), *([self._set_mode(mode)] if mode else [])]

    def reply(self, call: str, result: dict[str, Any] | None, problem: Problem | None = None) -> list[Step]:
        id = self._theirs.pop(call, None)
        if id is None:
            return []  # the agent took it back
        if problem is None:
            return [self._respond(id, result or {})]
        return [self._refuse(id, CODES.get(problem.kind, -32603), problem.message)]

    def close(self) -> list[Step]:
        if self._session and "close" in table(self._abilities.get("sessionCapabilities")):
            return [self._request("session/close", {"sessionId": self._session})]
        return []

    # -- what the process says

    def read(self, record: Record) -> list[Step]:
        method = record.get("method")
        if not isinstance(method, str):
            return self._response(record)
        params = table(record.get("params"))
        if "id" in record:
            return self._asked_of_us(record["id"], method, params)
        if method == "session/update":
            return self._update(params)
        if method == "$/cancel_request":
            return self._taken_back(params.get("requestId", params.get("id")))
        return []

    def _update(self, params: Record) -> list[Step]:
        if params.get("sessionId") != self._session or not isinstance(params.get("update"), dict):
            return []
        update = params["update"]
        if update.get("sessionUpdate") == "config_option_update":
            self._options = tables(update.get("configOptions")) or self._options
        steps = _shown_terminals(update)
        if self.reader is None:
            return steps
        events = self.reader.read(update)
        return [*steps, *([Tell(events)] if events else [])]

    def _response(self, record: Record) -> list[Step]:
        id = record.get("id")
        method = self._sent.pop(id, "") if isinstance(id, int) and not isinstance(id, bool) else ""
        error = record.get("error")
        if not method:
            return []  # an answer to nothing that we asked
        if method == "session/prompt":
            return self._ended(table(record.get("result")), error) if id == self._prompt else []
        if error is not None and "result" not in record:
            return self._not_opened(method, table(error) or {"message": text(error)})
        return self._opened(method, table(record.get("result")))

    def _ended(self, result: Record, error: Any) -> list[Step]:
        reader = self.reader
        assert isinstance(reader, AcpReader)
        self._prompt = 0
        if error is not None and not result:
            events = reader.refused(table(error) or {"message": text(error)})
        else:
            events = reader.stopped(text(result.get("stopReason")), result)
        return [*([Tell(events)] if events else []), Over()]

    # -- opening

    def _opened(self, method: str, result: Record) -> list[Step]:
        if method == "initialize":
            return self._initialized(result)
        if method in ("session/new", "session/load", "session/resume"):
            return self._in_session(result)
        return self._next_wish() if method.startswith("session/set_") and self._wishes else []

    def _initialized(self, result: Record) -> list[Step]:
        if number(result.get("protocolVersion")) != PROTOCOL:
            spoken = result.get("protocolVersion")
            wrong = f"{self.first.agent} speaks version {spoken} of ACP, ostler speaks {PROTOCOL}"
            return [Fail(Problem(kind="unsupported", message=wrong, hint=f"Update {self.first.agent} or ostler"))]
        self._abilities = table(result.get("agentCapabilities"))
        self._logins = [
            text(each.get("description")) or text(each.get("name")) for each in tables(result.get("authMethods"))
        ]
        return self._begin_session()

    def _begin_session(self) -> list[Step]:
        where = {"cwd": self.first.folder, "mcpServers": []}
        if not self.first.resume:
            return [self._request("session/new", where)]
        self._session = self.first.agent_session or ""
        if "resume" in table(self._abilities.get("sessionCapabilities")):
            return [self._request("session/resume", {"sessionId": self._session, **where})]
        if self._abilities.get("loadSession"):
            return [self._request("session/load", {"sessionId": self._session, **where})]
        return [Fail(Problem(kind="unsupported", message=f"{self.first.agent} cannot resume a session over ACP"))]

    def _in_session(self, result: Record) -> list[Step]:
        self._session = text(result.get("sessionId")) or self._session
        self._options = tables(result.get("configOptions"))
        self._modes = [text(mode.get("id")) for mode in tables(table(result.get("modes")).get("availableModes"))]
        wanted = self.acp.modes.get(self.first.access)
        self._wishes = [
            *([self._set_mode(wanted)] if wanted else []),
            *([self._set_model(self.first.model)] if self.first.model else []),
            Ready(agent_session=self._session, model=self._current("model")),
        ]
        return self._next_wish()

    def _next_wish(self) -> list[Step]:
        return [self._wishes.pop(0)]

    def _not_opened(self, method: str, error: Record) -> list[Step]:
        said = text(table(error.get("data")).get("details")) or text(error.get("message")) or "refused"
        agent = self.first.agent
        if number(error.get("code")) == -32000:
            hint = "; ".join(self._logins) or f"Log in to {agent}"
            return [Fail(Problem(kind="unauthenticated", message=f"{agent} needs a login: {said}", hint=hint))]
        if method in ("session/load", "session/resume"):
            return [Fail(Problem(kind="not_found", message=f"{agent} has no session {self._session}: {said}"))]
        if method.startswith("session/set_"):
            return [Fail(Problem(kind="bad_request", message=f"{agent} refused {method}: {said}"))]
        if method == "session/close":
            return []
        return [Fail(Problem(kind="unsupported", message=f"{agent} opens no dialog ({method}): {said}"))]

    # -- models and modes

    def _set_model(self, model: str) -> Step:
        return self._choose("model", model)

    def _set_mode(self, mode: str) -> Step:
        for id in self._modes:
            if id == mode or id.endswith(f"#{mode}"):
                return self._request("session/set_mode", {"sessionId": self._session, "modeId": id})
        return self._choose("mode", mode)

    def _choose(self, category: str, wanted: str) -> Step:
        """Sets a config option by category; a value is taken whole, or by its end after `/` or `#`."""
        option = next((each for each in self._options if each.get("category") == category), None)
        values = _values(option or {})
        found = next((value for value in values if value == wanted), None)
        found = found or next((value for value in values if value.endswith((f"/{wanted}", f"#{wanted}"))), None)
        if option is None or found is None:
            known = ", ".join(values[:20]) or "none"
            problem = Problem(
                kind="bad_request", message=f"{self.first.agent} has no {category} {wanted!r}", hint=f"It has: {known}"
            )
            return Fail(problem)
        params = {"sessionId": self._session, "configId": text(option.get("id")), "value": found}
        return self._request("session/set_config_option", params)

    def _current(self, category: str) -> str | None:
        option = next((each for each in self._options if each.get("category") == category), {})
        return text(option.get("currentValue")) or None

    # -- what the agent asks of us

    def _asked_of_us(self, id: Any, method: str, params: Record) -> list[Step]:
        if method == "session/request_permission":
            return self._permission(id, params)
        if method in CALLS and params.get("sessionId") == self._session:
            call = f"call:{next(self._numbers)}"
            self._theirs[call] = id
            return [Call(call, CALLS[method], {name: value for name, value in params.items() if name != "_meta"})]
        if method in CALLS:
            return [self._refuse(id, -32602, "this session is not open here")]
        return [self._refuse(id, -32601, f"{method} is not served here")]

    def _permission(self, id: Any, params: Record) -> list[Step]:
        ask = f"ask:{next(self._numbers)}"
        self._theirs[ask], self._asks[ask] = id, params
        asked = self._asked(ask, params)
        if self.reader is None or params.get("sessionId") != self._session:
            return self.answer(ask, "cancelled")
        if _key(params) in self._always and _option(params, "allow_once") is not None:
            told = Answered(id=ask, option="allow_always", by="an answer before")
            return [Tell([asked, told]), *self.answer(ask, "allow_once")]
        return [Ask(asked)]

    def _asked(self, ask: str, params: Record) -> Asked:
        reader = self.reader
        call = table(params.get("toolCall"))
        if isinstance(reader, AcpReader):
            call = {**reader.calls.get(text(call.get("toolCallId")), {}), **call}
        diffs, input = diffs_of(call, self.first.folder), call.get("rawInput")
        name = name_of(call)
        offered = {text(option.get("kind")) for option in tables(params.get("options"))}
        options = [AskOption(id=kind, name=NAMES[kind], kind=kind) for kind in KINDS if kind in offered]
        if "allow_once" in offered and "allow_always" not in offered:
            options.insert(1, AskOption(id="allow_always", name=NAMES["allow_always"], kind="allow_always"))
        return Asked(
            id=ask,
            tool=name,
            title=(title_of(name, input) or text(call.get("title")))[:200],
            input=input,
            diff="".join(diff for _, diff in diffs),
            files=tuple(FileChange(path=path) for path, _ in diffs),
            options=tuple(options),
        )

    def _taken_back(self, id: Any) -> list[Step]:
        """The agent no longer wants an answer to its request."""
        for name, theirs in list(self._theirs.items()):
            if theirs == id and type(theirs) is type(id):
                del self._theirs[name]
                refusal = self._refuse(id, -32800, "cancelled")
                return [refusal, Withdrawn(name)] if self._asks.pop(name, None) is not None else [refusal]
        return []

    # -- records

    def _content(self, turn: Turn) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": literal(turn, self.acp.marks)}]
        for each in turn.attachments:
            if each.content is not None and self._takes("embeddedContext"):
                resource = {"uri": f"file:///{each.name}", "text": each.content}
                blocks.append({"type": "resource", "resource": resource})
            elif each.content is not None:
                blocks.append({"type": "text", "text": f'<file name="{each.name}">\n{each.content}\n</file>'})
            else:
                name = each.name or each.path.rpartition("/")[2]
                blocks.append({"type": "resource_link", "uri": f"file://{each.path}", "name": name})
        return blocks

    def _takes(self, what: str) -> bool:
        return bool(table(self._abilities.get("promptCapabilities")).get(what))

    def _request(self, method: str, params: dict[str, Any]) -> Write:
        id = next(self._numbers)
        self._sent[id] = method
        return Write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def _notify(self, method: str, params: dict[str, Any]) -> Write:
        return Write({"jsonrpc": "2.0", "method": method, "params": params})

    def _respond(self, id: Any, result: dict[str, Any]) -> Write:
        return Write({"jsonrpc": "2.0", "id": id, "result": result})

    def _refuse(self, id: Any, code: int, message: str) -> Write:
        return Write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


NAMES = {
    "allow_once": "Allow",
    "allow_always": "Allow for this session",
    "reject_once": "Deny",
    "reject_always": "Deny always",
}


def _option(request: Record, kind: str) -> str | None:
    """The id of the option of this kind; options are never chosen by position or id."""
    options = tables(request.get("options"))
    found = next((text(option.get("optionId")) for option in options if option.get("kind") == kind), None)
    if found is None and kind == "reject_once":
        found = next((text(o.get("optionId")) for o in options if o.get("kind") == "reject_always"), None)
    return found


def _key(request: Record) -> tuple[str, str]:
    """What an answer for the session covers: the same tool about the same thing."""
    call = table(request.get("toolCall"))
    name = name_of(call)
    return name, title_of(name, call.get("rawInput")) or text(call.get("title"))


def _values(option: Record) -> list[str]:
    """The values of a config option, also those in groups."""
    found = []
    for each in tables(option.get("options")):
        found += (
            [text(each.get("value"))]
            if "value" in each
            else [text(o.get("value")) for o in tables(each.get("options"))]
        )
    return [value for value in found if value]


def _shown_terminals(update: Record) -> list[Step]:
    """Terminals of the agent's own, told in `_meta` of its tool calls."""
    meta = table(update.get("_meta"))
    steps: list[Step] = []
    for name in ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit"):
        if isinstance(found := meta.get(name), dict):
            steps.append(Call("", "terminal_show", {"what": name, **found}))
    return steps


def acp_face(acp: Acp, *flags: str) -> DialogFace:
    """The face of an agent that speaks ACP when it is started with these flags."""

    class Spoken(AcpDialog):
        pass

    Spoken.acp = acp
    return DialogFace(launch=lambda turn, host: Launch(argv=(host.executable, *flags)), dialog=Spoken, protocol="acp")
