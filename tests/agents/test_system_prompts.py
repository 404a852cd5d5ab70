"""By what a system prompt stands for an agent's own, in a turn of one process and in a dialog."""

import json
from typing import Any

import pytest

from agents.acp_replayed import HOST, turn_of
from agents.codex_played import Played
from ostler.agents import AGENTS
from ostler.agents.acp import any_agent as any_acp
from ostler.agents.acp.known import claude_options
from ostler.agents.dialog import Write
from ostler.model import Launch

FILE = "/private/system.md"


def launches(agent: str, **changes: Any) -> list[Launch]:
    """One-shot and in a dialog, with a prompt that replaces the agent's own."""
    turn = turn_of(agent=agent, system="Be brief.", system_mode="replace", **changes)
    face = AGENTS[agent].dialog
    assert face is not None
    return [AGENTS[agent].launch(turn, HOST), face.launch(turn, HOST)]


@pytest.mark.parametrize("agent", ["claude", "qwen"])
def test_by_a_flag(agent: str) -> None:
    for launch in launches(agent):
        assert "--system-prompt=Be brief." in launch.argv
        assert not any(flag.startswith("--append-system-prompt") for flag in launch.argv)


def test_a_long_one_of_claude_is_a_file() -> None:
    long = "ö" * 60_000
    launch = AGENTS["claude"].launch(turn_of(agent="claude", system=long, system_mode="replace"), HOST)
    assert "--system-prompt-file=/private/system.txt" in launch.argv
    assert launch.files["/private/system.txt"] == long.encode()


def test_of_gemini() -> None:
    for launch in launches("gemini"):
        assert (launch.env["GEMINI_SYSTEM_MD"], launch.files[FILE]) == (FILE, b"Be brief.")
        assert b"Be brief." not in launch.stdin and launch.notices == ()


def test_of_codex() -> None:
    once, _ = launches("codex")
    assert f'--config=model_instructions_file="{FILE}"' in once.argv and once.files == {FILE: b"Be brief."}
    assert not any("developer_instructions" in flag for flag in once.argv)
    written = Played(system="Be brief.", system_mode="replace").opened().written
    (told,) = [record["params"] for record in written if record.get("method") == "thread/start"]
    assert (told["baseInstructions"], told["developerInstructions"]) == ("Be brief.", None)


@pytest.mark.parametrize("access", ["read", "full"])
def test_of_opencode(access: str) -> None:
    for launch in launches("opencode", access=access):
        config = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
        assert [agent["prompt"] for agent in config["agent"].values()] == [f"{{file:{FILE}}}"]
        assert "instructions" not in config and launch.files == {FILE: b"Be brief."}


def test_of_claude_by_acp() -> None:
    turn = turn_of(agent="claude", system="Be brief.", system_mode="replace")
    assert claude_options(turn, HOST)["systemPrompt"] == "Be brief."


def test_who_can() -> None:
    able = [agent.name for agent in AGENTS.values() if agent.replaces_system]
    assert able == ["claude", "codex", "gemini", "qwen", "opencode", "script"]
    by_settings = {name: any_acp.agent_of("mine", argv).replaces_system for name, argv in COMMANDS.items()}
    assert by_settings == {"claude-agent-acp": True, "qwen": True, "gemini": True, "codex-acp": False, "mine": False}


COMMANDS = {
    "claude-agent-acp": ["claude-agent-acp"],
    "qwen": ["qwen", "--acp"],
    "gemini": ["gemini", "--acp"],
    "codex-acp": ["codex-acp"],
    "mine": ["mine"],
}


@pytest.mark.parametrize(("size", "before"), [(100_000, False), (100_001, True)])
def test_of_qwen_by_acp_a_long_one_goes_before_the_first_prompt(size: int, before: bool) -> None:
    face = any_acp.agent_of("mine", COMMANDS["qwen"]).dialog
    assert face is not None
    turn = turn_of(system="x" * size, prompt="go")
    assert any("--append-system-prompt=" in flag for flag in face.launch(turn, HOST).argv) is not before
    steps = face.dialog(turn, HOST).prompt(turn)
    (sent,) = [step.record["params"]["prompt"] for step in steps if isinstance(step, Write)]
    assert sent[0]["text"] == (f"{turn.system}\n\ngo" if before else "go")
