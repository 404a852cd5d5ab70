"""qwen: Qwen Code. One turn is `qwen --output-format=stream-json` with the prompt on stdin."""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ostler.access import Access
from ostler.agents.adapter import Agent, Conversation, State, tool_names
from ostler.agents.gemini.tui import pasted_prompt
from ostler.agents.hooks import HookFace, by_system_defaults
from ostler.agents.launches import (
    ARGUMENT_LIMIT,
    SYSTEM_FIRST,
    literal,
    refuse_servers,
    refuse_untrusted,
    version_numbers,
    with_attachments,
)
from ostler.agents.mcp import MCP_TRANSPORTS, by_file, program
from ostler.agents.messages import MessagesReader, attachment_rules, conversation_flags, kind_said
from ostler.agents.qwen import dialog
from ostler.agents.qwen import tui as own_screen
from ostler.agents.tui import TuiFace
from ostler.agents.values import UUID, Record, number, table, tables, text
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Exit, Host, Launch, McpServer, Turn, Usage, UsageReport, Verdict

MODES: dict[Access, str] = {"read": "default", "write": "auto-edit", "full": "yolo"}
EDITS = ("write_file", "edit", "notebook_edit")
# A subagent may bring its own approval mode; headless, qwen declines it anyway unless the user allows it.
SHELL = "run_shell_command"
COMMANDS = (SHELL, "monitor", "cron_create", "enter_worktree", "exit_worktree", "agent")
READING = ("read_file", "list_directory", "glob", "grep_search", "web_fetch", "todo_write", "zoom_image")
PLAIN = "plain text instead of calling the structured_output tool"
SYSTEM_SETTINGS = "/etc/qwen-code/settings.json"
SYSTEM_DEFAULTS = "/etc/qwen-code/system-defaults.json"
HOOKS = HookFace(
    events=(
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Notification", "Stop", "StopFailure"),
        "SessionEnd",
    ),
    ends=("Stop", "StopFailure"),
    by="private system defaults (`QWEN_CODE_SYSTEM_DEFAULTS_PATH`), to which your own hooks are added",
)
NO_SERVERS = "ostler-allows-none"  # a name that no MCP server has
OUTSIDE = "qwen does not keep its edits inside the folder; commands are off. With --access full they are on"
SYSTEM_LEFT_OUT = "the system prompt was left out: it is too long to go with a command"
MENTIONED = "qwen would read @name as a file: it was sent as \\@name"

# qwen reads the file that @name names, wherever it stands; only a backslash keeps it from that.
MENTION = re.compile(r"(?<![\w\\])@(?=[^\s,;!?()\[\]{}])")


# -- launch -----------------------------------------------------------------------------------------


def launch(turn: Turn, host: Host) -> Launch:
    prompt, notices = _prompt(turn)
    flags = [
        *("--output-format=stream-json", "--include-partial-messages"),
        f"--approval-mode={MODES[turn.access]}",
        *conversation_flags(turn),
        *_tools(turn),
    ]
    if turn.model:
        flags.append(f"--model={turn.model}")
    if turn.system and not is_long(turn.system):
        replace = turn.system_mode == "replace"
        flags.append(f"{'--system-prompt' if replace else '--append-system-prompt'}={turn.system}")
    if turn.schema is not None:
        flags.append(_argument("--json-schema", json.dumps(turn.schema, separators=(",", ":"))))
    if turn.lean:
        flags.append("--bare")
    files, env = _trust(turn, host)
    if turn.system and is_long(turn.system) and turn.system_mode == "replace":
        env["QWEN_SYSTEM_MD"] = f"{host.private}/system.md"
        files[env["QWEN_SYSTEM_MD"]] = turn.system.encode()
    flags += by_file("--mcp-config=", turn, host, files, _server)
    place = ("QWEN_CODE_SYSTEM_DEFAULTS_PATH", SYSTEM_DEFAULTS)
    env |= by_system_defaults(HOOKS, turn, host, files, place, scale=1000)
    return Launch(
        argv=(host.executable, *flags),
        stdin=prompt.encode(),
        files=files,
        env={**env, "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"},
        notices=(*notices, *((OUTSIDE,) if turn.access == "write" and not turn.walled else ())),
    )


def tui_launch(turn: Turn, host: Host) -> Launch:
    return own_screen.tui_launch(launch(turn, host), turn)


def tui_prompt(turn: Turn) -> str:
    return pasted_prompt(_prompt(turn)[0], turn)


OBEYS = (0, 24, 4)  # to older ones the user's own settings count more than those of the system, if they name trust


def _trust(turn: Turn, host: Host) -> tuple[dict[str, bytes], dict[str, str]]:
    """Files and variables that keep qwen from settings in a folder: its own trust of folders, which is off by default.

    It stands in settings of the system, since those of the user may switch it off. qwen asks for everything then,
    which is right in a dialog and under `read`.
    """
    if not host.untrusted:
        return {}, {}
    if () < version_numbers(host.version) < OBEYS:
        refuse_untrusted(turn, host)
    if SYSTEM_SETTINGS in host.folder_names or (turn.access != "read" and turn.transport != "dialog"):
        refuse_untrusted(turn, host)
    refuse_servers(turn)
    settings, folders = f"{host.private}/system-settings.json", f"{host.private}/trusted-folders.json"
    files = {
        settings: json.dumps({"$version": 4, "security": {"folderTrust": {"enabled": True}}}).encode(),
        folders: json.dumps(dict.fromkeys(host.levels, "DO_NOT_TRUST")).encode(),
    }
    return files, {"QWEN_CODE_SYSTEM_SETTINGS_PATH": settings, "QWEN_CODE_TRUSTED_FOLDERS_PATH": folders}


def _prompt(turn: Turn) -> tuple[str, tuple[str, ...]]:
    """The prompt with its attachments, and what was done to it. `Turn.command` sends it as it is."""
    turn, notices = _with_system(turn)
    said = with_attachments(literal(turn), [a for a in turn.attachments if a.content is not None])
    sent = said if turn.command else MENTION.sub(r"\\@", said)
    files = [a for a in turn.attachments if a.content is None]
    return with_attachments(sent, files), (*notices, *((MENTIONED,) if sent != said else ()))


def _with_system(turn: Turn) -> tuple[Turn, tuple[str, ...]]:
    """A system prompt (with what a folder tells) that is too long for an argument goes before the first prompt."""
    if not turn.system or not is_long(turn.system) or not turn.first or turn.system_mode == "replace":
        return turn, ()
    if turn.command:
        return turn, (SYSTEM_LEFT_OUT,)
    return structs.replace(turn, prompt=f"{turn.system}\n\n{turn.prompt}"), (SYSTEM_FIRST,)


def is_long(system: str) -> bool:
    return len(system.encode()) > ARGUMENT_LIMIT


def _tools(turn: Turn) -> list[str]:
    """An allow-list, deny rules and no MCP servers: what holds where the user's settings allow everything."""
    allowed, denied = tool_names(AGENT, turn.tools_allowed), tool_names(AGENT, turn.tools_denied)
    shell = (SHELL,) if turn.walled else ()
    offered = {"read": READING, "write": (*READING, *EDITS, *shell), "full": ()}[turn.access]
    core = [name for name in allowed if not offered or name in offered] if allowed else offered
    approved = [name for name in core if allowed and name not in (*EDITS, *COMMANDS, "read_file")]
    approved += [name for name in shell if name in core and name not in denied and turn.transport == "pipe"]
    approved += attachment_rules(turn)
    flags = [f"--core-tools={','.join(core)}"] if core or allowed else []
    if turn.access != "full":
        denied = (*(name for name in (*EDITS, *COMMANDS) if name not in offered), *denied)
        servers = [name.split("__")[1] for name in allowed if name.startswith("mcp__") and name != "mcp__*"]
        flags.append(f"--allowed-mcp-server-names={','.join(servers) or NO_SERVERS}")
    if approved:
        flags.append(f"--allowed-tools={','.join(approved)}")
    if denied:
        flags.append(f"--exclude-tools={','.join(dict.fromkeys(denied))}")
    return flags


def _server(server: McpServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return program(server)
    return {"httpUrl" if server.transport == "http" else "url": server.url, "headers": server.headers}


def _argument(flag: str, value: str) -> str:
    if len(value.encode()) > ARGUMENT_LIMIT:
        raise OstlerError("unsupported", f"qwen accepts at most {ARGUMENT_LIMIT:,} bytes of {flag}")
    return f"{flag}={value}"


# -- reading ----------------------------------------------------------------------------------------


class QwenReader(MessagesReader):
    EDITS = frozenset(EDITS)
    PLANS = frozenset(("todo_write",))
    STRUCTURED = "structured_output"
    ERROR_MARK = "[API Error: "
    MISSING = re.compile(r"not listed in the active core tools|permission was declined|is unavailable: the MCP server")
    LOGIN = "Run `qwen` and choose how to log in, or set OPENAI_API_KEY"

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.plain = False
        self.made: int | None = None  # tokens of the last message

    def remedy(self, name: str) -> Access | None:
        if self.turn.access == "read" and (name in EDITS or (name == SHELL and self.turn.walled)):
            return "write"
        return "full" if self.turn.access != "full" else None

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        # A plain answer under a schema is an answer, which ostler looks into; qwen calls it an error, exit 1.
        return super().end(None if self.plain and exit and exit.code == 1 else exit, stderr_tail)

    def _assistant(self, record: Record) -> list[AnyEvent]:
        """Adds its tokens: those of a result count the whole conversation."""
        usage = table(table(record.get("message")).get("usage"))
        given, made = number(usage.get("input_tokens")), number(usage.get("output_tokens"))
        if given is not None and made is not None:
            before = self.spent or (0, 0)
            self.spent = before[0] + given, before[1] + made
        self.made = made
        return super()._assistant(record)

    def _result(self, record: Record) -> list[AnyEvent]:
        self.steps = number(record.get("num_turns"))
        self._denials(record)
        self._count(table(record.get("usage")))
        evidence, events = f"result {text(record.get('subtype'))}", self._owed()
        wrong = text(table(record.get("error")).get("message"))
        self.plain = bool(self.turn.schema and self.text and PLAIN in wrong)
        if self.plain:
            self.succeed(evidence + ", plain text in place of the schema's tool")
        elif record.get("is_error") or record.get("subtype") != "success" or self._is_api_error(record):
            wrong = (wrong or text(record.get("result"))).removeprefix("[").removesuffix("]")
            kind = kind_said(None, wrong)
            self.fail(evidence, kind, wrong, self.hint(kind))
        elif self.steps == 0 and not self.turn.command:
            self.fail(evidence + ", num_turns 0", "unproven", "qwen did not call the model")
        else:
            said = self.text = text(record.get("result")) or self.text
            self.structured = record.get("structured_result", self.structured)
            self.agent_session = self.agent_session or text(record.get("session_id")) or None
            self.succeed(evidence)
            events += self._answer(said) if self.result == "ok" else []
        return [*events, *([UsageReport(usage=self.usage)] if self.usage and not self.turn.resume else [])]

    def _is_api_error(self, record: Record) -> bool:
        """Older ones tell an error of the API as their answer, also after tools. No model wrote it: it cost nothing."""
        return self.made == 0 and text(record.get("result")).startswith(self.ERROR_MARK)

    def _count(self, usage: dict[str, Any]) -> None:
        """qwen counts over the whole conversation, also over the processes that resumed it."""
        if number(usage.get("input_tokens")) is None or not any(number(n) for n in usage.values()):
            return
        self.cumulative = True
        self.usage = Usage(
            input_tokens=number(usage.get("input_tokens")),
            output_tokens=number(usage.get("output_tokens")),
            cached_tokens=number(usage.get("cache_read_input_tokens")),
        )


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A conversation that qwen keeps: its file name is the id."""
    id = path.rpartition("/")[2].removesuffix(".jsonl")
    folder = next((cwd for r in records if (cwd := text(r.get("cwd")))), "")
    if not UUID.fullmatch(id) or not folder:
        return None
    asked = (table(r.get("message")) for r in records if r.get("type") == "user")
    said = (text(part.get("text")).strip() for m in asked for part in tables(m.get("parts")))
    title = next((s.partition("\n")[0][:200] for s in said if s and not s.startswith("<system-reminder>")), "")
    return Conversation(id=id, folder=folder, title=title)


AGENT = Agent(
    name="qwen",
    title="Qwen Code",
    monogram="qw",
    hue=290,
    nested=("QWEN_CODE",),
    binaries=("qwen",),
    install="npm install -g @qwen-code/qwen-code",
    dialog=dialog.face(launch, _prompt, QwenReader),
    mcp=MCP_TRANSPORTS,
    launch=launch,
    reader=QwenReader,
    models=("qwen*",),
    tested=("0.23.0", "0.24.4"),
    needs=(
        *("--output-format", "--include-partial-messages", "--approval-mode", "--core-tools", "--exclude-tools"),
        *("--allowed-mcp-server-names", "--session-id", "--resume"),
    ),
    env=("OPENAI_*", "QWEN_*", "DASHSCOPE_*", "BAILIAN_*", "MODELSCOPE_*", "OPENROUTER_*", "ANTHROPIC_*", "GEMINI_*"),
    drop=(
        *("QWEN_CODE", "QWEN_CODE_NO_RELAUNCH", "QWEN_CODE_LAUNCHER_PID", "QWEN_CODE_SESSION_ID", "GEMINI_PROJECT_DIR"),
        *("GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH"),
    ),
    keys=("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
    login_files=(".qwen/oauth_creds.json",),
    login_command="qwen (then type /auth)",
    homes={"QWEN_HOME": ".qwen"},
    state=State(
        shadowed=".qwen",
        kept=(".qwen/projects", ".qwen/tmp"),
        anew=("extension-store", "usage*"),
        logins={"oauth_creds.json": ("access_token", "refresh_token", "expiry_date")},
    ),
    login_elsewhere=True,  # keys in ~/.qwen/settings.json and ~/.qwen/.env
    folder_names=(SYSTEM_SETTINGS, SYSTEM_DEFAULTS),
    flags_at=1,
    refused_flags=(
        *("yolo", "approval-mode", "allowed-*", "core-tools", "exclude-tools", "include-directories", "add-dir"),
        *("extensions", "sandbox*", "experimental-*", "acp", "channel", "output-format", "input-format", "prompt*"),
        *("resume", "continue", "session-*", "fork-*", "model", "mcp-*", "json-*", "system-prompt", "agent*", "bare"),
        *("append-system-prompt", "openai-*", "auth-type", "checkpointing", "list-*", "safe-mode", "worktree"),
        *("http-bridge", "input-file", "chat-recording", "screen-reader", "insecure"),
    ),
    hooks=HOOKS,
    tui=TuiFace(
        launch=tui_launch,
        reader=own_screen.QwenTranscript,
        prompt=tui_prompt,
        transcripts=own_screen.transcripts,
        box=own_screen.box,
        is_busy=own_screen.is_busy,
        question=own_screen.question,
        answer_ends=own_screen.answer_ends,
        title_status=own_screen.title_status,
        interrupted=own_screen.INTERRUPTED,
        pasted=r"\[Pasted Content",
        access="`default`, in which it asks; `write`: `auto-edit`. Answering no ends the turn",
    ),
    project_config=(".qwen", ".mcp.json", ".agents/skills"),  # a skill may have hooks, and allow tools
    project_config_above=(".env", ".qwen/.env"),
    left_out="a list of trusted folders in which it is not (`QWEN_CODE_TRUSTED_FOLDERS_PATH`);"
    " without `--dialog`, `write` and `full` are `denied`, since qwen asks for everything then; before 0.24.4 `denied`",
    instructions=(("QWEN.md",), ("AGENTS.md",)),
    passes_over=lambda turn, host: host.untrusted and not turn.lean,
    access={
        "read": "`--approval-mode=default`, `--core-tools` with reading tools alone, `--exclude-tools` for what"
        " writes or runs commands, no MCP servers",
        "write": "`--approval-mode=auto-edit`, `--core-tools` with reading and editing tools, no MCP servers",
        "full": "`--approval-mode=yolo`",
    },
    unpromised={"write": "its edits are not kept inside the folder"},
    unconfined={
        "read": "hooks of the user",
        "write": "edits are not kept inside the folder; hooks of the user. It has no shell",
    },
    tools={
        **{"shell": ("run_shell_command", "monitor"), "read": ("read_file",), "write": ("write_file",)},
        **{"edit": ("edit", "notebook_edit"), "search": ("grep_search", "glob", "list_directory")},
        **{"web": ("web_fetch",), "mcp": ("mcp__*",), "plan": ("todo_write",), "agent": ("agent",)},
    },
    own_tools=(
        *(
            "ask_user_question",
            "skill",
            "zoom_image",
            "enter_plan_mode",
            "exit_plan_mode",
            "enter_worktree",
            "exit_worktree",
        ),
        *("cron_create", "cron_delete", "cron_list", "get_goal", "update_goal", "list_agents", "send_message"),
        *("task_stop", "tool_call", "tool_search", "structured_output", "read_mcp_resource", "record_artifact"),
    ),
    forks=True,
    chooses_id=True,
    schema="native",
    system="flag",
    replaces_system=True,
    tool_lists=True,
    images="path",
    deltas=True,
    conversations=(".qwen/projects/*/chats/*.jsonl",),
    conversation=conversation,
)
