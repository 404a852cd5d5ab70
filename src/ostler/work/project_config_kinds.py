"""Says in a few words what settings of an agent hold: `2 hooks, 1 MCP server`. For people; nothing is decided by it."""

from collections.abc import Sequence
from typing import Any

Kinds = dict[str, int]

# A key of a settings file → what its entries are called.
TABLES = {
    **dict.fromkeys(("mcpServers", "mcp_servers", "mcp", "servers"), "MCP server"),
    **dict.fromkeys(("plugin", "plugins", "enabledPlugins"), "plugin"),
    **dict.fromkeys(("provider", "model_providers", "modelProviders"), "model provider"),
    **{"env": "variable", "formatter": "formatter", "lsp": "language server", "lspServers": "language server"},
}
COMMANDS = ("awsAuthRefresh", "awsCredentialExport", "notify", "statusLine", "discoveryCommand", "callCommand")
# A folder of settings → what a file in it is called.
FOLDERS = {
    **dict.fromkeys(("plugin", "plugins"), "plugin"),
    **dict.fromkeys(("tool", "tools"), "tool"),
    **{"agents": "agent", "commands": "command", "extensions": "extension", "policies": "policy", "rules": "rule"},
}
PLURALS = {"policy": "policies"}


def described(kinds: Kinds, names: Sequence[str]) -> str:
    """`2 hooks, 1 MCP server (.claude/settings.json)`; without kinds the names alone."""
    counted = [f"{count} {kind if count == 1 else PLURALS.get(kind, kind + 's')}" for kind, count in kinds.items()]
    shown = [*names[:6], *([f"{len(names) - 6} more"] if len(names) > 6 else [])]
    return f"{', '.join(counted)} ({', '.join(shown)})" if counted else ", ".join(shown)


def kinds_of(name: str, data: bytes) -> Kinds:
    """What one file holds. Raises nothing."""
    *folders, last = name.split("/")
    if last == "SKILL.md":
        return {"skill": 1}
    if last == ".env":
        return {"variable": sum(b"=" in line for line in data.splitlines())}
    table = _table(last, data)
    if not table:
        return next(({FOLDERS[folder]: 1} for folder in folders if folder in FOLDERS), {})
    found: Kinds = {}
    for key, value in table.items():
        kind, count = _entry(key, value)
        if count:
            found[kind] = found.get(kind, 0) + count
    return found


def _entry(key: str, value: Any) -> tuple[str, int]:
    if key == "hooks":
        return "hook", _hooks(value)
    if key == "tools" and isinstance(value, dict):
        return "command", sum(name in value for name in COMMANDS)
    if key.endswith("Helper"):
        return "key helper", 1
    if key in COMMANDS:
        return "command", 1
    return TABLES.get(key, ""), len(value) if key in TABLES and isinstance(value, dict | list) else 0


def _hooks(value: Any, depth: int = 0) -> int:
    """How many handlers stand in a table of hooks, whoever's form it has."""
    if depth > 6:
        return 0
    if isinstance(value, dict):
        if any(key in value for key in ("command", "bash", "url", "prompt")):
            return 1
        return sum(_hooks(each, depth + 1) for each in value.values())
    return sum(_hooks(each, depth + 1) for each in value) if isinstance(value, list) else 0


def _table(name: str, data: bytes) -> dict[str, Any]:
    try:
        if name.endswith((".json", ".jsonc")):
            import json

            value = json.loads(data)
        elif name.endswith(".toml"):
            from ostler.settings.toml import parsed

            value = parsed(data.decode())
        else:
            return {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
