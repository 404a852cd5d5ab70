"""gemini: Google's Gemini CLI. One turn is `gemini --output-format=stream-json` with the prompt on stdin."""

import json
import re
from collections.abc import Sequence

from ostler.agents import gemini_dialog
from ostler.agents.adapter import (
    Agent,
    Conversation,
    Reader,
    Record,
    kind_of,
    spoken,
    title_of,
    tool_names,
    with_attachments,
)
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
    Notice,
    Problem,
    Raw,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    Verdict,
)

PROMPT_LIMIT = 8_388_608  # bytes; gemini cuts what is longer

MODES: dict[Access, str] = {"read": "default", "write": "auto_edit", "full": "yolo"}
# Names with a `*` are prefixes. Nothing confines these to the folder, so `write` has none of them either.
UNCONFINED = ("run_shell_command", "save_memory", "mcp_*", "discovered_tool_*")
REFUSED: dict[Access, tuple[str, ...]] = {
    "read": ("write_file", "replace", *UNCONFINED),
    "write": UNCONFINED,
    "full": (),
}
# Files that a trusted folder has loaded into gemini's environment, whatever they set.
ENV_FILES = (".env", ".gemini/.env")

MENTION = re.compile(r"(?<!\\)@(?=[^ \t\r\n,;!?()\[\]{}])")


# -- launch -----------------------------------------------------------------------------------------


def launch(turn: Turn, host: Host) -> Launch:
    prompt, notices = _prompt(turn)
    if turn.access == "write":
        notices += ("gemini cannot confine commands to the folder: it has no shell, run again with --access full",)
    if len(prompt) > PROMPT_LIMIT:
        raise OstlerError("bad_request", f"gemini takes prompts of up to {PROMPT_LIMIT:,} bytes, not {len(prompt):,}")
    flags = [f"--approval-mode={MODES[turn.access]}", *_conversation(turn)]
    if not host.folder_names.intersection(ENV_FILES):
        # Later than GEMINI_CLI_TRUST_WORKSPACE: the folder's own settings, hooks and servers stay untrusted.
        flags.append("--skip-trust")
    if turn.model:
        flags.append(f"--model={turn.model}")
    files = {}
    if policy := _policy(turn):
        path = f"{host.private}/policy.toml"
        files[path] = policy.encode()
        flags.append(f"--policy={path}")
    return Launch(
        argv=(host.executable, "--output-format=stream-json", *flags),
        stdin=prompt,
        env={"GEMINI_CLI_NO_RELAUNCH": "true"},  # its launcher ignores signals and cuts long lines
        files=files,
        notices=notices,
    )


def _conversation(turn: Turn) -> list[str]:
    if turn.fork:
        raise OstlerError("unsupported", "gemini cannot fork a conversation", "Start a new session")
    if turn.agent_session is None:
        return []
    if not UUID.fullmatch(turn.agent_session):  # `latest` or a number would be some other conversation
        raise OstlerError(
            "bad_request", f"{turn.agent_session!r} is not an id of a gemini conversation", "Its ids are UUIDs"
        )
    return [f"--{'resume' if turn.resume else 'session-id'}={turn.agent_session}"]


def _policy(turn: Turn) -> str:
    """Deny rules that hold against settings, trusted servers and project policies: the user tier's highest."""
    denied = (*REFUSED[turn.access], *tool_names(AGENT, turn.tools_denied))
    allowed = tool_names(AGENT, turn.tools_allowed)
    rules = [(name, "deny", 999) for name in denied] + [(name, "allow", 998) for name in allowed]
    return "\n".join(
        f'[[rule]]\ntoolName = {json.dumps(name)}\ndecision = "{decision}"\npriority = {priority}\n'
        for name, decision, priority in rules
    )


def _prompt(turn: Turn) -> tuple[bytes, tuple[str, ...]]:
    """The prompt as bytes, and what was done to it.

    gemini puts the files that `@name` (or a glob of it) finds into the prompt, wherever it stands;
    only a backslash keeps it from that. `Turn.command` sends the prompt as it is.
    """
    if turn.command:
        return turn.prompt.encode(), ()
    whole, notices = turn.prompt, []
    if turn.system and turn.first:  # GEMINI_SYSTEM_MD would replace gemini's own
        whole = f"{turn.system}\n\n{whole}"
        notices.append("the system prompt was put before the first prompt")
    whole = with_attachments(whole, [a for a in turn.attachments if a.content is not None])
    prompt = MENTION.sub(r"\\@", whole)
    if prompt != whole:
        notices.append("gemini takes @name for a file to read: it was sent as \\@name")
    if prompt.startswith("/"):
        prompt = "\n" + prompt
    if named := [_mention(turn, a) for a in turn.attachments if a.content is None]:
        prompt += "\n\nAttached files:\n" + "\n".join(f"- {name}" for name in named)
    return prompt.encode(), tuple(notices)


def _mention(turn: Turn, attachment: Attachment) -> str:
    """gemini's own way to attach a file, image or text, which must lie in the folder."""
    folder = turn.folder.rstrip("/") + "/"
    if not attachment.path.startswith(folder) or "/../" in attachment.path:
        raise OstlerError(
            "unsupported", f"gemini reads files of its folder only, not {attachment.path}", f"Copy it to {folder}"
        )
    name = attachment.path.removeprefix(folder)
    plain = re.fullmatch(r"[\w./+=~ -]+", name)
    return "@" + name.replace(" ", "\\ ") if plain else name


# -- reading ----------------------------------------------------------------------------------------


class GeminiReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.deltas: list[str] = []

    def read(self, record: Record) -> list[AnyEvent]:
        if record.get("type") == "message" and record.get("role") == "assistant" and record.get("delta"):
            delta = text(record.get("content"))
            self.deltas.append(delta)
            return [TextDelta(text=delta)]
        return [*self._wholetext(), *self._other(record)]

    def _other(self, record: Record) -> list[AnyEvent]:
        match record.get("type"):
            case "init":
                self.agent_session = text(record.get("session_id")) or None
                self.model = text(record.get("model")) or None
                return [self.started()]
            case "message" if record.get("role") == "user":
                return []
            case "message" if record.get("role") == "assistant":
                return [self.whole(text(record.get("content")))]
            case "tool_use":
                return [self._tool_use(record)]
            case "tool_result":
                return [self._tool_result(record)]
            case "error":
                return [Notice(text=text(record.get("message")), code=text(record.get("severity")) or "error")]
            case "result" if record.get("status") in ("success", "error"):
                self._result(record)
                return []
        return [Raw(record=record)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """Retries, which may last minutes, stand on stderr alone."""
        if not (found := RETRY.match(line)):
            return []
        kind = kind_of(int(found[2]) if found[2] else None, line)
        return [
            Limited(
                error=kind if kind in ("limited", "unauthenticated") else "overloaded",
                message=line[:300],
                attempt=int(found[1]),
                retry_in=int(found[3]) / 1000 if found[3] else None,
            )
        ]

    def flush(self) -> list[AnyEvent]:
        return [*self._wholetext(), *super().flush()]

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        code = exit.code if exit is not None else None
        if self.problem is not None and code is not None and 144 <= code <= 255:
            # The exit code is the server's status modulo 256; the message often does not say it.
            self.fail(f"exit code {code}", kind_of(code + 256, ""), self.problem.message, self.problem.hint)
        return super().end(exit, stderr_tail)

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        said = [line for line in ANSI.sub("", stderr_tail).splitlines() if not NOISE.match(line)]
        if exit is None or exit.code not in EXITS:
            return super().no_result(exit, "\n".join(said))
        kind, hint = EXITS[exit.code]
        message = said[0].strip()[:500] if said else f"gemini ended with {spoken(exit)}"
        if "resuming session" in message:
            kind, hint = "not_found", "Start a new session; gemini finds a conversation in its own folder only"
        elif "already exists" in message:
            kind = "exists"
        return Problem(kind=kind, message=message, hint=hint)

    def _wholetext(self) -> list[AnyEvent]:
        whole = "".join(self.deltas)
        self.deltas.clear()
        return [self.whole(whole)] if whole else []

    def _tool_use(self, record: Record) -> ToolStarted:
        name, input = text(record.get("tool_name")), record.get("parameters")
        path = text(table(input).get("file_path"))
        files = (FileChange(path=path),) if path and name in ("write_file", "replace") else ()
        id = text(record.get("tool_id"))
        return self.tool_started(ToolStarted(id=id, name=name, title=title_of(name, input), input=input, files=files))

    def _tool_result(self, record: Record) -> ToolEnded:
        id, output = text(record.get("tool_id")), text(record.get("output"))
        tool = self.open_tools.get(id) or ToolStarted(id=id, name="")
        code = re.search(r"^Command exited with code: (\d+)$", output, re.M)
        ok = record.get("status") == "success" and (code is None or code[1] == "0")
        denial = self._denial(tool, table(record.get("error")))
        if denial is not None:
            self.denied.append(denial)
        return self.tool_ended(
            ToolEnded(
                id=id,
                ok=ok,
                output=output,
                files=tool.files if ok else (),
                exit_code=int(code[1]) if code else None,
                denied=denial is not None,
            )
        )

    def _denial(self, tool: ToolStarted, error: Record) -> Denial | None:
        """A tool that the access takes away is not offered to the model, which may call it all the same."""
        kind, message = text(error.get("type")), text(error.get("message"))
        if not message:
            return None
        if message.startswith("Path not in workspace"):
            wider: Access | None = None if self.turn.access == "full" else "full"  # by a command, even then
            return Denial(tool=tool.name, target=tool.title, access=wider, reason="outside of the folder")
        taken = _takes(self.turn.access, tool.name)
        if not taken and kind != "policy_violation":
            return None
        wider = next(a for a in MODES if not _takes(a, tool.name)) if taken else None
        return Denial(tool=tool.name, target=tool.title, access=wider, reason=message)

    def _result(self, record: Record) -> None:
        stats, error = table(record.get("stats")), table(record.get("error"))
        self.usage = _usage_of(stats)
        self.model = _served_by(table(stats.get("models"))) or self.model
        if record["status"] == "success":
            self.succeed("result: success")
            return
        status, message = _api_error(text(error.get("message")))
        kind = FATAL.get(text(error.get("type"))) or kind_of(status, message)
        if kind == "crashed" and "API Error" in text(error.get("message")):
            kind = "overloaded"  # `terminated`, `Unexpected end of JSON input`: the stream broke
        self.fail("result: error", kind, message, LOGIN if kind == "unauthenticated" else "")


def _takes(access: Access, name: str) -> bool:
    """Whether that access takes the tool away."""
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in REFUSED[access])


# -- what records and messages say ------------------------------------------------------------------

ANSI = re.compile(r"\x1b\[[0-9;]*m")
NOISE = re.compile(
    r"\s*$|    at |Warning: True color|YOLO mode is enabled|Ripgrep is not|\[STARTUP\]|Approval mode overridden"
    r"|Warning: --allowed-tools"
)
RETRY = re.compile(r"Attempt (\d+) failed(?: with status (\d+))?.*?Retrying(?: after (\d+)ms)?")
LOGIN = "Log in: run gemini once, or set GEMINI_API_KEY"
EXITS: dict[int | None, tuple[ErrorKind, str]] = {
    41: ("unauthenticated", LOGIN),
    42: ("bad_request", ""),
    44: ("bad_request", ""),
    52: ("bad_request", "Mend ~/.gemini/settings.json"),
    55: ("denied", "The folder has a .env file: run gemini there once and trust the folder"),
    130: ("cancelled", ""),
}
FATAL: dict[str, ErrorKind] = {
    "FatalAuthenticationError": "unauthenticated",
    "FatalInputError": "bad_request",
    "FatalConfigError": "bad_request",
    "FatalUntrustedWorkspaceError": "denied",
    "FatalCancellationError": "cancelled",
}


def _api_error(message: str) -> tuple[int | None, str]:
    """`[API Error: {"error":{"code":…,"message":…}}]` as its status and its words."""
    inner = re.sub(r"^\[API Error: (.*?)\]$", r"\1", message, count=1, flags=re.S | re.M)
    try:
        error = json.loads(inner)["error"]
        return int(error["code"]), str(error["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None, inner


def _usage_of(stats: Record) -> Usage:
    return Usage(
        input_tokens=number(stats.get("input_tokens")),
        output_tokens=number(stats.get("output_tokens")),
        cached_tokens=number(stats.get("cached")),
    )


def _served_by(models: Record) -> str | None:
    """The model that did most of the work: `init` may say `auto`, and a router takes part."""
    counted = [(number(table(m).get("total_tokens")) or 0, name) for name, m in models.items()]
    return max(counted)[1] if counted else None


# -- description ------------------------------------------------------------------------------------


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A look at `session-*.jsonl`: its first record names it, gemini's first message tells the folder."""
    id = text(records[0].get("sessionId")) if records else ""
    if not UUID.fullmatch(id):
        return None
    folder = title = ""
    for said in (said for record in records for said in _user_texts(record)):
        if said.startswith("<session_context>"):
            found = re.search(r"Workspace Directories:\*\*\s+- (/[^\n]*)", said)
            folder = found[1] if found else folder
        elif said.strip() and not title:
            title = said.strip().splitlines()[0][:200]
    return Conversation(id=id, folder=folder, title=title)


def _user_texts(record: Record) -> list[str]:
    messages = tables(table(record.get("$set")).get("messages")) or [record]
    parts = [part for m in messages if m.get("type") == "user" for part in tables(m.get("content"))]
    return [text(part.get("text")) for part in parts]


AGENT = Agent(
    name="gemini",
    title="Gemini CLI",
    binaries=("gemini",),
    install="npm install -g @google/gemini-cli",
    dialog=gemini_dialog.face(launch),
    launch=launch,
    reader=GeminiReader,
    models=("gemini*",),
    needs=("--output-format", "--approval-mode", "--policy", "--skip-trust", "--session-id", "--resume"),
    env=("GEMINI_*", "GOOGLE_*", "CLOUDSDK_*"),
    drop=("GEMINI_CLI", "GEMINI_SYSTEM_MD", "GEMINI_WRITE_SYSTEM_MD", "GEMINI_CLI_IDE_SERVER_PORT"),
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    login_files=(".gemini/oauth_creds.json",),
    login_elsewhere=True,  # the keychain, Vertex AI's own credentials, ~/.gemini/.env
    folder_names=ENV_FILES,
    prompt_limit=PROMPT_LIMIT,
    access={
        "read": "`--approval-mode=default`, a private `--policy` that denies writing, shell and MCP tools",
        "write": "`--approval-mode=auto_edit`, a private `--policy` that denies shell and MCP tools",
        "full": "`--approval-mode=yolo`",
    },
    unconfined={
        "read": "hooks of the user's settings; the user's own policy files do not count",
        "write": "folders that the user's settings include are writable too; hooks and policy files as for read",
    },
    tools={
        "shell": ("run_shell_command",),
        "read": ("read_file", "read_many_files"),
        "write": ("write_file",),
        "edit": ("replace",),
        "search": ("grep_search", "glob"),
        "web": ("google_web_search", "web_fetch"),
        "todo": ("write_todos",),
    },
    chooses_id=True,
    system="prompt",
    tool_lists=True,
    images="native",
    deltas=True,
    conversations=(".gemini/tmp/*/chats/session-*.jsonl",),
    conversation=conversation,
)
