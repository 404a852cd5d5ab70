"""How dialogs are launched: what confines one-shot turns stays, what lets an agent act unasked goes."""

import json
from typing import Any

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.agents import AGENTS
from ostler.model import Launch


def launched(agent: str, access: str, **changes: Any) -> Launch:
    face = AGENTS[agent].dialog
    assert face is not None
    return face.launch(turn_of(agent=agent, access=access, **changes), HOST)


@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_gemini(access: str) -> None:
    launch = launched("gemini", access, model="m", agent_session="11111111-2222-4333-8444-555555555555", resume=True)
    once = AGENTS["gemini"].launch(turn_of(agent="gemini", access=access), HOST)
    policy = ("--policy=/private/policy.toml",) if access != "full" else ()
    assert launch.argv == ("agent", "--acp", "--approval-mode=default", "--skip-trust", "--model=m", *policy)
    assert (launch.files, launch.env) == (once.files, once.env)


@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_copilot(access: str) -> None:
    launch = launched("copilot", access)
    once = AGENTS["copilot"].launch(turn_of(agent="copilot", access=access), HOST)
    denials = [flag for flag in once.argv if flag.startswith(("--deny-", "--disallow-", "--available-"))]
    assert launch.argv == ("agent", "--acp", "--no-auto-update", *denials)
    assert bool(denials) is (access != "full")


@pytest.mark.parametrize(
    ("access", "edit", "bash", "rest"),
    [("read", {"**": "deny"}, None, "deny"), ("write", "ask", None, "deny"), ("full", None, None, "ask")],
)
def test_opencode(access: str, edit: Any, bash: Any, rest: str) -> None:
    launch = launched("opencode", access, system="Be brief.")
    config = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert (launch.argv, config["default_agent"]) == (("agent", "acp"), "ostler-t")
    rules = config["agent"]["ostler-t"]["permission"]
    assert (rules.get("edit"), rules.get("bash"), rules["*"]) == (edit, bash, rest)
    assert launch.files == {"/private/system.md": b"Be brief."}
    assert "allow" not in [rule for name, rule in rules.items() if name in ("*", "edit", "bash", "external_directory")]


@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_qwen(access: str) -> None:
    launch = launched("qwen", access, schema={"type": "object"})
    once = AGENTS["qwen"].launch(turn_of(agent="qwen", access=access), HOST)
    kept = [flag for flag in once.argv[1:] if not flag.startswith("--approval-mode=")]
    assert launch.argv == ("agent", "--input-format=stream-json", "--approval-mode=default", *kept)
    assert launch.stdin == b""


def test_cursor_asks_for_all_it_does() -> None:
    assert launched("cursor", "write", model="m").argv == ("agent", "--model=m", "acp")
