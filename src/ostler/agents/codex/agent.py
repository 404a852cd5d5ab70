"""codex: OpenAI's Codex CLI."""

from collections.abc import Sequence

from ostler.agents.adapter import Agent, Conversation, OwnSandbox
from ostler.agents.codex import tui as own_screen
from ostler.agents.codex.hooks import HOOKS
from ostler.agents.codex.launch import PROMPT_LIMIT, dialog_launch, launch
from ostler.agents.codex.reader import NEEDS, CodexReader
from ostler.agents.dialog import Dialog, DialogFace
from ostler.agents.tui import TuiFace
from ostler.agents.values import UUID, Record, tables, text
from ostler.model import Host, Turn


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


def dialog(turn: Turn, host: Host) -> Dialog:
    from ostler.agents.codex.dialog import CodexDialog  # turns of one process each have no use for it

    return CodexDialog(turn, host)


AGENT = Agent(
    name="codex",
    title="Codex CLI",
    monogram="cx",
    hue=160,
    nested=("CODEX_SANDBOX*", "CODEX_THREAD_ID", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "CODEX_CI"),
    binaries=("codex",),
    flags_at=2,
    refused_flags=(
        *("dangerously-*", "yolo", "full-auto", "sandbox", "ask-for-approval", "add-dir", "config", "profile", "cd"),
        *("enable", "disable", "ignore-*", "json", "output-*", "image", "model", "oss", "local-provider", "remote*"),
        *("skip-git-repo-check", "last", "all", "ephemeral"),
        *("approve-for-me", "search", "worktree", "no-alt-screen", "include-non-interactive"),  # of its own screen
    ),
    hooks=HOOKS,
    install="npm install -g @openai/codex",
    launch=launch,
    reader=CodexReader,
    models=("gpt-*", "gpt5*", "o3*", "o4*", "*codex*"),
    tested=("0.159.0", "0.166.0"),
    needs=("--json", "--sandbox", "--skip-git-repo-check", "--ignore-rules", "--config"),
    help=(("exec", "--help"),),
    env=("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*"),
    drop=("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE"),
    keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
    login_files=(".codex/auth.json",),
    login_command="codex login",
    sandbox=OwnSandbox(check=("", "sandbox", "--", "true"), needs=NEEDS, keeps=("read", "write")),
    homes={"CODEX_HOME": ".codex"},
    login_elsewhere=True,  # the keyring, or a provider of config.toml with its own variable
    project_config=(".codex",),
    guards=(".agents",),
    left_out='`--config=projects={FOLDER={trust_level="untrusted"}}`, for every folder up to the git root',
    instructions=(("AGENTS.override.md", "AGENTS.md"),),
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
        acknowledges=True,
        mcp=("stdio", "http"),
        protocol="app-server",
        access="`app-server` has no `--ignore-rules`: a permission profile of ostler's own keeps `read` and `write` in"
        " the sandbox, whatever rules allow. Approval `never` under `read`, else `untrusted`. What would leave the"
        " sandbox is refused unseen. A thread that codex begins with more is given up",
    ),
    tui=TuiFace(
        launch=own_screen.tui_launch,
        reader=own_screen.CodexTranscript,
        prompt=own_screen.pasted_prompt,
        transcripts=own_screen.transcripts,
        box=own_screen.box,
        is_busy=own_screen.is_busy,
        question=own_screen.question,
        answer_ends=own_screen.answer_ends,
        title_status=own_screen.title_status,
        interrupted=own_screen.INTERRUPTED,
        pasted=r"\[Pasted Content",
        states=True,
        announces=True,
        access="`read` and `write` never ask; under `full` it works in its sandbox and asks to leave it",
    ),
    tools={
        **{"shell": ("command_execution",), "edit": ("file_change",), "web": ("web_search",)},
        # Tools of MCP servers are SERVER.TOOL; what they are, and which tools are of other agents, its records say.
        "agent": ("agent", "spawn_agent", "send_input", "resume_agent", "wait", "close_agent"),
    },
    mcp=("stdio",),
    forks=True,
    schema="native",
    system="flag",
    replaces_system=True,
    images="native",
    conversations=(".codex/sessions/*/*/*/rollout-*.jsonl",),
    conversation=conversation,
)
