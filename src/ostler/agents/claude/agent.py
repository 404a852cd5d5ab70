"""claude: Anthropic's Claude Code. One turn is `claude -p --output-format=stream-json` with the prompt on stdin."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import structs

from ostler.access import Access
from ostler.agents.adapter import Agent, Conversation, OwnSandbox, State, tool_names
from ostler.agents.claude import tui as own_screen
from ostler.agents.claude.dialog import DIALOG_MODES, ClaudeDialog
from ostler.agents.claude.reader import COMMANDS, EDITS, PLANS, READING, SHELL, ClaudeReader
from ostler.agents.dialog import DialogFace
from ostler.agents.hooks import HookFace, hook_settings
from ostler.agents.launches import ARGUMENT_LIMIT, literal, with_attachments
from ostler.agents.mcp import MCP_TRANSPORTS, by_file, typed
from ostler.agents.messages import attachment_rules, conversation_flags
from ostler.agents.reader import decode
from ostler.agents.tui import TuiFace
from ostler.agents.values import UUID, Record, number, table, tables, text
from ostler.errors import OstlerError
from ostler.model import Host, Launch, Turn

PROMPT_LIMIT = 10_000_000  # bytes; claude refuses more than 10 MB on stdin
# What claude may do under each access was measured against settings that allow everything.
MODES: dict[Access, str] = {"read": "dontAsk", "write": "acceptEdits", "full": "bypassPermissions"}
# Tools that an allow rule would let out of the folder.
FOLDER_BOUND = ("Read", "Glob", "Grep", "LS", "NotebookRead", *EDITS, *COMMANDS)
SANDBOX = {
    "enabled": True,
    "autoAllowBashIfSandboxed": True,
    "allowUnsandboxedCommands": False,  # else a tool call may switch it off
    "failIfUnavailable": True,  # else claude goes on without it
}
HOOKS = HookFace(
    events=(
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Notification", "Stop", "StopFailure"),
        *("SubagentStop", "PreCompact", "SessionEnd"),
    ),
    ends=("Stop", "StopFailure"),
    by="a private file for `--settings`, beside your own settings; `--include-hook-events` reports your own hooks",
)
NO_SANDBOX = (
    "commands are off: claude's sandbox needs bwrap and socat, and the right to create user namespaces. "
    "Install them (apt install bubblewrap socat), see `ostler doctor claude`, or run with --access full"
)


def launch(turn: Turn, host: Host) -> Launch:
    files: dict[str, bytes] = {}
    settings, notices = _settings(turn, host)
    hooks = hook_settings(HOOKS, turn, host, files, marked=True)
    flags = [
        *("-p", "--output-format=stream-json", "--verbose", "--include-partial-messages"),
        *(("--include-hook-events",) if _reports_hooks(turn, host) else ()),
        # Else it runs hooks and key helpers of any folder, and sends the user's key to an address that it names.
        *(() if host.trusted else ("--setting-sources=user",)),
        f"--permission-mode={MODES[turn.access]}",
        *conversation_flags(turn),
        *_tools(turn, host),
    ]
    if hooks:
        files[f"{host.private}/settings.json"] = json.dumps({**settings, "hooks": hooks}).encode()
        flags.append(f"--settings={host.private}/settings.json")
    elif settings:
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


def _reports_hooks(turn: Turn, host: Host) -> bool:
    """Whether its records tell of the user's own hooks."""
    return turn.transport in ("pipe", "dialog") and "--include-hook-events" in host.help


def terminal_launch(turn: Turn, host: Host) -> Launch:
    """The same for people: text instead of records."""
    if turn.schema is not None:
        raise OstlerError("unsupported", "a visible turn cannot have a schema", "Run it without --visible")
    once = launch(turn, host)
    records = ("--output-format=", "--verbose", "--include-partial-messages")
    return structs.replace(once, argv=tuple(word for word in once.argv if not word.startswith(records)))


def _settings(turn: Turn, host: Host) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings that go before the user's, and what the user should know of them."""
    if turn.walled:
        return {"sandbox": {"enabled": False}}, ()  # it cannot start behind a wall, and then no command runs
    if turn.access == "write":
        return ({"sandbox": SANDBOX}, ()) if _confines(host) else ({}, (NO_SANDBOX,))
    return {}, ()


def _confines(host: Host) -> bool:
    """Whether claude's own sandbox can run here."""
    return {"bwrap", "socat"} <= host.programs or "sandbox-exec" in host.programs


def _tools(turn: Turn, host: Host) -> list[str]:
    """Which tools there are, which need no approval, which are refused: within what the access allows."""
    allowed, denied = tool_names(AGENT, turn.tools_allowed), tool_names(AGENT, turn.tools_denied)
    offered = _offered(turn, host)
    named = [name for name in allowed if offered is None or _base(name) in offered or name.startswith("mcp__")]
    approved = [name for name in named if _base(name) not in FOLDER_BOUND]
    approved += attachment_rules(turn)
    if turn.access == "write" and turn.walled and turn.transport == "pipe":  # elsewhere somebody is asked
        approved += [name for name in SHELL if not allowed or name in {_base(each) for each in named}]
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


def _offered(turn: Turn, host: Host) -> tuple[str, ...] | None:
    if turn.access == "full":
        return None
    if turn.access == "read":
        return READING
    return (*READING, *EDITS, *SHELL) if turn.walled or _confines(host) else (*READING, *EDITS)


def expires(data: bytes) -> float | None:
    """When the login of its credentials file ends."""
    ends = number(table(table(decode(data)).get("claudeAiOauth")).get("expiresAt"))
    return None if ends is None else ends / 1000


def _base(name: str) -> str:
    """The tool of a rule: `Bash(git log:*)` → `Bash`."""
    return name.partition("(")[0].strip()


def _system(turn: Turn, host: Host, files: dict[str, bytes]) -> list[str]:
    if not turn.system:
        return []
    # A conversation keeps the prompt of its first request unless told not to.
    flags = ["--system-prompt-snapshot=off"] if turn.resume else []
    flag = "--system-prompt" if turn.system_mode == "replace" else "--append-system-prompt"
    if len(turn.system.encode()) <= ARGUMENT_LIMIT:
        return [*flags, f"{flag}={turn.system}"]
    path = f"{host.private}/system.txt"
    files[path] = turn.system.encode()
    return [*flags, f"{flag}-file={path}"]


def _schema(schema: dict[str, Any]) -> str:
    inline = json.dumps(schema, separators=(",", ":"))
    if len(inline.encode()) > ARGUMENT_LIMIT:
        raise OstlerError("unsupported", f"claude accepts schemas of at most {ARGUMENT_LIMIT:,} bytes")
    return f"--json-schema={inline}"


def _environment(turn: Turn, host: Host) -> dict[str, str]:
    # A background task would outlive its result, which is the end of a one-shot turn.
    env = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
    if not turn.command:
        env["CLAUDE_CODE_DISABLE_FILE_MENTIONS"] = "1"  # else @name puts the file into the prompt
    if host.root and turn.access == "full":
        env["IS_SANDBOX"] = "1"  # root is refused bypassPermissions without it
    return env


def dialog_launch(turn: Turn, host: Host) -> Launch:
    """The same tools and settings as for one turn; what they leave open is asked."""
    once = launch(turn, host)
    flags = [flag for flag in once.argv[1:] if not flag.startswith(("--permission-mode=", "--json-schema="))]
    mode = DIALOG_MODES[turn.access][0]
    asking = ("--input-format=stream-json", "--permission-prompt-tool=stdio", f"--permission-mode={mode}")
    return structs.replace(once, argv=(host.executable, *flags, *asking), stdin=b"")


def tui_launch(turn: Turn, host: Host) -> Launch:
    return own_screen.tui_launch(launch(turn, host), turn, DIALOG_MODES[turn.access][0])


class ClaudeTranscript(own_screen.MessagesTranscript, ClaudeReader):
    """The file that claude keeps of a conversation."""


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
    monogram="cl",
    hue=45,
    nested=(
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_ENV_FILE",
        "CLAUDE_CODE_MESSAGING_*",
        "AI_AGENT",
    ),
    binaries=("claude",),
    install="npm install -g @anthropic-ai/claude-code",
    launch=launch,
    reader=ClaudeReader,
    models=(
        *("claude*", "opus*", "sonnet*", "haiku*", "fable*"),
        # As Bedrock and Vertex call them; the first part may be a region.
        *("anthropic.claude*", "??.anthropic.claude*", "apac.anthropic.claude*", "us-gov.anthropic.claude*"),
        *("global.anthropic.claude*", "arn:aws*:bedrock:*"),
        *("publishers/anthropic/models/*", "projects/*/publishers/anthropic/models/*"),
    ),
    tested=("2.1.311", "2.1.325"),
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
    login_command="claude auth login",
    homes={"CLAUDE_CONFIG_DIR": ".claude"},
    private=(".claude.json",),
    # Behind a wall it cannot take the lock that it renews its login under, and goes on with the old one.
    state=State(
        kept=(".claude/projects", ".claude/tasks"),  # its to-do lists
        # Without it, it runs no SessionStart hook. Its commands read what is in it: so it must not stay.
        fleeting=(".claude/session-env/{session}",),
        renew=("auth", "status"),
        expires=expires,
    ),
    login_elsewhere=True,  # the keychain, apiKeyHelper, a cloud's own credentials
    programs=("bwrap", "socat", "sandbox-exec"),
    sandbox=OwnSandbox(
        check=(
            *("bwrap", "--new-session", "--die-with-parent", "--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev"),
            *("--unshare-pid", "--proc", "/proc", "--", "true"),
        ),
        programs=("bwrap", "socat"),
        needs="It needs bwrap and socat (apt install bubblewrap socat) and the right to create user namespaces",
        keeps=("write",),
    ),
    project_config=(
        *(".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".claude/skills", ".claude/agents"),
        *(".claude/commands", ".claude/hooks", ".claude/plugins", ".claude/workflows", ".claude/output-styles"),
    ),
    left_out="`--setting-sources=user`",
    instructions=(("CLAUDE.md",), (".claude/CLAUDE.md",), (".claude/rules",), ("CLAUDE.local.md",)),
    passes_over=lambda turn, host: not host.trusted and not turn.lean,
    prompt_limit=PROMPT_LIMIT,
    access={
        "read": "`--permission-mode=dontAsk`, `--tools` with reading tools alone, `--strict-mcp-config`",
        "write": "`--permission-mode=acceptEdits`, `--tools` with reading and editing tools, Bash only inside"
        " claude's sandbox (bwrap and socat), `--strict-mcp-config`",
        "full": "`--permission-mode=bypassPermissions`",
    },
    unconfined={
        "read": "the user's own hooks; commands that their settings name besides (`apiKeyHelper`)",
        "write": "what the user's settings open besides the folder: allow rules for Write and Edit,"
        " `additionalDirectories`, `sandbox.filesystem.allowWrite`; hooks and `apiKeyHelper`",
    },
    tools={
        **{"shell": COMMANDS, "read": ("Read", "NotebookRead"), "write": ("Write",), "search": ("Grep", "Glob", "LS")},
        **{"edit": ("Edit", "MultiEdit", "NotebookEdit"), "web": ("WebFetch", "WebSearch"), "mcp": ("mcp__*",)},
        **{"plan": PLANS, "agent": ("Task", "Agent")},
    },
    own_tools=(
        *("Skill", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree", "Workflow"),
        *("CronCreate", "CronDelete", "CronList", "ListAgents", "SendMessage", "TaskStop", "TaskOutput", "ToolSearch"),
        *("ReportFindings", "ScheduleWakeup", "StructuredOutput", "BashOutput", "KillShell"),
    ),
    dialog=DialogFace(
        launch=dialog_launch,
        dialog=partial(ClaudeDialog, reader_of=ClaudeReader),
        mcp=MCP_TRANSPORTS,
        protocol="stream-json",
        access="`--permission-prompt-tool=stdio`; `read`: `--permission-mode=dontAsk`, `write` and `full`: `default`."
        " Under `write`, edits that leave the folder, by a link too, and edits of what claude guards (`.git`,"
        " `.claude`) are refused unseen; commands in its sandbox are not asked for",
    ),
    in_terminal=terminal_launch,
    flags_at=1,
    refused_flags=(
        *("dangerously-*", "allow-dangerously-*", "permission-*", "allowed-tools", "disallowed-tools", "tools"),
        *("add-dir", "mcp-*", "strict-mcp-config", "setting*", "managed-settings", "plugin-*", "agent", "agents"),
        *("print", "output-format", "input-format", "json-schema", "resume", "continue", "session-id", "fork-session"),
        *("from-pr", "worktree", "tmux", "ide", "chrome", "remote*", "teleport", "sdk-url", "file", "system-prompt*"),
        *("append-system-prompt*", "model", "bare", "safe-mode", "debug-file", "no-session-persistence"),
        *("cloud", "background", "bg", "desktop", "environment", "ax-*", "prompt-suggestions"),  # of its own screen
    ),
    hooks=HOOKS,
    tui=TuiFace(
        launch=tui_launch,
        reader=ClaudeTranscript,
        prompt=own_screen.pasted_prompt,
        transcripts=own_screen.transcripts,
        box=own_screen.box,
        is_busy=own_screen.is_busy,
        question=own_screen.question,
        answer_ends=own_screen.answer_ends,
        interrupted=own_screen.INTERRUPTED,
        states=True,
        access="as in dialogs; what is asked stands on its screen. Answering no ends the turn",
    ),
    mcp=MCP_TRANSPORTS,
    recalls_plan=True,
    forks=True,
    chooses_id=True,
    schema="native",
    system="flag",
    replaces_system=True,
    tool_lists=True,
    images="path",
    deltas=True,
    cost=True,
    conversations=(".claude/projects/*/*.jsonl",),
    conversation=conversation,
)
