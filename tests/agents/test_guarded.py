"""Which paths of a folder no edit under `write` may change."""

import pytest

from ostler.agents import AGENTS
from ostler.agents.guarded import is_guarded, settings_of


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git",
        "./.git/HEAD",
        "deep/down/.git/hooks/post-checkout",
        ".GIT/hooks/x",
        ".Git/config",
        ".git./hooks/x",
        ".git /config",
        ".g\u200dit/config",
        ".\uff47it/config",
        ".claude/settings.json",
        ".Claude/Settings.local.json",
        "sub/.claude/hooks/x.sh",
        ".mcp.json",
        "sub/.mcp.json",
        ".codex/config.toml",
        ".agents/skills/x",
        ".gemini/settings.json",
        ".gemini/.env",
        ".qwen/settings.json",
        ".opencode/plugin/x.ts",
        "opencode.json",
        "OpenCode.jsonc",
        ".cursor/mcp.json",
        ".github/copilot/settings.json",
        ".github/copilot-instructions.md",
        ".github/hooks/x.json",
        ".vscode/mcp.json",
        "ostler.toml",
        "sub/ostler.toml",
        ".ostler/ostler.db",
    ],
)
def test_guarded(path: str) -> None:
    assert is_guarded(path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "a.py",
            "src/git/hooks.py",
            ".gitignore",
            ".gitattributes",
            ".github/workflows/test.yml",
            ".vscode/settings.json",
        ),
        *(
            "claude/x.py",
            "CLAUDE.md",
            "AGENTS.md",
            "GEMINI.md",
            "docs/ostler.toml.md",
            "x.git/config",
            "opencode.json.md",
        ),
        *(".", "..", "", "...", ". ", ".gitter/x", "mcp.json"),
    ],
)
def test_not_guarded(path: str) -> None:
    assert not is_guarded(path)


def test_all_that_agents_take_from_a_folder_is_guarded() -> None:
    taken = [name for agent in AGENTS.values() for name in agent.project_config]
    assert [name for name in taken if not is_guarded(name)] == []
    assert [agent.name for agent in AGENTS.values() if not settings_of(agent)] == ["script"]


def test_a_folder_of_an_agents_own_is_guarded_whole() -> None:
    assert settings_of(AGENTS["claude"]) == (".claude", ".mcp.json")
    assert settings_of(AGENTS["codex"]) == (".codex", ".agents")
    assert ".github" not in settings_of(AGENTS["copilot"])  # which is everybody's


@pytest.mark.parametrize("path", ["a/" * 100_000, "." * 1_000_000 + "x"])
def test_a_path_of_any_length_is_looked_at_once(path: str) -> None:
    """It comes from an agent; from each of its places anew it would take hours."""
    assert not is_guarded(path)
    assert is_guarded(f"{path}/.git/config")
