"""opencode: one turn is `opencode run --format=json`, the prompt on stdin.

It has no record that ends a turn: the proof is a last `step_finish` with reason stop, no error, exit 0.
Its log on stderr tells early which conversation, model and agent run, and of retries that stdout hides.
"""

import json
from collections.abc import Sequence
from typing import Any

from ostler.access import Access
from ostler.agents.adapter import Agent, State, tool_names
from ostler.agents.launches import refuse_untrusted, with_attachments
from ostler.agents.opencode import dialog
from ostler.agents.opencode.reader import EDITS, OpencodeReader, access_agent
from ostler.model import Host, Launch, Turn

PermissionRules = dict[str, Any]
# The last rule that matches wins, so what an agent of our own allows stands after all of the user's.
# `**` refuses a call and tells it; `*` takes the tool away. Shell and subagents are taken away: the shell
# tool asks for nothing on `> file`, and a subagent has the permissions of its own agent, not of its caller.
# The web is taken away too: its rules know no patterns.
READ: PermissionRules = {
    "*": "deny",
    "read": {"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"},
    **dict.fromkeys(("glob", "grep", "list", "skill", "todowrite", "todoread"), "allow"),
    "edit": {"**": "deny"},
    "external_directory": "deny",
}
RULES: dict[Access, PermissionRules] = {
    "read": READ,
    "write": {**READ, "edit": "allow"},
    "full": {"*": "allow", "external_directory": "allow"},
}
LINKS = "its edits follow links out of the folder, and reach .git/hooks"
NO_SHELL = "opencode cannot keep its shell to the folder, so it has none; for commands, run again with --access full"


def launch(turn: Turn, host: Host) -> Launch:
    # It has a switch against a folder's settings, but imports the plugins that they name all the same.
    refuse_untrusted(turn, host)
    config, flags, files = _config(turn, host), _conversation(turn), {}
    if turn.system:
        files[f"{host.private}/system.md"] = turn.system.encode()
    flags.append(f"--agent={access_agent(turn)}" if "agent" in config else "--auto")
    if turn.model:
        flags.append(f"--model={turn.model}")
    prompt = turn.prompt
    if turn.command:
        name, _, prompt = turn.prompt.lstrip("/").partition(" ")
        flags.append(f"--command={name}")
    flags += [f"--file={a.path}" for a in turn.attachments if a.content is None]
    flags += [flag for flag in ("--thinking",) if flag in host.help]
    return Launch(
        argv=(host.executable, "run", "--format=json", "--print-logs", "--log-level=INFO", *flags),
        stdin=with_attachments(prompt, [a for a in turn.attachments if a.content is not None]).encode(),
        # PWD decides the folder, before the working directory does.
        env={
            **{"PWD": turn.folder, "OPENCODE_CONFIG_CONTENT": json.dumps(config)},
            **({} if host.trusted else {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}),
        },
        files=files,
        notices=(NO_SHELL,) if turn.access == "write" and not turn.walled else (),
    )


def _conversation(turn: Turn) -> list[str]:
    if not turn.resume:
        return ["--title="]  # the beginning of the prompt; without the flag a second request makes a title
    return [f"--session={turn.agent_session}", *(["--fork"] if turn.fork else [])]


def _config(turn: Turn, host: Host) -> dict[str, Any]:
    """Configuration that is merged over the user's and the project's; lists of instructions are joined."""
    system = f"{host.private}/system.md"
    config: dict[str, Any] = {"instructions": [system]} if turn.system and turn.system_mode == "append" else {}
    if turn.walled:
        config["snapshot"] = False  # they are git folders beside its database, and it crashes where it cannot make them
    if access_agent(turn):
        config["agent"] = {access_agent(turn): {"mode": "primary", "permission": _rules(turn)}}
    if turn.system_mode == "replace":
        config["agent"][access_agent(turn)]["prompt"] = f"{{file:{system}}}"
    return config


def _rules(turn: Turn) -> PermissionRules:
    rules = {**RULES["write"], "bash": "allow"} if turn.walled and turn.access == "write" else RULES[turn.access]
    if turn.tools_allowed:
        wanted = _permissions(turn.tools_allowed)
        full = dict.fromkeys(wanted, "allow") if turn.access == "full" else {}
        rules = {"*": "deny", **{k: v for k, v in rules.items() if k in (*wanted, "external_directory")}, **full}
    denied = dict.fromkeys(_permissions(turn.tools_denied), "deny")
    return {**{k: v for k, v in rules.items() if k not in denied}, **denied}


def _permissions(words: Sequence[str]) -> list[str]:
    """What its rules call these tools: all that edits is one to them."""
    return [*dict.fromkeys("edit" if name in EDITS else name for name in tool_names(AGENT, words))]


AGENT = Agent(
    name="opencode",
    title="opencode",
    monogram="oc",
    hue=95,
    nested=("OPENCODE", "OPENCODE_PID"),
    binaries=("opencode",),
    install="npm i -g opencode-ai",
    dialog=dialog.face(launch, _rules),
    launch=launch,
    reader=OpencodeReader,
    models=("*/*",),
    other_models=("models/*", "publishers/*", "projects/*", "arn:*"),  # Vertex and Bedrock have slashes in theirs, too
    tested=("1.18.20", "1.18.33"),
    needs=("--format", "--session", "--agent", "--auto", "--file", "--title", "--print-logs", "--log-level"),
    help=(("--help",), ("run", "--help")),
    env=(
        *("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "AWS_*", "AZURE_*", "OPENROUTER_*"),
        *("GROQ_*", "MISTRAL_*", "DEEPSEEK_*", "XAI_*", "GITHUB_TOKEN", "CLOUDFLARE_*"),
    ),
    drop=("AGENT", "OPENCODE", "OPENCODE_CLIENT", "OPENCODE_PID", "GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH"),
    keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"),
    login_files=(".local/share/opencode/auth.json",),
    login_command="opencode auth login",
    homes={"XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state"},
    private=(".config/opencode",),
    state=State(
        kept=(".local/share/opencode/log", ".local/state/opencode/locks"),
        edited=tuple(f".local/share/opencode/opencode.db{end}" for end in ("", "-wal", "-shm")),
        oauth=(".local/share/opencode/auth.json",),
        prepare=("agent", "list"),
        prepared=(".local/share/opencode/opencode.db",),
    ),
    login_elsewhere=True,
    project_config=("opencode.json", "opencode.jsonc", ".opencode"),
    without_git=True,
    installs=tuple(  # for its plugins, and keeps it out of git; further down these names are the folder's own
        f".opencode/{name}"
        for name in ("node_modules", "bun.lock", "bun.lockb", "package.json", "package-lock.json", ".gitignore")
    ),
    left_out="`denied`: it has a switch (`OPENCODE_DISABLE_PROJECT_CONFIG`, which is set all the same),"
    " but imports plugins in spite of it",
    instructions=(("AGENTS.md", "CLAUDE.md", "CONTEXT.md"),),
    access={
        "read": "an agent of its own (OPENCODE_CONFIG_CONTENT, --agent): read, glob, grep; edits are refused",
        "write": "the same agent, with edits in the project; no subagents, no web",
        "full": "--auto",
    },
    unpromised={"write": LINKS},
    unconfined={
        "read": "plugins, MCP servers and custom tools of your set-up are started; their tools are taken away",
        "write": "as for read; edits reach the whole git repository of the folder, its hooks, and follow its links."
        " It has no shell",
        "full": "everything but what your own rules deny",
    },
    tools={
        **{"shell": ("bash",), "read": ("read",), "write": ("write",), "search": ("grep", "glob", "list")},
        **{"edit": ("edit", "multiedit", "apply_patch", "patch"), "web": ("webfetch", "websearch", "codesearch")},
        **{"plan": ("todowrite", "todoread"), "agent": ("task",)},
    },
    own_tools=("skill", "question", "lsp", "batch", "invalid"),
    forks=True,
    system="file",
    replaces_system=True,
    tool_lists=True,
    images="native",
    cost=True,
)
