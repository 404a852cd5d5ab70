"""codex: OpenAI's Codex CLI. One turn is `codex exec --json … -` with the prompt on stdin."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

from ostler.agents import codex_log
from ostler.agents.adapter import (
    Agent,
    Conversation,
    Reader,
    Record,
    kind_of,
    refuse_tool_lists,
    title_of,
    with_attachments,
)
from ostler.errors import ErrorKind, OstlerError
from ostler.words import (
    Access,
    AnyEvent,
    Attachment,
    Denial,
    Exit,
    FileChange,
    Host,
    Launch,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Thought,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
)

PROMPT_LIMIT = 1_048_576  # characters; above, codex ends after `thread.started`
ARGUMENT_LIMIT = 100_000  # bytes; Linux takes 131,071 in one argument

SANDBOX: dict[Access, str] = {"read": "read-only", "write": "workspace-write", "full": "danger-full-access"}
WIDER: dict[Access, Access | None] = {"read": "write", "write": "full", "full": None}

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


# -- launch -----------------------------------------------------------------------------------------


def launch(turn: Turn, host: Host) -> Launch:
    refuse_tool_lists(turn)
    if turn.command:
        raise OstlerError("unsupported", "codex exec has no slash commands", "Send the prompt without --command")
    flags, files, prompt, notices = [*_confinement(turn)], {}, turn.prompt, []
    if turn.model:
        flags.append(f"--model={turn.model}")
    if turn.lean:
        flags.append("--config=features.plugins=false")
    if turn.system:
        if _system_by_flag(turn):
            flags.append("--config=developer_instructions=" + _toml(turn.system))
        elif turn.first:
            prompt = f"{turn.system}\n\n{prompt}"
            notices.append("the system prompt was put before the first prompt")
    if turn.schema is not None:
        path = f"{host.private}/schema.json"
        files[path] = json.dumps(turn.schema).encode()
        flags.append(f"--output-schema={path}")
    flags += [f"--image={a.path}" for a in turn.attachments if _native(a)]
    prompt = with_attachments(prompt, [a for a in turn.attachments if not _native(a)])
    if len(prompt) > PROMPT_LIMIT:
        raise OstlerError("bad_request", f"codex takes up to {PROMPT_LIMIT:,} characters, not {len(prompt):,}")
    env = {}
    if "RUST_LOG" not in turn.env:
        env["RUST_LOG"] = codex_log.FILTER
        flags.append('--config=shell_environment_policy.set.RUST_LOG=""')  # not for the commands it runs
    # `--sandbox` is refused after `resume`, so every flag stands before it.
    argv = (host.executable, "exec", "--json", "--skip-git-repo-check", *flags, *_conversation(turn), "-")
    return Launch(argv=argv, stdin=prompt.encode(), env=env, files=files, notices=tuple(notices))


def _confinement(turn: Turn) -> list[str]:
    """Flags that hold against the user's and the project's config.toml.

    Without `never`, a user's `approvals_reviewer` lets a model widen the sandbox; an `allow` rule in
    a `.rules` file runs its command outside of it.
    """
    flags = [f"--sandbox={SANDBOX[turn.access]}", '--config=approval_policy="never"']
    if turn.access != "full":
        flags.append("--ignore-rules")
    if turn.access == "write":
        flags.append("--config=sandbox_workspace_write.writable_roots=[]")
        flags.append("--config=sandbox_workspace_write.network_access=false")
    return flags


def _conversation(turn: Turn) -> list[str]:
    if not turn.resume:
        return []
    if not UUID.fullmatch(turn.agent_session or ""):
        # codex takes any other word as a name and silently begins a new conversation.
        raise OstlerError(
            "bad_request", f"{turn.agent_session!r} is not an id of a codex conversation", "Its ids are UUIDs"
        )
    return ["fork" if turn.fork else "resume", turn.agent_session or ""]


def _system_by_flag(turn: Turn) -> bool:
    """codex keeps the instructions of a conversation's first turn: an adopted one would ignore the flag."""
    adopted = turn.first and turn.resume
    return not adopted and len((turn.system or "").encode()) <= ARGUMENT_LIMIT


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _native(a: Attachment) -> bool:
    return a.image and a.content is None and "," not in a.path  # `--image` splits at commas


# -- reading ----------------------------------------------------------------------------------------


class CodexReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.cumulative = True
        self.last_error = ""
        self.plan: Plan | None = None
        self.log = codex_log.ToolLog()

    def read(self, record: Record) -> list[AnyEvent]:
        match record.get("type"):
            case "thread.started":
                self.agent_session = _text(record.get("thread_id")) or None
                return [self.started()]
            case "turn.started":
                return []
            case "item.started" | "item.updated" | "item.completed" as phase if isinstance(record.get("item"), dict):
                return self._item(record, phase, record["item"])
            case "error":
                return [self._error_record(_text(record.get("message")))]
            case "turn.completed":
                self.usage = _usage(record.get("usage"))
                self.succeed("turn.completed")
                return []
            case "turn.failed":
                self._failed(record.get("error"))
                return []
        return [Raw(record=record)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """A command or patch that the sandbox refused leaves no record on stdout."""
        refusal = self.log.read(line)
        if refusal is None:
            return []
        access = "full" if refusal.escalated else WIDER[self.turn.access]
        self._refuse(refusal.tool, refusal.target, refusal.reason, access)
        return [
            ToolStarted(id=refusal.id, name=refusal.tool, title=refusal.target[:200]),
            ToolEnded(id=refusal.id, ok=False, output=refusal.reason, denied=True),
        ]

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        if self.last_error and exit is not None and exit.signal is None:
            return Problem(kind=_kind(self.last_error), message=self.last_error)
        said = codex_log.without_log(stderr_tail)
        for pattern, kind, hint in ENDINGS:
            if found := re.search(f"^.*(?:{pattern}).*$", said, re.M):
                return Problem(kind=kind, message=found[0].strip()[:500], hint=hint)
        return super().no_result(exit, said)

    # -- items

    def _item(self, record: Record, phase: str, item: Record) -> list[AnyEvent]:
        text = _text(item.get("text"))
        match item.get("type"):
            case "agent_message":
                return [self.whole(text, _id(item))] if phase == "item.completed" else []
            case "reasoning":
                return [Thought(text=text, id=_id(item))] if phase == "item.completed" else []
            case "error":  # only ever a warning: unknown model, untrusted hooks
                return [Notice(text=_text(item.get("message")), code="warning")]
            case "todo_list":
                return self._todo(item)
        tool = _tool(item)
        if tool is None:
            return [Raw(record=record)]
        events: list[AnyEvent] = []
        if tool.id not in self.open_tools and phase != "item.updated":
            events.append(self.tool_started(tool))
        if phase == "item.completed":
            events += self._tool_completed(item, tool)
        return events

    def _tool_completed(self, item: Record, tool: ToolStarted) -> list[AnyEvent]:
        code = item.get("exit_code")
        declined = item.get("status") == "declined" or "requires approval" in _message(item.get("error"))
        ended = ToolEnded(
            id=tool.id,
            ok=item.get("status") == "completed" and code in (0, None),
            output=_output(item),
            files=tool.files,
            exit_code=code if isinstance(code, int) else None,
            denied=declined,
        )
        events: list[AnyEvent] = [self.tool_ended(ended)]
        if declined:
            self._refuse(tool.name, tool.title, ended.output, WIDER[self.turn.access])
        elif not ended.ok and ended.output.startswith("bwrap: "):
            self._refuse(tool.name, tool.title, "codex could not set up its sandbox", "full")
            events.append(Notice(text=f"codex cannot confine commands here: {ended.output}", code="no_sandbox"))
        elif item.get("type") == "mcp_tool_call" and ended.ok and self.turn.access != "full":
            events.append(Notice(text=f"{tool.name} ran unconfined, as every MCP server does", code="unconfined"))
        return events

    def _todo(self, item: Record) -> list[AnyEvent]:
        steps = [s for s in _list(item.get("items")) if isinstance(s, dict)]
        plan = Plan(
            steps=tuple(
                PlanStep(text=_text(s.get("text")), status="done" if s.get("completed") else "pending") for s in steps
            )
        )
        if plan == self.plan:
            return []
        self.plan = plan
        return [plan]

    # -- failures

    def _error_record(self, message: str) -> AnyEvent:
        """`Reconnecting... 2/5 (…)` is a retry; anything else is repeated by `turn.failed`."""
        if not message.startswith("Reconnecting"):
            self.last_error = _inner(message)
            return Notice(text=self.last_error, code="error", quiet=True)
        attempt = re.search(r"(\d+)/\d+", message)
        kind = _kind(message.partition("(")[2])
        return Limited(
            error=kind if kind in ("limited", "unauthenticated") else "overloaded",
            message=message,
            attempt=int(attempt[1]) if attempt else None,
        )

    def _failed(self, error: Any) -> None:
        message = _inner(_message(error)) or self.last_error
        kind = _kind(message)
        self.fail("turn.failed", kind, message, "Log in: codex login" if kind == "unauthenticated" else "")

    def _refuse(self, tool: str, target: str, reason: str, access: Access | None) -> None:
        self.denied.append(Denial(tool=tool, target=target, access=access, reason=reason))


ENDINGS: tuple[tuple[str, ErrorKind, str], ...] = (
    ("no rollout found|Session not found", "not_found", "Start a new session"),
    ("Input exceeds the maximum length", "bad_request", ""),
    ("Error loading config", "bad_request", "Mend ~/.codex/config.toml"),
    ("output schema", "bad_request", ""),
)


def _tool(item: Record) -> ToolStarted | None:
    """The tool call that an item is about, or None where it is no tool that we know."""
    id = _id(item)
    match item.get("type"):
        case "command_execution":
            input: Any = {"command": _text(item.get("command"))}
            return ToolStarted(id=id, name="command_execution", title=_unwrapped(input["command"]), input=input)
        case "file_change":
            files = _changes(item.get("changes"))
            return ToolStarted(id=id, name="file_change", title=", ".join(f.path for f in files)[:200], files=files)
        case "mcp_tool_call":
            name, input = f"{_text(item.get('server'))}.{_text(item.get('tool'))}", item.get("arguments")
        case "collab_tool_call":
            name, input = _text(item.get("tool")) or "agent", {"prompt": item.get("prompt")}
        case "web_search":
            name, input = "web_search", {"query": item.get("query")}
        case _:
            return None
    return ToolStarted(id=id, name=name, title=title_of(name, input), input=input)


CHANGES: dict[Any, Literal["add", "update", "delete"]] = {"add": "add", "delete": "delete"}


def _changes(changes: Any) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(path=_text(c.get("path")), change=CHANGES.get(c.get("kind"), "update"))
        for c in _list(changes)
        if isinstance(c, dict)
    )


def _unwrapped(command: str) -> str:
    """`/bin/bash -lc 'touch x'` as people would type it, its first line."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if len(words) == 3 and words[1] in ("-c", "-lc"):
        command = words[2]
    return title_of("", {"command": command})


def _output(item: Record) -> str:
    if item.get("type") == "command_execution":
        return _text(item.get("aggregated_output"))
    result = item.get("result")
    content = _list(result.get("content")) if isinstance(result, dict) else []
    parts = [_text(c.get("text")) for c in content if isinstance(c, dict)]
    return "\n".join(part for part in parts if part) or _message(item.get("error"))


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=_int(usage.get("input_tokens")),
        output_tokens=_int(usage.get("output_tokens")),
        cached_tokens=_int(usage.get("cached_input_tokens")),
        reasoning_tokens=_int(usage.get("reasoning_output_tokens")),
    )


def _kind(message: str) -> ErrorKind:
    kind = kind_of(None, message)
    if kind == "crashed" and re.search(r"disconnected|connection|network|timed? ?out", message, re.I):
        return "overloaded"
    return kind


def _inner(message: str) -> str:
    """The words inside a model server's JSON error body."""
    try:
        return _message(json.loads(message)["error"]) or message
    except (ValueError, TypeError, KeyError, RecursionError):
        return message


def _message(error: Any) -> str:
    return _text(error.get("message")) if isinstance(error, dict) else _text(error)


def _id(item: Record) -> str:
    return _text(item.get("id"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- description ------------------------------------------------------------------------------------


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A look at `rollout-*.jsonl`: the first record names it, the first user message is its title."""
    payloads = [(r.get("type"), r["payload"]) for r in records if isinstance(r.get("payload"), dict)]
    meta = next((p for kind, p in payloads if kind == "session_meta"), None)
    if meta is None or not UUID.fullmatch(_text(meta.get("id"))):
        return None
    return Conversation(id=meta["id"], folder=_text(meta.get("cwd")), title=_title([p for _, p in payloads]))


def _title(payloads: Sequence[Record]) -> str:
    """The first line that a person wrote: codex's own user messages begin with a tag or AGENTS.md."""
    for payload in payloads:
        if payload.get("type") == "message" and payload.get("role") == "user":
            for part in _list(payload.get("content")):
                text = _text(part.get("text")).strip() if isinstance(part, dict) else ""
                if text and not text.startswith(("<", "# AGENTS.md")):
                    return text.splitlines()[0][:200]
    return ""


AGENT = Agent(
    name="codex",
    title="Codex CLI",
    binaries=("codex",),
    install="npm install -g @openai/codex",
    launch=launch,
    reader=CodexReader,
    models=("gpt-*", "gpt5*", "o3*", "o4*", "*codex*"),
    needs=("--json", "--sandbox", "--skip-git-repo-check", "--ignore-rules", "--config"),
    help=(("exec", "--help"),),
    env=("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*"),
    drop=("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE"),
    keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
    login_files=(".codex/auth.json",),
    login_elsewhere=True,  # the keyring, or a provider of config.toml with its own variable
    prompt_limit=PROMPT_LIMIT,
    access={
        "read": "`--sandbox=read-only --ignore-rules`, approval `never`",
        "write": "`--sandbox=workspace-write --ignore-rules`, no further writable roots, no network, approval `never`",
        "full": "`--sandbox=danger-full-access`, approval `never`",
    },
    unconfined={
        "read": "MCP tools and hooks that the user's config.toml approves or trusts",
        "write": "`/tmp` and `$TMPDIR` are writable, `.git` is not; MCP tools and hooks as for read",
    },
    forks=True,
    schema="native",
    system="flag",
    images="native",
    conversations=(".codex/sessions/*/*/*/rollout-*.jsonl",),
    conversation=conversation,
)
