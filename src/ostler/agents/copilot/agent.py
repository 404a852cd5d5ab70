"""copilot: GitHub's Copilot CLI. One turn is `copilot --output-format=json`, the prompt on stdin."""

import re
from collections.abc import Sequence

from ostler.access import Access
from ostler.agents.adapter import Agent, Conversation, State, tool_names
from ostler.agents.copilot import dialog
from ostler.agents.copilot import tui as own_screen
from ostler.agents.copilot.reader import EDITS, OFFERED, CopilotReader
from ostler.agents.launches import refuse_untrusted, with_attachments
from ostler.agents.mcp import MCP_TRANSPORTS, by_file, typed
from ostler.agents.paths import is_inside
from ostler.agents.tui import TuiFace
from ostler.agents.values import Record, table, text
from ostler.model import Attachment, Host, Launch, Turn

SHELL = ("bash", "read_bash", "write_bash", "stop_bash", "list_bash")
# Denials come before every allowance: flags, saved approvals, COPILOT_ALLOW_ALL.
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": ("--deny-tool=write", "--deny-tool=shell", "--disallow-temp-dir"),
    "write": ("--deny-tool=shell", "--disallow-temp-dir"),
    "full": ("--allow-all",),
}
# Behind a wall; with `write(FOLDER/**)` it would refuse a redirection, whatever it leads to.
WALLED = ("--allow-tool=shell", "--allow-tool=write")
# The settings in a folder count in a turn of one process by these.
FOLDER_COUNTS = ("GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS", "GITHUB_COPILOT_PROMPT_MODE_WORKSPACE_MCP")
NO_SHELL = "copilot cannot keep its shell to the folder, so it has none; for commands, run again with --access full"


def launch(turn: Turn, host: Host) -> Launch:
    # In a dialog it runs a folder's hooks whatever it is told, else where the user has trusted the folder in copilot.
    refuse_untrusted(turn, host)
    runs = turn.walled and turn.access == "write"
    flags = [*(() if runs else ACCESS[turn.access]), *_tools(turn), *_conversation(turn)]
    if turn.access == "write":
        flags += WALLED if runs and turn.transport == "pipe" else (_writable(turn.folder),)  # elsewhere it asks
    if turn.model:
        flags.append(f"--model={turn.model}")
    flags += [f"--attachment={a.path}" for a in turn.attachments if _native(a)]
    others = [a for a in turn.attachments if not _native(a)]
    if turn.access != "full":
        flags += [f"--add-dir={parent}" for parent in _parents(turn, others)]
    env, files = dict.fromkeys(FOLDER_COUNTS, "true") if host.trusted else {}, dict[str, bytes]()
    flags += by_file("--additional-mcp-config=@", turn, host, files, lambda server: {**typed(server), "tools": ["*"]})
    if turn.system:
        # Among its instruction files, this is the one it reads from a folder it is told of, beside all others.
        files[f"{host.private}/.github/instructions/ostler.instructions.md"] = turn.system.encode()
        given = turn.env.get("COPILOT_CUSTOM_INSTRUCTIONS_DIRS", "")
        env["COPILOT_CUSTOM_INSTRUCTIONS_DIRS"] = ",".join(filter(None, (given, host.private)))
    return Launch(
        argv=(host.executable, "--output-format=json", "--no-auto-update", *flags),
        stdin=with_attachments(_literal(turn), others).encode(),
        env=env,
        files=files,
        notices=(NO_SHELL,) if turn.access == "write" and not runs else (),
    )


def tui_launch(turn: Turn, host: Host) -> Launch:
    return own_screen.tui_launch(launch(turn, host))


def _tools(turn: Turn) -> list[str]:
    offered: Sequence[str] = OFFERED if turn.access != "full" else ()
    if turn.tools_allowed:
        wanted = tool_names(AGENT, turn.tools_allowed)
        offered = [name for name in wanted if name in OFFERED or turn.access == "full"]
    # An empty list would be no list.
    flags = [f"--available-tools={','.join(offered) or 'none'}"] if offered or turn.tools_allowed else []
    if turn.tools_denied:
        flags.append(f"--excluded-tools={','.join(tool_names(AGENT, turn.tools_denied))}")
    return flags


def _conversation(turn: Turn) -> list[str]:
    if turn.resume:
        return [f"--resume={turn.agent_session}"]
    return [f"--session-id={turn.agent_session}"] if turn.agent_session else []


def _writable(folder: str) -> str:
    """Allows writes in the folder alone, also where the user has opened other folders to this one."""
    return "--allow-tool=write" if re.search(r"[^\w./ @+-]", folder) else f"--allow-tool=write({folder}/**)"


def _native(a: Attachment) -> bool:
    return a.image and a.content is None


def _parents(turn: Turn, attachments: Sequence[Attachment]) -> list[str]:
    """The folders of files that copilot could not read otherwise."""
    paths = [a.path for a in attachments if a.content is None and not is_inside(a.path, turn.folder)]
    return sorted({path.rpartition("/")[0] or "/" for path in paths})


def _literal(turn: Turn) -> str:
    """`/compact` is the one command it runs here, and it trims before it looks: a newline would not help."""
    if not turn.command and re.match(r"\s*/compact\b", turn.prompt):
        return "\u200b" + turn.prompt
    return turn.prompt


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A conversation from the head of its events file; one without a prompt is none."""
    start = next((table(r.get("data")) for r in records if r.get("type") == "session.start"), {})
    prompt = next((text(table(r.get("data")).get("content")) for r in records if r.get("type") == "user.message"), "")
    id, folder = text(start.get("sessionId")), text(table(start.get("context")).get("cwd"))
    if not id or not prompt.strip():
        return None
    return Conversation(id=id, folder=folder, title=prompt.strip().splitlines()[0][:200])


AGENT = Agent(
    name="copilot",
    title="GitHub Copilot CLI",
    monogram="co",
    hue=220,
    nested=("COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"),
    binaries=("copilot",),
    install="npm i -g @github/copilot",
    dialog=dialog.face(launch),
    launch=launch,
    reader=CopilotReader,
    tui=TuiFace(
        launch=tui_launch,
        reader=own_screen.CopilotTranscript,
        prompt=own_screen.pasted_prompt,
        transcripts=own_screen.transcripts,
        box=own_screen.box,
        is_busy=own_screen.is_busy,
        question=own_screen.question,
        answer_ends=own_screen.answer_ends,
        starts_deaf=True,
        interrupt=("Escape", "Escape"),
        interrupted=own_screen.INTERRUPTED,
        pasted=own_screen.PASTED,
        paste_most=4000,  # of some 25 KB it makes a file, which its model would have to read
        access="the denials of each access; what they leave open is asked. Answering no ends the turn",
    ),
    tested=("1.0.79", "1.0.102"),
    needs=(
        *("--output-format", "--no-auto-update", "--session-id", "--resume", "--deny-tool", "--allow-tool"),
        *("--available-tools", "--allow-all", "--disallow-temp-dir"),
    ),
    env=("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"),
    # The first two would widen every turn; the rest speak of a copilot that runs ostler.
    drop=(
        *("COPILOT_ALLOW_ALL", "COPILOT_ASSISTED_APPROVAL", "COPILOT_AGENT_SESSION_ID", "COPILOT_CLI"),
        *("COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_RESOLVED_DIST_DIR", "COPILOT_LOADER_PID"),
    ),
    keys=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
    login_command="copilot login",
    login_elsewhere=True,
    project_config=(
        *(".github/hooks", ".github/copilot", ".github/extensions", ".github/agents", ".github/mcp.json"),
        *(".github/lsp.json", ".github/plugin", ".copilot", ".mcp.json", ".vscode/mcp.json"),
        *(".claude/settings.json", ".claude/settings.local.json", ".claude/skills", ".claude/agents"),
    ),
    guards=(".github/copilot*",),
    left_out="`denied`: it has no switch; in a dialog it runs the hooks of untrusted folders",
    mcp=MCP_TRANSPORTS,
    access={
        "read": "--deny-tool=write --deny-tool=shell --available-tools=… (no MCP tools)",
        "write": "--allow-tool=write(FOLDER/**) --available-tools=…",
        "full": "--allow-all",
    },
    unconfined={
        "read": "hooks and MCP servers of your set-up run; folders you opened to this one are readable",
        "write": "as for read; where you approved all writes yourself, folders you opened are writable too. It has no"
        " shell (--deny-tool=shell)",
        "full": "everything",
    },
    tools={
        **{
            "shell": SHELL,
            "read": ("view",),
            "write": ("create",),
            "edit": EDITS[1:],
            "search": ("grep", "rg", "glob"),
        },
        **{"web": ("web_fetch",), "plan": ("update_todo", "sql"), "agent": ("task", "read_agent", "list_agents")},
    },
    own_tools=("skill", "fetch_copilot_cli_documentation", "report_intent", "ask_user", "store_memory"),
    chooses_id=True,
    system="file",
    tool_lists=True,
    images="native",
    deltas=True,
    tokens=False,
    homes={"COPILOT_HOME": ".copilot"},
    state=State(
        shadowed=".copilot",
        kept=(".copilot/session-state",),
        anew=("session-store*", "*.lock", "logs"),
        prepare=("--version",),  # unpacks it
        prepared=(".cache/copilot/pkg",),
    ),
    conversations=(".copilot/session-state/*/events.jsonl",),
    conversation=conversation,
)
