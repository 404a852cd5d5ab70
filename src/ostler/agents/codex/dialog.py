"""codex with its stdin open: `codex app-server`, one thread in one process.

JSON-RPC without the "jsonrpc" member; ids of the server's requests begin at 0 and are apart from ours.
"""

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from ostler.access import Access
from ostler.agents.codex.access import confinement, escalates, profile_name, wider, writable
from ostler.agents.codex.items import AppServerReader, changed, diff_of, payloads
from ostler.agents.codex.launch import PROMPT_LIMIT, native_image
from ostler.agents.codex.mcp import ANSWERS, asks_for_call, call_of, server_of
from ostler.agents.codex.reader import BROKEN, CHANGES, ENDINGS, kind_of_message, script_of
from ostler.agents.dialog import AnswerKind, Ask, Dialog, Emit, Fail, Over, Ready, Step, Withdrawn, Write
from ostler.agents.launches import with_attachments
from ostler.agents.offers import offers
from ostler.agents.values import Record, table, tables, text
from ostler.errors import INTERNAL_ERROR, OstlerError, quoted
from ostler.model import (
    AnyEvent,
    Asked,
    AskOption,
    Denial,
    Exit,
    FileChange,
    Host,
    Notice,
    Offer,
    Offered,
    Problem,
    Turn,
    Verdict,
)

COMMAND, PATCH = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
DECISIONS: dict[AnswerKind, str] = {
    "allow_once": "accept",
    "allow_always": "acceptForSession",  # never `acceptWithExecpolicyAmendment`: it writes the user's rules
    "reject_once": "decline",
    "reject_always": "decline",
    "cancelled": "cancel",
}
OPTIONS = (
    AskOption(id="allow_once", name="Allow", kind="allow_once"),
    AskOption(id="allow_always", name="Allow for this session", kind="allow_always"),
    AskOption(id="reject_once", name="Deny", kind="reject_once"),
)
TRIES = 5  # to find a call in codex's history, which is written beside the asking
OUTSIDE = "it asked to leave the sandbox"
UNCHECKED = "ostler could not tell whether it stays in the sandbox"


class OpenRequest(Struct, kw_only=True):
    """A request of codex that waits for its answer."""

    id: Any
    method: str
    params: Record
    tries: int = 0


class CodexDialog(Dialog):
    """One thread of `codex app-server`."""

    steers = True

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self._numbers = itertools.count(1)
        self._sent: dict[int, tuple[str, str]] = {}  # our request → its method, and the ask that it is about
        self._open: dict[str, OpenRequest] = {}  # ask → codex's request, also while it is looked into
        self._patches: dict[str, Record] = {}  # item → the patch that it proposes
        self._histories: dict[str, str] = {}  # thread → the file of its history
        self._profile = profile_name(turn)
        self._thread = ""
        self._turn = ""  # the one that runs, once codex has named it
        self._starting = False
        self._stopping = False
        self._deferred_steers: list[str] = []  # words for a turn that has no name yet
        self._model = turn.model
        self._models: tuple[Offer, ...] = ()
        self._notices: list[AnyEvent] = []  # what was told before the first turn

    # -- what people want

    def open(self) -> list[Step]:
        about = {"name": "ostler", "title": "ostler", "version": "1"}
        return [self._request("initialize", {"clientInfo": about, "capabilities": {"experimentalApi": True}})]

    def prompt(self, turn: Turn) -> list[Step]:
        params: Record = {"threadId": self._thread, "input": input_of(turn)}
        if turn.model and turn.model != self._model:
            self._model = turn.model
            params["model"] = turn.model  # sticky: it holds for the turns that follow
        if turn.schema is not None:
            params["outputSchema"] = turn.schema
        self.reader = AppServerReader(turn)
        self.reader.agent_session, self.reader.model = self._thread, self._model
        self._turn, self._starting, self._stopping, self._deferred_steers = "", True, False, []
        notices, self._notices = self._notices, []
        return [Emit([self.reader.started(), *notices]), *self.offers(), self._request("turn/start", params)]

    def interrupt(self) -> list[Step]:
        """Its answer is never waited for: codex gives none where the turn is over."""
        if not self._turn:
            self._stopping = self._starting
            return []
        return [self._request("turn/interrupt", {"threadId": self._thread, "turnId": self._turn})]

    def steer(self, text: str) -> list[Step]:
        if self._starting:
            self._deferred_steers.append(text)
            return []
        if not self._turn:
            raise OstlerError("not_found", "no turn is running that could be steered", "Send it as the next prompt")
        params = {"threadId": self._thread, "expectedTurnId": self._turn, "input": [{"type": "text", "text": text}]}
        return [self._request("turn/steer", params)]

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        """The next `turn/start` carries the model."""
        return super().change(mode=mode) if mode is not None else []

    def offered(self) -> Offered:
        return Offered(quiet=True, models=self._models, model=self._model or "")

    def usual_model(self) -> list[Step]:
        """The thread keeps the last one, also in another process: there is no way back."""
        return []

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        request = self._open.pop(ask, None)
        if request is None:
            raise OstlerError("not_found", f"the ask {quoted(ask)} is not open")
        item = text(request.params.get("itemId"))
        if not kind.startswith("allow") and isinstance(self.reader, AppServerReader):
            why = "" if kind == "cancelled" else message or "declined"  # "": the turn ends, nobody refused it
            self.reader.refused.setdefault(item, (why, None))
        command_or_patch = request.method in (COMMAND, PATCH)
        result = {"decision": DECISIONS[kind]} if command_or_patch else ANSWERS[kind]
        return [Write({"id": request.id, "result": result})]

    def verdict(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        verdict = super().verdict(exit, stderr_tail)
        if exit is None or verdict.error is None or verdict.error.kind != "unproven":
            return verdict
        problem = Problem(kind="crashed", message="codex ended in the middle of the turn")
        return structs.replace(verdict, outcome="crashed", error=problem)

    # -- what the process says

    def read(self, record: Record) -> list[Step]:
        method, params = record.get("method"), table(record.get("params"))
        if not isinstance(method, str):
            return self._response(record)
        if "id" in record:
            return self._asked_of_us(record["id"], method, params)
        return self._notified(record, method, params)

    def unread(self, record: Record) -> list[Step]:
        if not isinstance(record.get("method"), str) or "id" not in record:
            return []
        self._open = {ask: each for ask, each in self._open.items() if each.id != record["id"]}
        error = {"code": -32603, "message": INTERNAL_ERROR}
        return [Write({"id": record["id"], "error": error})]

    def _notified(self, record: Record, method: str, params: Record) -> list[Step]:
        item = table(params.get("item"))
        if item.get("type") == "fileChange":
            self._patches[text(item.get("id"))] = item
        if method == "thread/started":
            thread = table(params.get("thread"))
            self._histories[text(thread.get("id"))] = text(thread.get("path"))
        if method == "serverRequest/resolved":
            return self._resolved(params.get("requestId"))
        if method == "configWarning" or (method == "warning" and not self._turn):
            self._notices += AppServerReader(self.first).read(record)
            return []
        turn = text(params.get("turnId")) or text(table(params.get("turn")).get("id"))
        if params.get("threadId") != self._thread or not isinstance(self.reader, AppServerReader):
            return []  # of a subagent, or of codex itself
        if method == "turn/started" and self._starting:
            return self._named(turn)
        if turn and turn != self._turn:
            return []  # late words of a turn that is over
        if method == "turn/completed":
            return self._completed(self.reader, table(params.get("turn")))
        events = self.reader.read(record)
        return [Emit(events)] if events else []

    def _response(self, record: Record) -> list[Step]:
        id = record.get("id")
        method, ask = self._sent.pop(id, ("", "")) if isinstance(id, int) and id is not True else ("", "")
        result, error = table(record.get("result")), table(record.get("error"))
        match method:
            case "initialize" | "thread/start" | "thread/resume" | "thread/fork" if error:
                return [Fail(not_opened(error, self._notices))]
            case "initialize":
                return self._begin()
            case "thread/start" | "thread/resume" | "thread/fork":
                return self._begun(result)
            case "turn/start":
                return self._not_started(error) if error else self._named(text(table(result.get("turn")).get("id")))
            case "turn/steer" if error:
                return [
                    Emit([Notice(code="refused", text=f"codex could not be steered: {text(error.get('message'))}")])
                ]
            case "model/list":
                self._models = offers(
                    [m for m in tables(result.get("data")) if not m.get("hidden")], "model", "displayName"
                )
                return self.offers() if self._turn or self._starting else []
            case "command/exec":
                if broken := BROKEN.search(text(result.get("stderr"))):
                    return self._unsandboxed(ask, broken[1])
                return self._found(ask, text(result.get("stdout")))
        return []

    # -- opening

    def _begin(self) -> list[Step]:
        turn = self.first
        ready = Write({"method": "initialized"})
        params: Record = {**confinement(turn, self._profile), "model": turn.model}
        if turn.mcp:
            params["config"] = {**table(params.get("config")), "mcp_servers": {s.name: server_of(s) for s in turn.mcp}}
        if turn.system and turn.system_mode == "replace":
            params["baseInstructions"] = turn.system
        if not turn.resume:
            # No `cwd`, the process is there already: for one that is named, codex notes in the user's config.toml
            # that the folder is trusted, and from then on runs what the folder's own config says.
            added = turn.system if turn.system_mode == "append" else None
            return [ready, self._request("thread/start", {**params, "developerInstructions": added})]
        params |= {"threadId": turn.agent_session, "cwd": turn.folder, "excludeTurns": True}
        return [ready, self._request("thread/fork" if turn.fork else "thread/resume", params)]

    def _begun(self, result: Record) -> list[Step]:
        if how := wider(self.first, self._profile, result):
            message = f"codex does not keep to --access {self.first.access} in a dialog: {how}"
            hint = "Run it without --dialog, or check config.toml and requirements.toml of codex"
            return [Fail(Problem(kind="denied", message=message, hint=hint))]
        thread = table(result.get("thread"))
        self._thread = text(thread.get("id"))
        self._histories[self._thread] = text(thread.get("path"))
        self._model = text(result.get("model")) or self._model
        return [Ready(agent_session=self._thread, model=self._model), self._request("model/list", {})]

    # -- a turn

    def _named(self, turn: str) -> list[Step]:
        """codex has named the turn: what people wanted of it meanwhile can be said."""
        if not self._starting:
            return []
        self._turn, self._starting = turn, False
        deferred, self._deferred_steers = self._deferred_steers, []
        steps = [step for words in deferred for step in self.steer(words)]
        return [*steps, *(self.interrupt() if self._stopping else [])]

    def _not_started(self, error: Record) -> list[Step]:
        said = text(error.get("message")) or "refused"
        self._starting = False
        if self.reader is not None:
            self.reader.fail("turn/start", kind_of_message(said), said)
        return [Over()]

    def _completed(self, reader: AppServerReader, turn: Record) -> list[Step]:
        events = reader.ended(turn)
        steps: list[Step] = [Emit(events)] if events else []
        steps += [Withdrawn(ask) for ask in self._open]
        self._open.clear()
        self._patches.clear()
        id, self._turn = self._turn, ""
        if turn.get("status") == "interrupted":
            # The command that ran lives on: codex takes it for a terminal in the background.
            steps.append(self._request("thread/backgroundTerminals/clean", {"threadId": self._thread}))
        elif self.first.access != "full" and reader.requests > 1 and self._histories.get(self._thread):
            # Some call was made, and one that the sandbox refused at once is told nowhere else.
            calls = r'"type":"(function_call|custom_tool_call)(_output)?".*"turn_id":' + json.dumps(id)
            return [*steps, self._search(self._thread, "-E", calls)]
        return [*steps, Over()]

    # -- asks

    def _asked_of_us(self, id: Any, method: str, params: Record) -> list[Step]:
        # Tools of MCP servers are confined by nothing: short of full access, codex hears a no.
        of_server = self.first.access == "full" and asks_for_call(method, params)
        if method not in (COMMAND, PATCH) and not of_server:
            return [Write({"id": id, "error": {"code": -32601, "message": f"{method} is not served here"}})]
        ask = f"ask:{next(self._numbers)}"
        if of_server and self.reader is not None:
            params = {**params, "itemId": call_of(params, self.reader).id}
        self._open[ask] = OpenRequest(id=id, method=method, params=params)
        if self.reader is None or not self._turn:
            return self.answer(ask, "reject_once")
        if self.first.access == "full":
            return [self._ask(ask)]
        if reason := self._beyond(method, params):
            return self._refuse(ask, reason)
        if method == PATCH or params.get("kind") == "writeStdin":
            return [self._ask(ask)]
        return [self._look_into(ask)]

    def _beyond(self, method: str, params: Record) -> str:
        """Why a request would leave the access, as far as it says so itself."""
        if self.first.access == "read":
            return "it asked to leave --access read"
        if any(params.get(name) for name in ("additionalPermissions", "networkApprovalContext", "grantRoot")):
            return "it asked for more than the sandbox allows"
        if method == PATCH:
            paths = [path for path, _ in changed(self._patches.get(text(params.get("itemId")), {}))]
            outside = [path for path in paths if not writable(path, self.first.folder)]
            return UNCHECKED if not paths else f"{outside[0]} cannot be written" if outside else ""
        return ""

    def _look_into(self, ask: str) -> Step:
        """A command that wants to run without the sandbox looks like any other: the model's call tells them apart."""
        params = self._open[ask].params
        call = '"call_id":' + json.dumps(text(params.get("itemId")), ensure_ascii=False)
        return self._search(text(params.get("threadId")), "-F", call, ask)

    def _search(self, thread: str, how: str, pattern: str, ask: str = "") -> Step:
        command = ["grep", "-a", how, "-e", pattern, "--", self._histories.get(thread) or "/dev/null"]
        params = {"command": command, "cwd": "/", "permissionProfile": ":read-only", "timeoutMs": 10_000}
        return self._request("command/exec", {**params, "disableOutputCap": True}, ask)

    def _found(self, ask: str, lines: str) -> list[Step]:
        if not ask:
            events = self.reader.missed(lines) if isinstance(self.reader, AppServerReader) else []
            return [Emit(events), Over()] if events else [Over()]
        request = self._open.get(ask)
        if request is None:
            return []
        calls = [text(p.get("arguments")) for p in payloads(lines) if p.get("type") == "function_call"]
        if calls:
            return self._refuse(ask, OUTSIDE) if any(map(escalates, calls)) else [self._ask(ask)]
        request.tries += 1
        return [self._look_into(ask)] if request.tries < TRIES else self._refuse(ask, UNCHECKED)

    def _unsandboxed(self, ask: str, why: str) -> list[Step]:
        """codex's sandbox does not start: nothing can be looked into, and no command would run. No access helps."""
        if not isinstance(self.reader, AppServerReader):
            return []
        events = self.reader.no_sandbox(why)
        steps: list[Step] = [Emit(events)] if events else []
        if not ask:
            return [*steps, Over()]
        if ask not in self._open:
            return steps
        self.reader.unsandboxed[text(self._open[ask].params.get("itemId"))] = why
        return [*steps, *self.answer(ask, "reject_once")]

    def _refuse(self, ask: str, reason: str) -> list[Step]:
        """Answers for the person: a yes would widen the access."""
        asked, params = self._asked(ask), self._open[ask].params
        access: Access = "full" if self.first.access == "write" else "write"
        assert isinstance(self.reader, AppServerReader)
        self.reader.refused[text(params.get("itemId"))] = (reason, access)
        if params.get("threadId") != self._thread:  # of a subagent: its items are not told
            self.reader.denied.append(Denial(tool=asked.tool, target=asked.title, access=access, reason=reason))
        notice = Notice(code="denied", text=f"{asked.title}: {reason}")
        return [Emit([notice]), *self.answer(ask, "reject_once")]

    def _ask(self, ask: str) -> Step:
        return Ask(self._asked(ask))

    def _asked(self, ask: str) -> Asked:
        method, params = self._open[ask].method, self._open[ask].params
        reason = text(params.get("reason"))
        if method == COMMAND:
            script = script_of(text(params.get("command")))
            title = script.strip().partition("\n")[0][:200]
            input = {"command": script, "cwd": text(params.get("cwd"))}
            return Asked(id=ask, tool="command_execution", title=title, input=input, options=OPTIONS, reason=reason)
        if method != PATCH:
            assert self.reader is not None
            call = call_of(params, self.reader)
            title = call.title or text(params.get("message"))
            return Asked(id=ask, tool=call.name, category="mcp", title=title, input=call.input, options=OPTIONS)
        patch = self._patches.get(text(params.get("itemId")), {})
        files = tuple(FileChange(path=path, change=CHANGES.get(kind, "update")) for path, kind in changed(patch))
        return Asked(
            id=ask,
            tool="file_change",
            title=", ".join(file.path for file in files)[:200],
            diff=diff_of(patch, self.first.folder),
            files=files,
            options=OPTIONS,
            reason=reason,
        )

    def _resolved(self, id: Any) -> list[Step]:
        for ask, request in self._open.items():
            if request.id == id and type(request.id) is type(id):
                del self._open[ask]
                return [Withdrawn(ask)]
        return []

    # -- records

    def _request(self, method: str, params: Record, ask: str = "") -> Write:
        id = next(self._numbers)
        self._sent[id] = method, ask
        return Write({"id": id, "method": method, "params": params})


def input_of(turn: Turn) -> list[Record]:
    """The prompt and its images. Raises bad_request for one that codex would not take."""
    # codex keeps the instructions with which a conversation began, but for those that stand for its own.
    before = turn.system and turn.first and turn.resume and turn.system_mode == "append"
    prompt = f"{turn.system}\n\n{turn.prompt}" if before else turn.prompt
    prompt = with_attachments(prompt, [a for a in turn.attachments if not native_image(a)])
    if len(prompt) > PROMPT_LIMIT:
        raise OstlerError(
            "bad_request", f"the prompt has {len(prompt):,} characters; codex accepts at most {PROMPT_LIMIT:,}"
        )
    images = [{"type": "localImage", "path": a.path} for a in turn.attachments if native_image(a)]
    return [{"type": "text", "text": prompt}, *images]


def not_opened(error: Record, warnings: Sequence[AnyEvent] = ()) -> Problem:
    """Why there is no thread; what codex itself warned of before goes with it."""
    said = text(error.get("message")) or "refused"
    warned = " ".join(w.text for w in warnings if isinstance(w, Notice))
    for pattern, kind, hint in ENDINGS:
        if re.search(pattern, said):
            return Problem(kind=kind, message=f"codex: {said}", hint=f"{warned} {hint}".strip())
    return Problem(kind="unsupported", message=f"codex could not open a dialog: {said}", hint=warned or "Update codex")
