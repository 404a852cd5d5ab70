"""The description of an agent."""

from ostler.agents import AGENTS
from ostler.agents.adapter import state_path, tool_names


def test_tools_by_ostlers_words_and_by_their_own_names() -> None:
    claude = AGENTS["claude"]
    assert tool_names(claude, ("shell", "mcp__db__query", "read")) == (
        *claude.tools["shell"],
        "mcp__db__query",
        *claude.tools["read"],
    )
    assert "Bash" in claude.tools["shell"]
    assert tool_names(claude, ()) == ()


def test_where_an_agents_state_lies() -> None:
    qwen, gemini = AGENTS["qwen"], AGENTS["gemini"]
    assert state_path(qwen, ".qwen", "/h", {}) == "/h/.qwen"
    assert state_path(qwen, ".qwen", "/h", {"QWEN_HOME": "/q"}) == "/q"
    assert state_path(qwen, ".qwen/tmp", "/h", {"QWEN_HOME": "/q"}) == "/q/tmp"
    assert state_path(gemini, ".gemini/tmp", "/h", {"GEMINI_CLI_HOME": "/g"}) == "/g/.gemini/tmp"


def test_only_what_is_shadowed_by_one_variable_has_a_shadow() -> None:
    """And what is kept of it lies within it."""
    for agent in AGENTS.values():
        if agent.state is not None and agent.state.shadowed:
            assert len(agent.homes) == 1, agent.name
            assert all(path.startswith(f"{agent.state.shadowed}/") for path in agent.state.kept), agent.name
