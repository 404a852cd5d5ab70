"""claude: Anthropic's Claude Code. One turn is `claude -p --output-format=stream-json` with the prompt on stdin."""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ostler.agents.adapter import Agent, Conversation, Record, literal, tool_names, with_attachments
from ostler.agents.dialog import AnswerKind, Ask, DialogFace, Step, Tell
from ostler.agents.mcp import TRANSPORTS, by_file, typed
from ostler.agents.messages import MessagesReader, attachment_rules, conversation_flags, kind_said
from ostler.agents.proposals import inside
from ostler.agents.stream_dialog import StreamDialog
from ostler.agents.values import UUID, items, number, table, tables, text
from ostler.errors import ErrorKind, OstlerError
from ostler.words import Access, Answered, AnyEvent, Host, Launch, Limited, Raw, Turn, Usage, UsageReport

PROMPT_LIMIT = 10_000_000  # bytes; claude refuses more than 10 MB on stdin
ARGUMENT_LIMIT = 100_000  # bytes; Linux refuses one argument of 128 KiB

# What claude may do under each access was measured against settings that allow everything.
MODES: dict[Access, str] = {"read": "dontAsk", "write": "acceptEdits", "full": "bypassPermissions"}
# In a dialog: the first is the one that a process begins with; none lets it do more than a turn of its own.
DIALOG_MODES: dict[Access, tuple[str, ...]] = {
    "read": ("dontAsk", "plan"),
    "write": ("default", "plan", "acceptEdits"),
    "full": ("default", "plan", "acceptEdits"),
}
# An allow-list of built-in tools: it holds against every setting, in subagents too, and a tool that a
# later claude adds stays out. Permission modes alone yield to `permissions.allow` of the user.
READING = ("Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "Task", "Skill", "TodoWrite")
EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
SHELL = ("Bash",)
# What runs commands without being named Bash; an allow-list of tools leaves it out, this says so twice.
COMMANDS = (*SHELL, "Monitor", "PowerShell")
# Tools that an allow rule would let out of the folder.
FOLDER_BOUND = ("Read", "Glob", "Grep", "LS", "NotebookRead", *EDITS, *COMMANDS)
SANDBOX = {
    "enabled": True,
    "autoAllowBashIfSandboxed": True,
    "allowUnsandboxedCommands": False,  # else a tool call may switch it off
    "failIfUnavailable": True,  # else claude goes on without it
}
NO_SANDBOX = (
    "commands are off: claude's sandbox needs bwrap and socat. "
    "Install them (apt install bubblewrap socat), or run with --access full"
)
NO_HOOKS = "hooks are off for this turn: the folder has its own .claude settings, whose hooks could write"


# -- launch -----------------------------------------------------------------------------------------


def launch(turn: Turn, host: Host) -> Launch:
    files: dict[str, bytes] = {}
    settings, notices = _settings(turn, host)
    flags = [
        *("-p", "--output-format=stream-json", "--verbose", "--include-partial-messages"),
        f"--permission-mode={MODES[turn.access]}",
        *conversation_flags(turn),
        *_tools(turn, host),
    ]
    if settings:
        flags.append(f"--settings={json.dumps(settings, separators=(',', ':'))}")
    if turn.model:
        flags.append(f"--model={turn.model}")
    flags += _system(turn, host, files)
    flags += by_file("--mcp-config=", turn, host, files, typed)
    if turn.schema is not None:
        flags.append(_schema(turn.schema))
    if turn.limits.cost_usd is not None:
        flags.append(f"--max-budget-usd={turn.limits.cost_usd:.6f}")
    if turn.lean:
        flags.append("--bare")
    return Launch(
        argv=(host.executable, *flags),
        stdin=with_attachments(literal(turn), turn.attachments).encode(),
        env=_environment(turn, host),
        files=files,
        notices=notices,
    )


def _settings(turn: Turn, host: Host) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings that go before the user's, and what the user should know of them."""
    if turn.access == "write":
        return ({"sandbox": SANDBOX}, ()) if _confines(host) else ({}, (NO_SANDBOX,))
    if turn.access == "read" and ".claude" in host.folder_names and not turn.lean:
        # claude -p runs a folder's hooks also where the folder was never trusted.
        return {"disableAllHooks": True}, (NO_HOOKS,)
    return {}, ()


def _confines(host: Host) -> bool:
    """Whether claude's own sandbox can run here."""
    return {"bwrap", "socat"} <= host.programs or "sandbox-exec" in host.programs


def _tools(turn: Turn, host: Host) -> list[str]:
    """Which tools there are, which need no approval, which are refused: within what the access allows."""
    allowed, denied = tool_names(AGENT, turn.tools_allowed), tool_names(AGENT, turn.tools_denied)
    offered = _offered(turn.access, host)
    named = [name for name in allowed if offered is None or _base(name) in offered or name.startswith("mcp__")]
    approved = [name for name in named if _base(name) not in FOLDER_BOUND]
    approved += attachment_rules(turn)
    flags = []
    if offered is not None or allowed:
        known = [_base(name) for name in named if not name.startswith("mcp__")] if allowed else offered
        flags.append(f"--tools={','.join(dict.fromkeys(known or ()))}")
    if offered is not None:
        denied = (*(name for name in (*EDITS, *COMMANDS) if name not in offered), *denied)
        if not any(name.startswith("mcp__") for name in named):
            # What an MCP server does is not confined: none but those that were named.
            denied = (*denied, "mcp__*")
            flags.append("--strict-mcp-config")
    if approved:
        flags.append(f"--allowedTools={','.join(dict.fromkeys(approved))}")
    if denied:
        flags.append(f"--disallowedTools={','.join(dict.fromkeys(denied))}")
    return flags


def _offered(access: Access, host: Host) -> tuple[str, ...] | None:
    if access == "full":
        return None
    if access == "read":
        return READING
    return (*READING, *EDITS, *SHELL) if _confines(host) else (*READING, *EDITS)


def _base(name: str) -> str:
    """The tool of a rule: `Bash(git log:*)` → `Bash`."""
    return name.partition("(")[0].strip()


def _system(turn: Turn, host: Host, files: dict[str, bytes]) -> list[str]:
    if not turn.system:
        return []
    # A conversation keeps the prompt of its first request unless told not to.
    flags = ["--system-prompt-snapshot=off"] if turn.resume else []
    if len(turn.system.encode()) <= ARGUMENT_LIMIT:
        return [*flags, f"--append-system-prompt={turn.system}"]
    path = f"{host.private}/system.txt"
    files[path] = turn.system.encode()
    return [*flags, f"--append-system-prompt-file={path}"]


def _schema(schema: dict[str, Any]) -> str:
    inline = json.dumps(schema, separators=(",", ":"))
    if len(inline.encode()) > ARGUMENT_LIMIT:
        raise OstlerError("unsupported", f"claude takes schemas of up to {ARGUMENT_LIMIT:,} bytes")
    return f"--json-schema={inline}"


def _environment(turn: Turn, host: Host) -> dict[str, str]:
    # A background task would outlive its result, which is the end of a one-shot turn.
    env = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
    if not turn.command:
        env["CLAUDE_CODE_DISABLE_FILE_MENTIONS"] = "1"  # else @name puts the file into the prompt
    if host.root and turn.access == "full":
        env["IS_SANDBOX"] = "1"  # root is refused bypassPermissions without it
    return env


class ClaudeDialog(StreamDialog):
    """claude with its stdin open. Asks come through `--permission-prompt-tool stdio`."""

    modes = DIALOG_MODES

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self._always: set[str] = set()  # commands; claude's own rules do not cover those that write by `>`

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        command = _command(self._asks.get(ask, {}))
        steps = super().answer(ask, kind, message)
        if kind == "allow_always" and command:
            self._always.add(command)
        return steps

    def usual_model(self) -> list[Step]:
        return [self._request("set_model", model=None)]

    def _asked(self, id: str, request: dict[str, Any]) -> list[Step]:
        """No answer widens the access: what it does not reach is refused before anybody is asked."""
        steps, access = super()._asked(id, request), self.first.access
        if not isinstance(steps[0], Ask):
            return steps
        if access == "full" or not beyond(request, access, self.first.folder):
            return self._allowed_before(steps[0].asked) if _command(request) in self._always else steps
        told = Tell([steps[0].asked, Answered(id=id, option="reject_once", by=f"access {access}")])
        return [told, *self.answer(id, "reject_once", f"Access {access} does not allow this.")]


def _command(request: dict[str, Any]) -> str:
    return text(table(request.get("input")).get("command")) if request.get("tool_name") == "Bash" else ""


def beyond(request: dict[str, Any], access: Access, folder: str) -> bool:
    """Whether an edit goes where the access does not reach: outside of the folder, by its path or by a link that
    claude has followed, or to what claude itself guards in the folder, such as its settings and git's hooks.
    """
    name, input = text(request.get("tool_name")), table(request.get("input"))
    if name not in EDITS:
        return access == "read" and name in COMMANDS
    paths = [path for key in ("file_path", "notebook_path") if (path := text(input.get(key)))]
    if blocked := text(request.get("blocked_path")):
        paths.append(blocked)
    further = any(each.get("type") == "addDirectories" for each in tables(request.get("permission_suggestions")))
    guarded = request.get("decision_reason_type") in ("workingDir", "safetyCheck")
    return access == "read" or further or guarded or not paths or not all(inside(path, folder) for path in paths)


def dialog_launch(turn: Turn, host: Host) -> Launch:
    """The same tools and settings as for one turn; what they leave open is asked."""
    once = launch(turn, host)
    flags = [flag for flag in once.argv[1:] if not flag.startswith(("--permission-mode=", "--json-schema="))]
    mode = DIALOG_MODES[turn.access][0]
    asking = ("--input-format=stream-json", "--permission-prompt-tool=stdio", f"--permission-mode={mode}")
    return structs.replace(once, argv=(host.executable, *flags, *asking), stdin=b"")


# -- reading ----------------------------------------------------------------------------------------


class ClaudeReader(MessagesReader):
    EDITS = frozenset(EDITS)
    PLANS = frozenset(("TodoWrite",))
    STRUCTURED = "StructuredOutput"
    MISSING = re.compile(r"No such tool available")
    LOGIN = "Run `claude` and type /login, or set ANTHROPIC_API_KEY"

    def read(self, record: Record) -> list[AnyEvent]:
        if record.get("type") == "rate_limit_event":
            return _quota(table(record.get("rate_limit_info")))
        return super().read(record)

    def remedy(self, name: str) -> Access | None:
        if self.turn.access == "read" and name in (*EDITS, *COMMANDS):
            return "write"
        known = (*READING, *EDITS, *COMMANDS)
        return "full" if self.turn.access != "full" and (name in known or name.startswith("mcp__")) else None

    def _result(self, record: Record) -> list[AnyEvent]:
        self.steps = number(record.get("num_turns"))
        self._denials(record)
        self._count(record)
        said, events = text(record.get("result")), self._owed()
        evidence = f"result {text(record.get('subtype'))}, {text(record.get('terminal_reason')) or 'no reason'}"
        if record.get("is_error") or record.get("subtype") != "success":
            self._failed(record, evidence, said)
        elif self.steps == 0 and not self.turn.command:
            self.fail(evidence + ", num_turns 0", "unproven", f"claude did not ask the model: {said[:300]}")
        else:
            events += self._answer(said)
            self.structured = record.get("structured_output", self.structured)
            self.agent_session = self.agent_session or text(record.get("session_id")) or None
            self.succeed(evidence)
        return [*events, *([UsageReport(usage=self.usage, cost_usd=self.cost_usd)] if self.usage else [])]

    def _failed(self, record: Record, evidence: str, said: str) -> None:
        reason, subtype = text(record.get("terminal_reason")), text(record.get("subtype"))
        message = said or "; ".join(text(e) for e in items(record.get("errors"))) or reason or subtype
        kind: ErrorKind
        if reason.startswith("aborted"):
            kind, message = "cancelled", "claude was interrupted"
        elif subtype in ("error_max_turns", "error_max_budget_usd"):
            kind = "over_budget"
        elif subtype == "error_max_structured_output_retries":
            kind = "invalid_output"
        else:
            kind = kind_said(record.get("api_error_status"), message)
        self.fail(evidence, kind, message, self.hint(kind))

    def _count(self, record: Record) -> None:
        """Adds what was used since the result before; older claudes only say it for the whole conversation."""
        since = record.get("model_usage_since_last_result")
        models = [m for m in table(since).values() if isinstance(m, dict)]
        if since is None:
            models = [m for m in table(record.get("modelUsage")).values() if isinstance(m, dict)]
            self.usage, self.cost_usd, self.cumulative = None, None, bool(models)
        if not models:
            return
        before = self.usage or Usage(input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0)
        cached = _sum(models, "cacheReadInputTokens")
        read = _sum(models, "inputTokens") + cached + _sum(models, "cacheCreationInputTokens")
        self.usage = Usage(
            input_tokens=(before.input_tokens or 0) + read,
            output_tokens=(before.output_tokens or 0) + _sum(models, "outputTokens"),
            cached_tokens=(before.cached_tokens or 0) + cached,
            reasoning_tokens=(before.reasoning_tokens or 0) + _sum(models, "thinkingTokens"),
        )
        costs = [cost for m in models if isinstance(cost := m.get("costUSD"), int | float)]
        if len(costs) == len(models):
            self.cost_usd = (self.cost_usd or 0.0) + sum(costs)


def _sum(models: Sequence[dict[str, Any]], name: str) -> int:
    return sum(number(m.get(name)) or 0 for m in models)


def _quota(info: dict[str, Any]) -> list[AnyEvent]:
    if info.get("status") != "rejected":
        return [] if info else [Raw(record=info)]
    resets = info.get("resetsAt")
    what = text(info.get("rateLimitType")).replace("_", " ") or "usage"
    return [Limited(message=f"{what} limit reached", retry_at=resets if isinstance(resets, int | float) else None)]


ClaudeDialog.reader_of = ClaudeReader


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A conversation that claude keeps: its file name is the id."""
    id = path.rpartition("/")[2].removesuffix(".jsonl")
    if not UUID.fullmatch(id):
        return None
    folder = next((cwd for r in records if (cwd := text(r.get("cwd")))), "")
    asked = (r for r in records if r.get("type") == "user" and not r.get("isMeta") and not r.get("isSidechain"))
    title = next((said for r in asked if (said := _first_line(table(r.get("message")).get("content")))), "")
    return Conversation(id=id, folder=folder, title=title) if folder else None


def _first_line(content: Any) -> str:
    said = content if isinstance(content, str) else " ".join(text(b.get("text")) for b in tables(content))
    return said.strip().partition("\n")[0][:200]


AGENT = Agent(
    name="claude",
    title="Claude Code",
    binaries=("claude",),
    install="npm install -g @anthropic-ai/claude-code",
    launch=launch,
    reader=ClaudeReader,
    models=("claude*", "opus*", "sonnet*", "haiku*", "fable*"),
    needs=(
        *("--print", "--output-format", "--verbose", "--include-partial-messages", "--permission-mode"),
        *("--tools", "--allowedTools", "--disallowedTools", "--strict-mcp-config", "--settings"),
        *("--session-id", "--resume"),
    ),
    env=(
        *("ANTHROPIC_*", "CLAUDE_CODE_*", "CLAUDE_CONFIG_DIR", "AWS_*", "GOOGLE_*", "CLOUD_ML_REGION", "VERTEX_*"),
        *("AZURE_*", "DISABLE_*", "MAX_THINKING_TOKENS", "BASH_*_TIMEOUT_MS", "MCP_*TIMEOUT", "OTEL_*", "IS_SANDBOX"),
    ),
    drop=(
        *("CLAUDECODE", "CLAUDE_PID", "AI_AGENT", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_CODE_ENTRYPOINT"),
        *("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_MESSAGING_SOCKET"),
        *("CLAUDE_CODE_MESSAGING_TOKEN", "CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE", "CLAUDE_CODE_CHILD_SESSION"),
    ),
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    login_files=(".claude/.credentials.json",),
    login_elsewhere=True,  # the keychain, apiKeyHelper, a cloud's own credentials
    programs=("bwrap", "socat", "sandbox-exec"),
    folder_names=(".claude",),
    prompt_limit=PROMPT_LIMIT,
    access={
        "read": "`--permission-mode=dontAsk`, `--tools` with reading tools alone, `--strict-mcp-config`;"
        " hooks off where the folder has a `.claude`",
        "write": "`--permission-mode=acceptEdits`, `--tools` with reading and editing tools, Bash only inside"
        " claude's sandbox (bwrap and socat), `--strict-mcp-config`",
        "full": "`--permission-mode=bypassPermissions`",
    },
    unconfined={
        "read": "the user's own hooks; commands that settings name besides (`apiKeyHelper`)",
        "write": "what the user's settings open besides the folder: allow rules for Write and Edit,"
        " `additionalDirectories`, `sandbox.filesystem.allowWrite`; hooks and `apiKeyHelper`, also the folder's",
    },
    tools={
        **{"shell": SHELL, "read": ("Read", "NotebookRead"), "write": ("Write",), "search": ("Grep", "Glob", "LS")},
        **{"edit": ("Edit", "MultiEdit", "NotebookEdit"), "web": ("WebFetch", "WebSearch"), "subagent": ("Task",)},
        "todo": ("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"),
    },
    dialog=DialogFace(
        launch=dialog_launch,
        dialog=ClaudeDialog,
        mcp=TRANSPORTS,
        protocol="stream-json",
        access="`--permission-prompt-tool=stdio`; `read`: `--permission-mode=dontAsk`, `write` and `full`: `default`."
        " Under `write`, edits that leave the folder, by a link too, and edits of what claude guards (`.git`,"
        " `.claude`) are refused unseen; commands in its sandbox are not asked for",
    ),
    mcp=TRANSPORTS,
    forks=True,
    chooses_id=True,
    schema="native",
    system="flag",
    tool_lists=True,
    images="path",
    deltas=True,
    cost=True,
    conversations=(".claude/projects/*/*.jsonl",),
    conversation=conversation,
)
