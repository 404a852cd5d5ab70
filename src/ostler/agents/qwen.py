"""qwen: Qwen Code. One turn is `qwen --output-format=stream-json` with the prompt on stdin."""

import json
import re
from collections.abc import Sequence
from typing import Any

from ostler.agents import qwen_dialog
from ostler.agents.adapter import Agent, Conversation, Record, literal, tool_names, with_attachments
from ostler.agents.mcp import TRANSPORTS, by_file, program
from ostler.agents.messages import MessagesReader, attachment_rules, conversation_flags, kind_said
from ostler.agents.values import UUID, number, table, tables, text
from ostler.errors import OstlerError
from ostler.words import Access, AnyEvent, Exit, Host, Launch, McpServer, Turn, Usage, UsageReport, Verdict

ARGUMENT_LIMIT = 100_000  # bytes; Linux refuses one argument of 128 KiB

MODES: dict[Access, str] = {"read": "default", "write": "auto-edit", "full": "yolo"}
EDITS = ("write_file", "edit", "notebook_edit")
# A subagent may bring its own approval mode; headless, qwen declines it anyway unless the user allows it.
COMMANDS = ("run_shell_command", "monitor", "cron_create", "enter_worktree", "exit_worktree", "agent")
READING = ("read_file", "list_directory", "glob", "grep_search", "web_fetch", "todo_write", "zoom_image")
PLAIN = "plain text instead of calling the structured_output tool"
NO_SERVERS = "ostler-allows-none"  # a name that no MCP server has
OUTSIDE = "qwen does not keep its edits inside the folder; commands are off. With --access full they are on"
MENTIONED = "qwen takes @name for a file to read: it was sent as \\@name"

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
    if turn.system:
        flags.append(_argument("--append-system-prompt", turn.system))
    if turn.schema is not None:
        flags.append(_argument("--json-schema", json.dumps(turn.schema, separators=(",", ":"))))
    if turn.lean:
        flags.append("--bare")
    files: dict[str, bytes] = {}
    flags += by_file("--mcp-config=", turn, host, files, _server)
    return Launch(
        argv=(host.executable, *flags),
        stdin=prompt.encode(),
        files=files,
        env={"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"},
        notices=(*notices, *((OUTSIDE,) if turn.access == "write" else ())),
    )


def _prompt(turn: Turn) -> tuple[str, tuple[str, ...]]:
    """The prompt with its attachments, and what was done to it. `Turn.command` sends it as it is."""
    said = with_attachments(literal(turn), [a for a in turn.attachments if a.content is not None])
    sent = said if turn.command else MENTION.sub(r"\\@", said)
    files = [a for a in turn.attachments if a.content is None]
    return with_attachments(sent, files), (MENTIONED,) if sent != said else ()


def _tools(turn: Turn) -> list[str]:
    """An allow-list, deny rules and no MCP servers: what holds where the user's settings allow everything."""
    allowed, denied = tool_names(AGENT, turn.tools_allowed), tool_names(AGENT, turn.tools_denied)
    offered = {"read": READING, "write": (*READING, *EDITS), "full": ()}[turn.access]
    core = [name for name in allowed if not offered or name in offered] if allowed else offered
    approved = [name for name in core if allowed and name not in (*EDITS, *COMMANDS, "read_file")]
    approved += attachment_rules(turn)
    flags = [f"--core-tools={','.join(core)}"] if core or allowed else []
    if turn.access != "full":
        denied = (*(name for name in (*EDITS, *COMMANDS) if name not in offered), *denied)
        servers = [name.split("__")[1] for name in allowed if name.startswith("mcp__")]
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
        raise OstlerError("unsupported", f"qwen takes {flag} of up to {ARGUMENT_LIMIT:,} bytes")
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

    def remedy(self, name: str) -> Access | None:
        if self.turn.access == "read" and name in EDITS:
            return "write"
        return "full" if self.turn.access != "full" else None

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        # A plain answer under a schema is an answer, which ostler looks into; qwen calls it an error, exit 1.
        return super().end(None if self.plain and exit and exit.code == 1 else exit, stderr_tail)

    def _result(self, record: Record) -> list[AnyEvent]:
        self.steps = number(record.get("num_turns"))
        self._denials(record)
        self._count(table(record.get("usage")))
        evidence, events = f"result {text(record.get('subtype'))}", self._owed()
        wrong = text(table(record.get("error")).get("message"))
        self.plain = bool(self.turn.schema and self.text and PLAIN in wrong)
        if self.plain:
            self.succeed(evidence + ", plain text in place of the schema's tool")
        elif record.get("is_error") or record.get("subtype") != "success":
            wrong = (wrong or text(record.get("result"))).removeprefix("[").removesuffix("]")
            kind = kind_said(None, wrong)
            self.fail(evidence, kind, wrong, self.hint(kind))
        elif self.steps == 0 and not self.turn.command:
            self.fail(evidence + ", num_turns 0", "unproven", "qwen did not ask the model")
        else:
            events += self._answer(text(record.get("result")))
            self.structured = record.get("structured_result", self.structured)
            self.agent_session = self.agent_session or text(record.get("session_id")) or None
            self.succeed(evidence)
        return [*events, *([UsageReport(usage=self.usage)] if self.usage and not self.turn.resume else [])]

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
    binaries=("qwen",),
    install="npm install -g @qwen-code/qwen-code",
    dialog=qwen_dialog.face(launch, _prompt, QwenReader),
    mcp=TRANSPORTS,
    launch=launch,
    reader=QwenReader,
    models=("qwen*",),
    needs=(
        *("--output-format", "--include-partial-messages", "--approval-mode", "--core-tools", "--exclude-tools"),
        *("--allowed-mcp-server-names", "--session-id", "--resume"),
    ),
    env=("OPENAI_*", "QWEN_*", "DASHSCOPE_*", "BAILIAN_*", "MODELSCOPE_*", "OPENROUTER_*", "ANTHROPIC_*", "GEMINI_*"),
    drop=("QWEN_CODE", "QWEN_CODE_NO_RELAUNCH", "QWEN_CODE_LAUNCHER_PID", "QWEN_CODE_SESSION_ID", "GEMINI_PROJECT_DIR"),
    keys=("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
    login_files=(".qwen/oauth_creds.json",),
    login_elsewhere=True,  # keys in ~/.qwen/settings.json and ~/.qwen/.env
    access={
        "read": "`--approval-mode=default`, `--core-tools` with reading tools alone, `--exclude-tools` for what"
        " writes or runs commands, no MCP servers",
        "write": "`--approval-mode=auto-edit`, `--core-tools` with reading and editing tools, neither commands"
        " nor MCP servers",
        "full": "`--approval-mode=yolo`",
    },
    unpromised={"write": "its edits are not kept inside the folder"},
    unconfined={
        "read": "hooks of the user and of the folder",
        "write": "edits are not kept inside the folder; hooks of the user and of the folder",
    },
    tools={
        **{"shell": ("run_shell_command",), "read": ("read_file",), "write": ("write_file",), "web": ("web_fetch",)},
        **{"edit": ("edit", "notebook_edit"), "search": ("grep_search", "glob", "list_directory")},
        **{"todo": ("todo_write",), "subagent": ("agent",)},
    },
    forks=True,
    chooses_id=True,
    schema="native",
    system="flag",
    tool_lists=True,
    images="path",
    deltas=True,
    conversations=(".qwen/projects/*/chats/*.jsonl",),
    conversation=conversation,
)
