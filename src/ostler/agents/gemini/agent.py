"""gemini: Google's Gemini CLI. One turn is `gemini --output-format=stream-json` with the prompt on stdin."""

import json
import re
from collections.abc import Sequence

from ostler.access import Access
from ostler.agents.adapter import Agent, Conversation, State, tool_names
from ostler.agents.gemini import dialog
from ostler.agents.gemini import tui as own_screen
from ostler.agents.gemini.reader import SHELL, GeminiReader, refused_tools
from ostler.agents.hooks import HookFace, named_hooks
from ostler.agents.launches import SYSTEM_FIRST, refuse_untrusted, with_attachments
from ostler.agents.paths import is_inside, relative_to
from ostler.agents.tui import TuiFace
from ostler.agents.values import UUID, Record, table, tables, text
from ostler.errors import OstlerError, quoted
from ostler.model import Attachment, Host, Launch, Turn

PROMPT_LIMIT = 8_388_608  # bytes; gemini cuts what is longer
MODES: dict[Access, str] = {"read": "default", "write": "auto_edit", "full": "yolo"}
TRUST = "GEMINI_CLI_TRUST_WORKSPACE"
FROM_ENV_FILES = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")

# Without it, gemini to 0.55 asks for no trust, whatever it is told.
ASKS_FOR_TRUST = {"security": {"folderTrust": {"enabled": True}}}
# A conversation that is resumed in a later minute gets a second, empty file. The clean-up of whichever gemini
# starts next takes that file for a broken one, and deletes all files of that conversation. The files that
# `GEMINI_CLI_SYSTEM_SETTINGS_PATH` and `…_DEFAULTS_PATH` name count only where they, and all folders above, are root's.
KEEP_CONVERSATIONS = {"general": {"sessionRetention": {"enabled": False}}}
# AfterModel is left out: it fires for each piece of an answer.
HOOKS = HookFace(
    events=("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "Notification", "AfterAgent", "SessionEnd"),
    submits="BeforeAgent",
    ends=("AfterAgent",),
    proves=(),  # it fires after an interrupt, too
    before_tool="BeforeTool",
    after_tool="AfterTool",
    denies=lambda reason: {"decision": "deny", "reason": reason},
    allows=lambda: None,
    by="a private copy of your settings, in a shadow of `~/.gemini` (`GEMINI_CLI_HOME`), beside your own hooks",
)
MENTION = re.compile(r"(?<!\\)@(?=[^ \t\r\n,;!?()\[\]{}])")


def launch(turn: Turn, host: Host) -> Launch:
    prompt, notices = _prompt(turn)
    if turn.access == "write" and not turn.walled:
        notices += ("gemini cannot confine commands to the folder: it has no shell, run again with --access full",)
    if len(prompt) > PROMPT_LIMIT:
        raise OstlerError(
            "bad_request", f"the prompt has {len(prompt):,} bytes; gemini accepts at most {PROMPT_LIMIT:,}"
        )
    trust, env = _trust(turn, host)
    flags = [f"--approval-mode={MODES[turn.access]}", *_conversation(turn), *trust]
    if turn.model:
        flags.append(f"--model={turn.model}")
    files: dict[str, bytes] = {}
    if policy := _policy(turn):
        path = f"{host.private}/policy.toml"
        files[path] = policy.encode()
        flags.append(f"--policy={path}")
    env |= _trusts_nothing(turn, host, files)
    if turn.system and turn.system_mode == "replace":
        env["GEMINI_SYSTEM_MD"] = f"{host.private}/system.md"
        files[env["GEMINI_SYSTEM_MD"]] = turn.system.encode()
    hooks = named_hooks(HOOKS, turn, host, files, scale=1000)
    return Launch(
        argv=(host.executable, "--output-format=stream-json", *flags),
        stdin=prompt,
        env={**env, "GEMINI_CLI_NO_RELAUNCH": "true"},  # its launcher ignores signals and cuts long lines
        default_env=_nothing_of_env_files(turn, host),
        files=files,
        settings={
            **KEEP_CONVERSATIONS,
            **({} if host.trusted else ASKS_FOR_TRUST),
            **({"hooks": hooks} if hooks else {}),
        },
        notices=notices,
    )


def tui_launch(turn: Turn, host: Host) -> Launch:
    return own_screen.tui_launch(launch(turn, host), turn)


def tui_prompt(turn: Turn) -> str:
    return own_screen.pasted_prompt(_prompt(turn)[0].decode(), turn)


def _trust(turn: Turn, host: Host) -> tuple[list[str], dict[str, str]]:
    """Flags and variables that say whether the folder is trusted, whatever the user told gemini itself.

    Without a terminal gemini does not run in a folder that is not trusted. So it is not while settings are read, and
    is by the flag, which counts later. But some things are read later still: `.env` files, and in a dialog that took
    long to begin, everything. A dialog can do without the flag, since it asks.
    """
    if host.trusted:
        return [], {TRUST: "true"}
    if host.untrusted and turn.transport == "dialog":
        return [], {TRUST: "false"}
    if any(path.endswith("/.env") for path in host.project_config):
        refuse_untrusted(turn, host)
    return ["--skip-trust"], {TRUST: "false"}


def _trusts_nothing(turn: Turn, host: Host, files: dict[str, bytes]) -> dict[str, str]:
    """To 0.55 the variable says nothing unless it is `true`, so it goes by the user's own list: it is given another."""
    if host.trusted:
        return {}
    path = f"{host.private}/trusted-folders.json"
    files[path] = json.dumps(dict.fromkeys(host.levels or (turn.folder,), "DO_NOT_TRUST")).encode()
    return {"GEMINI_CLI_TRUSTED_FOLDERS_PATH": path}


def _nothing_of_env_files(turn: Turn, host: Host) -> dict[str, str]:
    """Of a folder that is not trusted gemini still takes these, where the user has none: an empty one counts as set."""
    if not host.untrusted or turn.transport != "dialog":
        return {}
    return dict.fromkeys(FROM_ENV_FILES, "")


def _conversation(turn: Turn) -> list[str]:
    if turn.fork:
        raise OstlerError("unsupported", "gemini cannot fork a conversation", "Start a new session")
    if turn.agent_session is None:
        return []
    if not UUID.fullmatch(turn.agent_session):  # `latest` or a number would be some other conversation
        raise OstlerError(
            "bad_request", f"{quoted(turn.agent_session)} is not an id of a gemini conversation", "Its ids are UUIDs"
        )
    return [f"--{'resume' if turn.resume else 'session-id'}={turn.agent_session}"]


def _policy(turn: Turn) -> str:
    """Deny rules that hold against settings, trusted servers and project policies: the user tier's highest."""
    refused, allowed = refused_tools(turn.access, turn.walled), tool_names(AGENT, turn.tools_allowed)
    denied = (*refused, *tool_names(AGENT, turn.tools_denied))
    runs = turn.access == "write" and turn.walled and turn.transport == "pipe"  # elsewhere somebody is asked
    unasked = allowed or ((SHELL,) if runs else ())
    rules = [(name, "deny", 999) for name in denied] + [(name, "allow", 998) for name in unasked]
    if allowed:
        rules.append(("*", "deny", 997))  # else what is not on the list would still run
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
    if turn.system and turn.first and turn.system_mode == "append":
        whole = f"{turn.system}\n\n{whole}"
        notices.append(SYSTEM_FIRST)
    whole = with_attachments(whole, [a for a in turn.attachments if a.content is not None])
    prompt = MENTION.sub(r"\\@", whole)
    if prompt != whole:
        notices.append("gemini would read @name as a file: it was sent as \\@name")
    if prompt.startswith("/"):
        prompt = "\n" + prompt
    if named := [_mention(turn, a) for a in turn.attachments if a.content is None]:
        prompt += "\n\nAttached files:\n" + "\n".join(f"- {name}" for name in named)
    return prompt.encode(), tuple(notices)


def _mention(turn: Turn, attachment: Attachment) -> str:
    """gemini's own way to attach a file, image or text, which must lie in the folder."""
    if not is_inside(attachment.path, turn.folder):
        raise OstlerError(
            "unsupported", f"gemini reads files of its folder only, not {attachment.path}", f"Copy it to {turn.folder}"
        )
    name = relative_to(attachment.path, turn.folder)
    plain = re.fullmatch(r"[\w./+=~ -]+", name)
    return "@" + name.replace(" ", "\\ ") if plain else name


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
    monogram="ge",
    hue=255,
    nested=("GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH"),
    binaries=("gemini",),
    flags_at=1,
    refused_flags=(
        *("yolo", "approval-mode", "policy", "admin-policy", "allowed-*", "include-directories", "extensions"),
        *("sandbox*", "skip-trust", "experimental-*", "acp", "output-format", "prompt*", "resume", "session-*"),
        *("model", "worktree", "raw-output", "accept-raw-output-risk", "list-*", "delete-session", "fake-responses"),
        "screen-reader",  # which draws another screen
    ),
    hooks=HOOKS,
    install="npm install -g @google/gemini-cli",
    dialog=dialog.face(launch),
    launch=launch,
    reader=GeminiReader,
    models=("gemini*", "models/gemini*", "publishers/google/models/*", "projects/*/publishers/google/models/*"),
    tested=("0.55.1", "0.61.0"),
    needs=("--output-format", "--approval-mode", "--policy", "--skip-trust", "--session-id", "--resume"),
    env=("GEMINI_*", "GOOGLE_*", "CLOUDSDK_*"),
    drop=("GEMINI_CLI", "GEMINI_SYSTEM_MD", "GEMINI_WRITE_SYSTEM_MD", "GEMINI_CLI_IDE_SERVER_PORT"),
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    login_files=(".gemini/oauth_creds.json",),
    login_command="gemini (then type /auth)",
    homes={"GEMINI_CLI_HOME": ""},
    state=State(
        shadowed=".gemini",
        settings="settings.json",
        kept=(".gemini/tmp", ".gemini/history"),
        copied=("projects.json",),
        logins={"oauth_creds.json": ("access_token", "refresh_token", "id_token", "expiry_date")},
    ),
    login_elsewhere=True,  # the keychain, Vertex AI's own credentials, ~/.gemini/.env
    project_config=(
        *(".gemini/settings.json", ".gemini/agents", ".gemini/extensions", ".gemini/policies", ".gemini/commands"),
        *(".gemini/hooks", ".gemini/skills"),
    ),
    project_config_above=(".env", ".gemini/.env"),
    left_out="`GEMINI_CLI_TRUST_WORKSPACE=false` and a list of trusted folders in which it is not"
    " (`GEMINI_CLI_TRUSTED_FOLDERS_PATH`); without `--dialog`"
    " also `--skip-trust`, and `denied` where there are `.env` files; in a dialog the keys that it would take of them"
    " are set to nothing, unless you have set them",
    instructions=(("GEMINI.md",),),
    passes_over=lambda turn, host: host.untrusted and turn.transport == "dialog",
    prompt_limit=PROMPT_LIMIT,
    access={
        "read": "`--approval-mode=default`, a private `--policy` that denies writing, shell and MCP tools",
        "write": "`--approval-mode=auto_edit`, a private `--policy` that denies MCP tools",
        "full": "`--approval-mode=yolo`",
    },
    unconfined={
        "read": "hooks of the user's settings; the user's own policy files do not count",
        "write": "folders that the user's settings include are writable too; hooks and policy files as for read."
        " It has no shell",
    },
    tools={
        "shell": ("run_shell_command",),
        "read": ("read_file", "read_many_files"),
        "write": ("write_file",),
        "edit": ("replace",),
        "search": ("grep_search", "search_file_content", "glob", "list_directory"),
        "web": ("google_web_search", "web_fetch"),
        "mcp": ("mcp_*",),
        "plan": ("write_todos",),
        "agent": ("delegate_to_agent", "invoke_agent", "codebase_investigator", "generalist"),
    },
    own_tools=("save_memory", "activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode", "complete_task"),
    tui=TuiFace(
        launch=tui_launch,
        reader=own_screen.GeminiTranscript,
        prompt=tui_prompt,
        transcripts=own_screen.transcripts,
        box=own_screen.box,
        is_busy=own_screen.is_busy,
        question=own_screen.question,
        title_status=own_screen.title_status,
        answer_ends=own_screen.answer_ends,
        interrupted=own_screen.INTERRUPTED,
        banner=own_screen.BANNER,
        pasted=r"\[Pasted Text",
        access="as in turns of one process; under `full` its screen asks. Answering no ends the turn",
    ),
    chooses_id=True,
    system="prompt",
    replaces_system=True,
    tool_lists=True,
    images="native",
    deltas=True,
    conversations=(".gemini/tmp/*/chats/session-*.jsonl",),
    conversation=conversation,
)
