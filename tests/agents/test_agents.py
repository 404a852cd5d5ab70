"""The dict of agents, the choice among them, and agents of other packages."""

import sys
from pathlib import Path

import pytest

from ostler import agents
from ostler.agents import AGENTS, agent_for
from ostler.errors import OstlerError


@pytest.mark.parametrize(
    ("wanted", "agent", "model"),
    [
        ("claude", "claude", None),
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


def test_agents_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger.py").write_text(
        "from msgspec.structs import replace\nfrom ostler.agents import AGENTS\n"
        'AGENT = replace(AGENTS["script"], name="stranger", models=("strange-*",))\n'
        'TAKEN = replace(AGENTS["script"], name="claude")\nNO_AGENT = 42\n'
    )
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ostler.agents]\nstranger = stranger:AGENT\ntaken = stranger:TAKEN\n"
        "number = stranger:NO_AGENT\nbroken = stranger:GONE\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(agents, "_plugged_in", False)
    known = dict(AGENTS)
    try:
        found, model = agent_for("strange-1")
        assert (found.name, model) == ("stranger", "strange-1")
        assert AGENTS["claude"] is known["claude"]
        assert set(agents.PLUG_IN_PROBLEMS) == {"taken", "number", "broken"}
        assert agents.PLUG_IN_PROBLEMS["taken"] == "there is an agent named 'claude' already"
    finally:
        AGENTS.pop("stranger", None)
        agents.PLUG_IN_PROBLEMS.clear()
        sys.modules.pop("stranger", None)
