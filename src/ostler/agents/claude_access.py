"""What claude may do under each access: measured against settings that allow everything."""

import re
from collections.abc import Sequence
from typing import Any

from ostler.words import Access, Host, Turn

MODES: dict[Access, str] = {"read": "dontAsk", "write": "acceptEdits", "full": "bypassPermissions"}
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


def tool_flags(turn: Turn, host: Host, allowed: Sequence[str], denied: Sequence[str]) -> list[str]:
    """Which tools there are, which need no approval, which are refused: within what the access allows."""
    offered = _offered(turn.access, host)
    named = [name for name in allowed if offered is None or _base(name) in offered or name.startswith("mcp__")]
    approved = [name for name in named if _base(name) not in FOLDER_BOUND]
    approved += [f"Read(/{_pattern(a.path)})" for a in turn.attachments if a.content is None]
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


def _confines(host: Host) -> bool:
    """Whether claude's own sandbox can run here."""
    return {"bwrap", "socat"} <= host.programs or "sandbox-exec" in host.programs


def settings_of(turn: Turn, host: Host) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings that go before the user's, and what the user should know of them."""
    if turn.access == "write":
        return ({"sandbox": SANDBOX}, ()) if _confines(host) else ({}, (NO_SANDBOX,))
    if turn.access == "read" and ".claude" in host.folder_names and not turn.lean:
        # claude -p runs a folder's hooks also where the folder was never trusted.
        return {"disableAllHooks": True}, (NO_HOOKS,)
    return {}, ()


def _base(name: str) -> str:
    """The tool of a rule: `Bash(git log:*)` → `Bash`."""
    return name.partition("(")[0].strip()


def _pattern(path: str) -> str:
    """A path as a rule's pattern: `?` for what a rule or a list of rules would read otherwise."""
    return re.sub(r"[^\w./+=~@-]", "?", path)
