"""A few words on what settings hold."""

import json

import pytest

from ostler.work.project_config_kinds import Kinds, described, kinds_of

HOOKS = {
    "Stop": [{"matcher": "*", "hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": "b"}]}]
}


@pytest.mark.parametrize(
    ("name", "content", "kinds"),
    [
        (
            ".claude/settings.json",
            {"hooks": HOOKS, "apiKeyHelper": "x", "env": {"A": "1"}},
            "hook:2 key helper:1 variable:1",
        ),
        (".mcp.json", {"mcpServers": {"a": {}, "b": {}}}, "MCP server:2"),
        (
            ".github/hooks/x.json",
            {"version": 1, "hooks": {"sessionStart": [{"type": "command", "bash": "x"}]}},
            "hook:1",
        ),
        (
            "opencode.json",
            {"plugin": ["a", "b"], "mcp": {"a": {}}, "provider": {"x": {}}},
            "plugin:2 MCP server:1 model provider:1",
        ),
        (".gemini/settings.json", {"tools": {"discoveryCommand": "x", "allowed": []}}, "command:1"),
        (".codex/config.toml", 'notify = ["x"]\n[mcp_servers.a]\ncommand = "x"\n', "command:1 MCP server:1"),
        (".env", "# nothing\nA=1\nB=2\n", "variable:2"),
        (".claude/skills/x/SKILL.md", "---\n", "skill:1"),
        (".opencode/plugins/x.js", "", "plugin:1"),
        (".claude/agents/x.md", "", "agent:1"),
        (".claude/settings.json", {"model": "opus"}, ""),
        (".claude/settings.json", "{broken", ""),
        (".claude/settings.json", "[" * 100_000, ""),
        (".claude/settings.json", "[1]", ""),
        (".codex/config.toml", "\x00", ""),
        (".claude/settings.json", {"hooks": 5, "mcpServers": "x", "env": None, "plugin": 3}, ""),
    ],
)
def test_kinds(name: str, content: object, kinds: str) -> None:
    data = content if isinstance(content, str) else json.dumps(content)
    expected: Kinds = {each.rpartition(":")[0]: int(each.rpartition(":")[2]) for each in _split(kinds)}
    assert kinds_of(name, data.encode()) == expected


def _split(kinds: str) -> list[str]:
    words, found = kinds.split(), []
    for word in words:
        if found and ":" not in found[-1]:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def test_described() -> None:
    assert described({"hook": 2, "MCP server": 1}, ["a", "b"]) == "2 hooks, 1 MCP server (a, b)"
    assert described({"policy": 2}, ["a"]) == "2 policies (a)"
    assert described({}, list("abcdefgh")) == "a, b, c, d, e, f, 2 more"
