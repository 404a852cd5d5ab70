"""What claude and qwen share: flags, and records (messages of content blocks, deltas, one result)."""

import re
from typing import Any

from ostler.access import Access
from ostler.agents.failures import kind_of, limited_by
from ostler.agents.hooks import MARK
from ostler.agents.patches import diff_of, files_of
from ostler.agents.reader import Reader
from ostler.agents.tool_input import paths_in, title_of
from ostler.agents.values import UUID, Record, items, number, table, tables, text
from ostler.errors import ErrorKind, OstlerError, quoted
from ostler.model import (
    AnyEvent,
    Denial,
    Exit,
    FileChange,
    Hook,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    StepStatus,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
)
from ostler.model import Text as TextEvent

# Progress that says nothing a person or a program would miss.
SILENT = frozenset(
    (
        *("status", "thinking_tokens", "permission_denied", "session_state_changed", "files_persisted"),
        *("task_started", "task_progress", "task_updated", "task_notification"),
    )
)
STATUS: dict[Any, StepStatus] = {"in_progress": "active", "completed": "done"}
EXIT_CODE = re.compile(r"^Exit code:? (-?\d{1,10})\b", re.I | re.M)
PHRASES: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = (
    ("not_found", re.compile(r"no (conversation|saved session)s? found|does not match any session", re.I)),
    ("exists", re.compile(r"session id \S+ (is already in use|already exists)", re.I)),
    ("missing", re.compile(r"sandbox required but unavailable", re.I)),
    ("unauthenticated", re.compile(r"not logged in|no auth type is selected", re.I)),
    ("bad_request", re.compile(r"invalid session id|too (long|large)|exceeds", re.I)),
)


# -- for launches -----------------------------------------------------------------------------------


def conversation_flags(turn: Turn) -> list[str]:
    """The flags that begin, resume or fork a conversation. Raises bad_request for an invalid id."""
    if turn.agent_session is None:
        return []
    if not UUID.fullmatch(turn.agent_session):  # --resume takes titles too: some other conversation
        wrong = f"{quoted(turn.agent_session)} is not an id of a {turn.agent} conversation"
        raise OstlerError("bad_request", wrong, "Its ids are UUIDs")
    if not turn.resume:
        return [f"--session-id={turn.agent_session}"]
    return [f"--resume={turn.agent_session}", *(["--fork-session"] if turn.fork else [])]


def attachment_rules(turn: Turn) -> list[str]:
    """Rules that let attached files be read: `?` for what a rule or a list of rules would read otherwise."""
    patterns = (re.sub(r"[^\w./+=~@-]", "?", a.path) for a in turn.attachments if a.content is None)
    return [f"Read(/{pattern})" for pattern in patterns]


# -- reading ----------------------------------------------------------------------------------------


def kind_said(status: Any, said: str) -> ErrorKind:
    """The kind of an error by the model server's status, else by the words of the CLI."""
    code = number(status)
    if code is None and (kind := next((kind for kind, phrase in PHRASES if phrase.search(said)), None)):
        return kind
    return kind_of(code, said)


class MessagesReader(Reader):
    """Reads what both CLIs print alike; a subclass names the tools and the differences."""

    EDITS: frozenset[str] = frozenset()
    PLANS: frozenset[str] = frozenset()
    STRUCTURED = ""  # the tool by which the schema's object comes
    ERROR_MARK = "\0"  # how an answer begins that is an error of the API
    MISSING = re.compile(r"\0")  # what the model is told of a tool that was taken away
    LOGIN = ""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.said: list[str] = []  # deltas whose whole text is still owed
        self.thought: list[str] = []
        self.message = ""
        self.spoke = False
        self.refusals: dict[str, Denial] = {}  # by tool call
        self.declined: dict[str, str] = {}  # tool call → why somebody said no; "": the turn was cancelled meanwhile

    def read(self, record: Record) -> list[AnyEvent]:
        kind = record.get("type")
        if kind == "stream_event":
            return self._partial(record)
        if kind == "assistant":
            return self._assistant(record)
        if kind == "user":
            return self._user(record)
        if kind == "system":
            return self._system(record)
        if kind == "result":
            return self._result(record)
        return [Raw(record=record)]

    def flush(self) -> list[AnyEvent]:
        return [*self._owed(), *super().flush()]

    # -- text as it comes

    def _partial(self, record: Record) -> list[AnyEvent]:
        event = record.get("event")
        if type(event) is not dict:
            return [Raw(record=record)]
        if record.get("parent_tool_use_id"):
            return []  # a subagent's words are not the answer
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = event.get("delta")
            return self._delta(delta) if type(delta) is dict else [Raw(record=record)]
        if kind == "message_start":
            owed = self._owed()  # an attempt that was cut: its words were shown
            self.message = text(table(event.get("message")).get("id"))
            return owed
        return []

    def _delta(self, delta: dict[str, Any]) -> list[AnyEvent]:
        kind = delta.get("type")
        if kind == "text_delta":
            piece = delta.get("text")
            if type(piece) is not str or not piece or piece.startswith(self.ERROR_MARK):
                return []
            self.said.append(piece)
            return [TextDelta(text=piece, id=self.message)]
        if kind == "thinking_delta":
            piece = delta.get("thinking")
            if type(piece) is not str or not piece:
                return []
            self.thought.append(piece)
            return [ThoughtDelta(text=piece, id=self.message)]
        return []

    def _owed(self) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        if self.thought:
            events.append(Thought(text="".join(self.thought), id=self.message))
        if self.said:
            self.spoke = True
            events.append(self.whole("".join(self.said), self.message))
        self.thought, self.said = [], []
        return events

    # -- whole messages

    def _assistant(self, record: Record) -> list[AnyEvent]:
        message = table(record.get("message"))
        content = message.get("content")
        blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        parent = text(record.get("parent_tool_use_id"))
        id = text(message.get("id"))
        if message.get("model") == "<synthetic>" or record.get("is_api_error_message"):
            return [*self._owed(), *(Notice(text=said, code="agent") for b in blocks if (said := _text_of(b)))]
        events: list[AnyEvent] = []
        for block in blocks:
            events += self._block(block, id, parent) if isinstance(block, dict) else [Raw(record=block)]
        return events

    def _block(self, block: dict[str, Any], id: str, parent: str) -> list[AnyEvent]:
        kind = block.get("type")
        if kind == "text":
            return self._text(text(block.get("text")), id, parent)
        if kind == "thinking":
            self.thought = []
            said = text(block.get("thinking"))
            return [Thought(text=said, id=id, quiet=bool(parent))] if said else []
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            return self._tool_use(block, parent)
        return [] if kind == "redacted_thinking" else [Raw(record=block)]

    def _text(self, said: str, id: str, parent: str) -> list[AnyEvent]:
        if parent:
            return [TextEvent(text=said, id=id, quiet=True)] if said else []
        self.said = []
        if said.startswith(self.ERROR_MARK):
            return [Notice(text=said, code="agent")]
        if not said:
            return []
        self.spoke = True
        return [self.whole(said, id)]

    # -- tools

    def _tool_use(self, block: dict[str, Any], parent: str) -> list[AnyEvent]:
        id, name, input = text(block.get("id")), text(block.get("name")), block.get("input")
        path = next(iter(paths_in(input)), "") if name in self.EDITS else ""
        started = ToolStarted(
            id=id,
            name=name,
            title=title_of(name, input),
            input=input,
            files=(FileChange(path=path),) if path else (),
            parent=parent,
            quiet=name == self.STRUCTURED,
        )
        plan = self._plan(input) if name in self.PLANS else []
        return [self.tool_started(started), *plan]

    def _plan(self, input: Any) -> list[AnyEvent]:
        steps = tuple(
            PlanStep(text=text(todo.get("content")), status=STATUS.get(text(todo.get("status")), "pending"))
            for todo in tables(table(input).get("todos"))
        )
        return [Plan(steps=steps)]

    def _user(self, record: Record) -> list[AnyEvent]:
        """Tool results; what is said to the model besides (nudges, a subagent's prompt) is not shown."""
        detail = table(record.get("tool_use_result"))
        metas = tables(record.get("tool_result_meta"))
        decisions = {text(meta.get("id")): table(meta.get("permission_decision")) for meta in metas}
        blocks = tables(table(record.get("message")).get("content"))
        results = [b for b in blocks if b.get("type") == "tool_result"]
        detail = detail if len(results) == 1 else {}
        events: list[AnyEvent] = []
        for block in results:
            id = text(block.get("tool_use_id"))
            started = self.open_tools.get(id)
            ended = self._tool_result(block, detail, decisions.get(id, {}))
            events += [ended, *(self._after(started, detail, ended.output) if started and ended.ok else [])]
        return events

    def _after(self, started: ToolStarted, detail: dict[str, Any], output: str) -> list[AnyEvent]:
        """What follows from a tool that did its work."""
        return []

    def _tool_result(self, block: dict[str, Any], detail: dict[str, Any], decision: dict[str, Any]) -> ToolEnded:
        id, output, failed = text(block.get("tool_use_id")), _output(block.get("content")), bool(block.get("is_error"))
        started = self.open_tools.get(id)
        if started and decision.get("decision") == "reject":
            remedy = None if decision.get("source") == "hook" else self.remedy(started.name)
            self.refuse(id, started.name, started.input, output, remedy)
        elif started and failed and self.MISSING.search(output) and (remedy := self.remedy(started.name)):
            self.refuse(id, started.name, started.input, output, remedy)  # else a tool that never was
        denied = id in self.refusals
        code = EXIT_CODE.search(output)
        files = () if failed else files_of(detail) or (started.files if started else ())
        return self.tool_ended(
            ToolEnded(
                id=id,
                ok=not failed and not denied,
                output=output,
                diff="" if failed else diff_of(detail, self.turn.folder),
                files=files,
                exit_code=int(code[1]) if code else None,
                denied=denied,
                quiet=bool(started and started.quiet),
            )
        )

    # -- refusals

    def remedy(self, name: str) -> Access | None:
        """The access that would allow a tool that was refused; None where no access does."""
        return None

    def refuse(self, id: str, name: str, input: Any, reason: str, remedy: Access | None) -> None:
        """Keeps a refusal. What a person or a rule said no to, no other access would have allowed."""
        if id in self.declined:
            reason, remedy = self.declined[id], None
        if id not in self.refusals and self.declined.get(id) != "":
            denial = Denial(tool=name, target=title_of(name, input), access=remedy, reason=_line(reason))
            self.refusals[id] = denial
            self.denied.append(denial)

    # -- what the CLI says of itself

    def _system(self, record: Record) -> list[AnyEvent]:
        kind = text(record.get("subtype"))
        if kind == "init":
            return self._init(record)
        if kind in ("api_retry", "retry"):
            return [_retry({**record, **table(record.get("data"))})]
        if kind == "permission_denied":
            id, name = text(record.get("tool_use_id")), text(record.get("tool_name"))
            started = self.open_tools.get(id)
            self.refuse(id, name, started and started.input, text(record.get("message")), self.remedy(name))
        if kind in SILENT:
            return []
        if kind.startswith("hook_") and self._is_our_hook(kind, record):
            return []
        if kind.startswith("hook_"):
            return [Hook(name=text(record.get("hook_event")) or kind, payload=record, quiet=True)]
        if said := text(record.get("content")):
            return [Notice(text=said, code=text(record.get("tag")) or kind)]
        return [Raw(record=record)]

    def _is_our_hook(self, kind: str, record: Record) -> bool:
        """Ours have told of themselves. That one begins does not say whose it is; its answer does."""
        return bool(self.turn.hooks) and (kind == "hook_started" or text(record.get("stderr")).strip() == MARK)

    def _init(self, record: Record) -> list[AnyEvent]:
        if self.agent_session is not None:
            return []
        self.agent_session = text(record.get("session_id")) or None
        self.model = text(record.get("model")) or None
        return [self.started()]

    # -- the end

    def _result(self, record: Record) -> list[AnyEvent]:
        raise NotImplementedError

    def _denials(self, record: Record) -> None:
        for denial in tables(record.get("permission_denials")):
            id, name = text(denial.get("tool_use_id")), text(denial.get("tool_name"))
            self.refuse(id, name, denial.get("tool_input"), "", self.remedy(name))

    def _answer(self, said: str) -> list[AnyEvent]:
        """The final text of a good result: an event of its own where nothing was said before."""
        if said and not self.spoke:
            return [self.whole(said)]
        self.text = said or self.text
        return []

    def hint(self, kind: ErrorKind) -> str:
        return self.LOGIN if kind == "unauthenticated" else ""

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        problem = super().no_result(exit, stderr_tail)
        if exit is None or exit.code in (0, None):
            return problem
        kind = kind_said(None, stderr_tail)
        return Problem(kind=kind, message=problem.message, hint=self.hint(kind))


def _retry(record: Record) -> Limited:
    status = number(record.get("error_status"))
    said = text(record.get("error")) or text(record.get("message")) or "the model's server asks to wait"
    delay = number(record.get("retry_delay_ms") or record.get("delayMs"))
    kind = "limited" if status is None and not record.get("error") else kind_of(status, said)
    return Limited(
        error=limited_by(kind),
        message=f"{said} ({status})" if status else said,
        attempt=number(record.get("attempt")),
        retry_in=delay / 1000 if delay is not None else None,
    )


def _text_of(block: Any) -> str:
    return text(block.get("text")) if isinstance(block, dict) else text(block)


def _output(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(_text_of(b) or f"[{text(table(b).get('type')) or 'content'}]" for b in items(content))


def _line(said: str) -> str:
    """The reason itself, without the advice to the model that follows it."""
    return re.sub(r"</?\w+>", "", said).strip().partition("\n")[0].partition(" IMPORTANT:")[0][:300]
