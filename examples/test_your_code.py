"""How to test code that drives agents, without an agent: `pytest examples/test_your_code.py`.

The fixtures `scripted_agent` and `scripted_model` come with ostler.
"""

import json
import urllib.request
from pathlib import Path

import pytest

import ostler
from ostler.testing import ScriptedAgent, ScriptedModel


def review(folder: str) -> str:
    """The code under test: asks for a review."""
    envelope = ostler.run("Review the last commit", "claude", folder=folder)
    return envelope.text if envelope.ok else f"no review: {envelope.error.kind if envelope.error else ''}"


@pytest.fixture
def agent(scripted_agent: ScriptedAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ScriptedAgent:
    """The scripted agent in the place of all others, and a state folder for this test alone."""
    scripted_agent.env["OSTLER_HOME"] = str(tmp_path / "state")
    scripted_agent.plays([{"run": "ls"}, {"say": "It looks good."}])
    for name, value in scripted_agent.env.items():
        monkeypatch.setenv(name, value)
    return scripted_agent


def test_a_review_is_asked_for_once(agent: ScriptedAgent, tmp_path: Path) -> None:
    assert review(str(tmp_path)) == "It looks good."
    assert [launch.prompt for launch in agent.launches] == ["Review the last commit"]


def test_a_limit_is_told(agent: ScriptedAgent, tmp_path: Path) -> None:
    agent.plays([{"fail": "limited"}])
    assert review(str(tmp_path)) == "no review: limited"


def test_what_a_model_is_sent(scripted_model: ScriptedModel) -> None:
    """Point a real CLI at `scripted_model.environment`; here a plain request stands in for it."""
    scripted_model.rules = [("weather", "say:Rain.")]
    body = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "the weather?"}]}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{scripted_model.url}/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["content"][0]["text"] == "Rain."
    assert [exchange.user for exchange in scripted_model.asked] == ["the weather?"]
