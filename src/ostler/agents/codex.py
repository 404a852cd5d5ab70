"""codex: OpenAI's Codex CLI. One turn is `codex exec --json … -` with the prompt on stdin."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

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
from ostler.agents.dialog import Dialog, DialogFace
from ostler.agents.values import UUID, number, table, tables, text
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
    McpServer,
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
CHANGES: dict[str, Literal["add", "delete"]] = {"add": "add", "delete": "delete"}

READ_ONLY = "Read-only file system"
NO_SANDBOX = "codex could not set up its sandbox"
SYSTEM_FIRST = "the system prompt was put before the first prompt"


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
            notices.append(SYSTEM_FIRST)
    if turn.schema is not None:
        path = f"{host.private}/schema.json"
        files[path] = json.dumps(turn.schema).encode()
        flags.append(f"--output-schema={path}")
    flags += [_server(server) for server in turn.mcp]
    flags += [f"--image={a.path}" for a in turn.attachments if native_image(a)]
    prompt = with_attachments(prompt, [a for a in turn.attachments if not native_image(a)])
    if len(prompt) > PROMPT_LIMIT:
        raise OstlerError("bad_request", f"codex takes up to {PROMPT_LIMIT:,} characters, not {len(prompt):,}")
    env = {}
    if "RUST_LOG" not in turn.env:
        env["RUST_LOG"] = LOG_FILTER
        flags.append('--config=shell_environment_policy.set.RUST_LOG=""')  # not for the commands it runs
    # `--sandbox` is refused after `resume`, so every flag stands before it.
    argv = (host.executable, "exec", "--json", "--skip-git-repo-check", *flags, *_conversation(turn), "-")
    return Launch(argv=argv, stdin=prompt.encode(), env=env, files=files, notices=tuple(notices))


def dialog_launch(turn: Turn, host: Host) -> Launch:
    """`codex app-server`: access, model and system prompt are said over its stdin."""
    refuse_tool_lists(turn)
    if turn.command:
        raise OstlerError("unsupported", "codex app-server has no slash commands", "Send the prompt without --command")
    _conversation(turn)
    flags = ("--config=features.plugins=false",) if turn.lean else ()
    notices = (SYSTEM_FIRST,) if turn.system and turn.first and turn.resume else ()
    return Launch(argv=(host.executable, "app-server", *flags), notices=notices)


def dialog(turn: Turn, host: Host) -> Dialog:
    from ostler.agents.codex_dialog import CodexDialog  # which builds on this module

    return CodexDialog(turn, host)


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


def _server(server: McpServer) -> str:
    if server.env:
        # An argument can be read by everyone on the machine.
        what = f"codex gets no variables for an MCP server in a turn of its own: {server.name}"
        raise OstlerError("unsupported", what, "Use --dialog")
    args = ",".join(map(_toml, server.args))
    return f"--config=mcp_servers.{server.name}={{command={_toml(server.command)},args=[{args}]}}"


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def native_image(a: Attachment) -> bool:
    return a.image and a.content is None and "," not in a.path  # `--image` splits at commas


# -- reading ----------------------------------------------------------------------------------------


class CodexReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.cumulative = True
        self.last_error = ""
        self.plan: Plan | None = None
        self.logged = ""  # the record of the log that is being read
        self.refused_calls: set[str] = set()

    def read(self, record: Record) -> list[AnyEvent]:
        match record.get("type"):
            case "thread.started":
                self.agent_session = text(record.get("thread_id")) or None
                return [self.started()]
            case "turn.started":
                return []
            case "item.started" | "item.updated" | "item.completed" as phase if isinstance(record.get("item"), dict):
                return self._item(record, phase, record["item"])
            case "error":
                return [self._error_record(text(record.get("message")))]
            case "turn.completed":
                self.usage = usage_of(table(record.get("usage")))
                self.succeed("turn.completed")
                return []
            case "turn.failed":
                self._failed(record.get("error"))
                return []
        return [Raw(record=record)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """A command or patch that the sandbox refused stands in codex's log alone; a patch runs over several lines."""
        if found := OUTCOME.search(line):
            self.refused_calls.add(found[1])
            return []
        if re.match(STAMP, line):
            self.logged = line
        elif self.logged and len(self.logged) < 1 << 20:
            self.logged += "\n" + line
        if " output=" not in line or not (found := RESULT.search(self.logged)):
            return []
        self.logged = ""
        return self._logged_call(*found.groups())

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        if self.last_error and exit is not None and exit.signal is None:
            return Problem(kind=said_kind(self.last_error), message=self.last_error)
        said = _without_log(stderr_tail)
        for pattern, kind, hint in ENDINGS:
            if found := re.search(f"^.*(?:{pattern}).*$", said, re.M):
                return Problem(kind=kind, message=found[0].strip()[:500], hint=hint)
        return super().no_result(exit, said)

    # -- items

    def _item(self, record: Record, phase: str, item: Record) -> list[AnyEvent]:
        said, id = text(item.get("text")), text(item.get("id"))
        match item.get("type"):
            case "agent_message":
                return [self.whole(said, id)] if phase == "item.completed" else []
            case "reasoning":
                return [Thought(text=said, id=id)] if phase == "item.completed" else []
            case "error":  # only ever a warning: unknown model, untrusted hooks
                return [Notice(text=text(item.get("message")), code="warning")]
            case "todo_list":
                return self._todo(item)
        if (tool := _tool_of(item)) is None:
            return [Raw(record=record)]
        events: list[AnyEvent] = []
        if tool.id not in self.open_tools and phase != "item.updated":
            events.append(self.tool_started(tool))
        if phase == "item.completed":
            events += self._tool_completed(item, tool)
        return events

    def _tool_completed(self, item: Record, tool: ToolStarted) -> list[AnyEvent]:
        code = item.get("exit_code")
        ok = item.get("status") == "completed" and code in (0, None)
        output = _output_of(item)
        refused = "" if ok else self._refusal(item, output)
        code = code if isinstance(code, int) else None
        ended = ToolEnded(id=tool.id, ok=ok, output=output, files=tool.files, exit_code=code, denied=bool(refused))
        events: list[AnyEvent] = [self.tool_ended(ended)]
        if refused:
            access = self._remedy(item, refused)
            self.denied.append(Denial(tool=tool.name, target=tool.title, access=access, reason=refused))
        if refused == NO_SANDBOX:
            events.append(Notice(text=f"{refused}: {output.strip()}", code="no_sandbox"))
        elif item.get("type") == "mcp_tool_call" and ok and self.turn.access != "full":
            events.append(Notice(text=f"{tool.name} ran unconfined, as every MCP server does", code="unconfined"))
        return events

    def _refusal(self, item: Record, output: str) -> str:
        """Why a failed item was refused, or "". A command that the sandbox stopped late has an item after all."""
        if item.get("status") == "declined" or "requires approval" in _message_of(item.get("error")):
            return output
        if output.startswith("bwrap: "):
            return NO_SANDBOX
        stopped = self.turn.access != "full" and item.get("type") == "command_execution" and READ_ONLY in output
        return READ_ONLY if stopped else ""

    def _remedy(self, item: Record, reason: str) -> Access | None:
        return "full" if reason == NO_SANDBOX else WIDER[self.turn.access]

    def _todo(self, item: Record) -> list[AnyEvent]:
        todo = [(text(s.get("text")), s.get("completed")) for s in tables(item.get("items"))]
        plan = Plan(steps=tuple(PlanStep(text=step, status="done" if done else "pending") for step, done in todo))
        if plan == self.plan:
            return []
        self.plan = plan
        return [plan]

    # -- failures

    def _logged_call(self, id: str, arguments: str, said: str) -> list[AnyEvent]:
        escalated = said.startswith("approval policy is Never")  # the model asked to leave the sandbox
        if id in self.refused_calls:
            reason = "the sandbox refused it"
        elif escalated or said.startswith("patch rejected"):
            reason = said.partition(" mcp_server=")[0]
        else:
            return []
        name, target = _call_of(arguments)
        access = "full" if escalated else WIDER[self.turn.access]
        self.denied.append(Denial(tool=name, target=target, access=access, reason=reason))
        started = ToolStarted(id=id, name=name, title=target[:200])
        return [started, ToolEnded(id=id, ok=False, output=reason, denied=True)]

    def _error_record(self, message: str) -> AnyEvent:
        """`Reconnecting... 2/5 (…)` is a retry; anything else is repeated by `turn.failed`."""
        if not message.startswith("Reconnecting"):
            self.last_error = _words_of(message)
            return Notice(text=self.last_error, code="error", quiet=True)
        attempt = re.search(r"(\d+)/\d+", message)
        kind = said_kind(message.partition("(")[2])
        return Limited(
            error=kind if kind in ("limited", "unauthenticated") else "overloaded",
            message=message,
            attempt=int(attempt[1]) if attempt else None,
        )

    def _failed(self, error: Any) -> None:
        message = _words_of(_message_of(error)) or self.last_error
        kind = said_kind(message)
        self.fail("turn.failed", kind, message, "Log in: codex login" if kind == "unauthenticated" else "")


# -- what records say -------------------------------------------------------------------------------


def _tool_of(item: Record) -> ToolStarted | None:
    """The tool call that an item is about, or None where it is no tool that we know."""
    id = text(item.get("id"))
    match item.get("type"):
        case "command_execution":
            input: Any = {"command": text(item.get("command"))}
            return ToolStarted(id=id, name="command_execution", title=_typed(input["command"]), input=input)
        case "file_change":
            changes = [(text(c.get("path")), text(c.get("kind"))) for c in tables(item.get("changes"))]
            files = tuple(FileChange(path=path, change=CHANGES.get(kind, "update")) for path, kind in changes)
            return ToolStarted(id=id, name="file_change", title=", ".join(f.path for f in files)[:200], files=files)
        case "mcp_tool_call":
            name, input = f"{text(item.get('server'))}.{text(item.get('tool'))}", item.get("arguments")
        case "collab_tool_call":
            name, input = text(item.get("tool")) or "agent", {"prompt": item.get("prompt")}
        case "web_search":
            name, input = "web_search", {"query": item.get("query")}
        case _:
            return None
    return ToolStarted(id=id, name=name, title=title_of(name, input), input=input)


def _typed(command: str) -> str:
    return title_of("", {"command": script_of(command)})


def script_of(command: str) -> str:
    """`/bin/bash -lc 'touch x'` as people would type it."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else command


def _output_of(item: Record) -> str:
    if item.get("type") == "command_execution":
        return text(item.get("aggregated_output"))
    said = [text(c.get("text")) for c in tables(table(item.get("result")).get("content"))]
    return "\n".join(part for part in said if part) or _message_of(item.get("error"))


def usage_of(counts: Record) -> Usage:
    return Usage(
        input_tokens=number(counts.get("input_tokens")),
        output_tokens=number(counts.get("output_tokens")),
        cached_tokens=number(counts.get("cached_input_tokens")),
        reasoning_tokens=number(counts.get("reasoning_output_tokens")),
    )


ENDINGS: tuple[tuple[str, ErrorKind, str], ...] = (
    ("no rollout found|Session not found|invalid session id", "not_found", "Start a new session"),
    ("Input exceeds the maximum length", "bad_request", ""),
    ("Error loading config|failed to load configuration", "bad_request", "Mend ~/.codex/config.toml"),
    ("output schema", "bad_request", ""),
)


def said_kind(said: str) -> ErrorKind:
    kind = kind_of(None, said)
    broken = kind == "crashed" and re.search(r"disconnected|connection|network|timed? ?out", said, re.I)
    return "overloaded" if broken else kind


def _message_of(error: Any) -> str:
    return text(error) or text(table(error).get("message"))


def _words_of(said: str) -> str:
    """The words inside a model server's JSON error body, which codex passes on whole."""
    try:
        return _message_of(table(json.loads(said)).get("error")) or said
    except (ValueError, RecursionError):
        return said


# -- the log on stderr ------------------------------------------------------------------------------

# RUST_LOG: errors, and of the telemetry events those of a refusal and those with a tool's arguments.
LOG_FILTER = "error,codex_otel.log_only[{outcome}]=info,codex_otel.log_only[{arguments}]=info"

OUTCOME = re.compile(r'event\.name="codex\.sandbox_outcome" .*?call_id=(\S+) outcome=denied')
RESULT = re.compile(
    r'event\.name="codex\.tool_result" .*?call_id=(\S+) .*? arguments=(\{.*?\}|.*\*\*\* End Patch\s*) output=(.*)', re.S
)
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
STAMP = r"^\d{4}-\d\d-\d\dT\S+Z +[A-Z]+ "
LOGGED = re.compile(rf"{STAMP}.*?(?={STAMP}|^Error|\Z)", re.M | re.S)


def _call_of(arguments: str) -> tuple[str, str]:
    """The tool, as the records on stdout call it, and its target."""
    if files := PATCHED.findall(arguments.replace("\\n", "\n")):
        return "file_change", ", ".join(files)
    try:
        return "command_execution", title_of("", json.loads(arguments))
    except (ValueError, RecursionError):  # the log cuts long ones
        return "command_execution", arguments[:200]


def _without_log(stderr: str) -> str:
    """What codex said itself: its log holds numbers and outputs that tell nothing of why a turn failed."""
    return LOGGED.sub("", stderr).replace("Reading additional input from stdin...\n", "")


# -- description ------------------------------------------------------------------------------------


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A look at `rollout-*.jsonl`: the first record names it, the first user message is its title."""
    payloads = [(r.get("type"), r["payload"]) for r in records if isinstance(r.get("payload"), dict)]
    meta = next((p for kind, p in payloads if kind == "session_meta"), None)
    if meta is None or not UUID.fullmatch(text(meta.get("id"))):
        return None
    return Conversation(id=meta["id"], folder=text(meta.get("cwd")), title=_title([p for _, p in payloads]))


def _title(payloads: Sequence[Record]) -> str:
    """The first line that a person wrote: codex's own user messages begin with a tag or AGENTS.md."""
    messages = [p for p in payloads if p.get("type") == "message" and p.get("role") == "user"]
    for said in (text(part.get("text")).strip() for m in messages for part in tables(m.get("content"))):
        if said and not said.startswith(("<", "# AGENTS.md")):
            return said.splitlines()[0][:200]
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
    dialog=DialogFace(
        launch=dialog_launch,
        dialog=dialog,
        steers=True,
        mcp=("stdio", "http"),
        protocol="app-server",
        access="`app-server` has no `--ignore-rules`: a permission profile of ostler's own keeps `read` and `write` in"
        " the sandbox, whatever rules allow. Approval `never` under `read`, else `untrusted`. What would leave the"
        " sandbox is refused unseen. A thread that codex begins with more is given up",
    ),
    mcp=("stdio",),
    forks=True,
    schema="native",
    system="flag",
    images="native",
    conversations=(".codex/sessions/*/*/*/rollout-*.jsonl",),
    conversation=conversation,
)
