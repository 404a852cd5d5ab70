"""The dict of agents, the choice among them, and agents of other packages."""

import pytest

from ostler.agents import AGENTS, agent_for
from ostler.errors import OstlerError


@pytest.mark.parametrize(
    ("wanted", "agent", "model"),
    [
        ("claude", "claude", None),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "claude", "anthropic.claude-3-haiku-20240307-v1:0"),
        ("global.anthropic.claude-opus-5-v1:0", "claude", "global.anthropic.claude-opus-5-v1:0"),
        (
            "arn:aws:bedrock:eu-west-1:1:custom/x",
            "claude",
            "arn:aws:bedrock:eu-west-1:1:custom/x",
        ),
        ("publishers/anthropic/models/claude-opus-4@20250514", "claude", "claude-opus-4@20250514"),
        ("models/gemini-2.5-pro", "gemini", "gemini-2.5-pro"),
        ("publishers/google/models/gemini-3-pro", "gemini", "gemini-3-pro"),
        ("projects/p/locations/l/publishers/google/models/gemini-3-pro", "gemini", "gemini-3-pro"),
        ("amazon-bedrock/us.anthropic.claude-x-v1:0", "opencode", "amazon-bedrock/us.anthropic.claude-x-v1:0"),
        ("openrouter/google/gemini-3-pro", "opencode", "openrouter/google/gemini-3-pro"),
        ("opus", "claude", "opus"),
        ("claude-sonnet-4-5", "claude", "claude-sonnet-4-5"),
        ("haiku", "claude", "haiku"),
        ("gpt-5.5", "codex", "gpt-5.5"),
        ("o3", "codex", "o3"),
        ("gpt-5-codex", "codex", "gpt-5-codex"),
        ("gemini-2.5-pro", "gemini", "gemini-2.5-pro"),
        ("qwen3-coder", "qwen", "qwen3-coder"),
        ("composer-1", "cursor", "composer-1"),
        ("anthropic/claude-sonnet-4", "opencode", "anthropic/claude-sonnet-4"),
        (" claude ", "claude", None),
    ],
)
def test_by_name_or_model(wanted: str, agent: str, model: str | None) -> None:
    found, found_model = agent_for(wanted)
    assert (found.name, found_model) == (agent, model)


def test_settings_decide_before_the_agents_own_patterns() -> None:
    found, model = agent_for("gpt-5", {"gpt-*": "cursor"})
    assert (found.name, model) == ("cursor", "gpt-5")


@pytest.mark.parametrize("wanted", ["cluade", "codx", "nothing-like-it", ""])
def test_the_unknown_is_an_error_that_lists_the_choices(wanted: str) -> None:
    with pytest.raises(OstlerError) as caught:
        agent_for(wanted)
    assert caught.value.kind == "not_found"
    assert "Agents: claude, codex, gemini" in caught.value.hint


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(OstlerError) as caught:
        agent_for("cluade")
    assert caught.value.hint.startswith("Did you mean claude")


def test_how_the_page_tells_agents_apart() -> None:
    looks = {agent.name: (agent.monogram, agent.hue, agent.module) for agent in AGENTS.values()}
    assert looks == {
        "claude": ("cl", 45, ""),
        "codex": ("cx", 160, ""),
        "gemini": ("ge", 255, ""),
        "cursor": ("cu", 310, ""),
        "qwen": ("qw", 290, ""),
        "opencode": ("oc", 95, ""),
        "copilot": ("co", 220, ""),
        "script": ("sc", 70, "ostler.testing.agent"),
    }
    assert (
        len({monogram for monogram, _, _ in looks.values()}) == len({hue for _, hue, _ in looks.values()}) == len(looks)
    )


def test_the_variables_of_an_agent_are_its_own() -> None:
    """What tells a program that it runs inside an agent is never what that agent reads, nor another's."""
    nested = [(name, agent.name) for agent in AGENTS.values() for name in agent.nested]
    assert len({name for name, _ in nested}) == len(nested)
    assert {owner for _, owner in nested} == {*AGENTS} - {"script"}
    keys = {key for agent in AGENTS.values() for key in agent.keys}
    assert keys & {name for name, _ in nested} == set()
