"""Further flags of an agent's CLI: before ostler's own, and none that widens."""

import pytest

from ostler.agents import AGENTS
from ostler.agents.flags import with_flags
from ostler.errors import OstlerError

ARGV = ("/bin/agent", "exec", "--own=1")


def test_they_stand_before_ostlers_own() -> None:
    assert with_flags(AGENTS["claude"], ("--effort=high",), ARGV) == ("/bin/agent", "--effort=high", "exec", "--own=1")
    assert with_flags(AGENTS["codex"], ("--color=never",), ARGV) == ("/bin/agent", "exec", "--color=never", "--own=1")
    assert with_flags(AGENTS["opencode"], (), ARGV) == ARGV


@pytest.mark.parametrize(
    ("agent", "flag"),
    [
        *(
            ("claude", flag)
            for flag in ("--dangerously-skip-permissions", "--allowedTools=Bash", "--allowed-tools=Bash")
        ),
        *(("claude", flag) for flag in ("--settings={}", "--add-dir=/", "--permission-mode=bypassPermissions")),
        *(("codex", flag) for flag in ("--sandbox=danger-full-access", "--config=a=1", "--yolo", "--profile=x")),
        *(("gemini", flag) for flag in ("--yolo", "--approvalMode=yolo", "--approval-mode=yolo", "--policy=x")),
        # Flags of their own screens that approve, leave the folder, or draw something else.
        *(("claude", flag) for flag in ("--cloud", "--bg", "--background", "--ax-screen-reader")),
        *(("codex", flag) for flag in ("--approve-for-me", "--search", "--worktree=x", "--no-alt-screen")),
        *(("gemini", flag) for flag in ("--screen-reader", "--screenReader")),
        *(("qwen", flag) for flag in ("--http-bridge", "--input-file=x", "--no-chat-recording")),
        *(("qwen", flag) for flag in ("--YOLO", "--allowed-tools=x", "--no-sandbox", "--mcp-config=x")),
    ],
)
def test_what_widens_is_refused(agent: str, flag: str) -> None:
    with pytest.raises(OstlerError) as caught:
        with_flags(AGENTS[agent], (flag,), ARGV)
    assert caught.value.kind == "denied"


@pytest.mark.parametrize("flag", ["", "word", "-c", "-", "--", "--a b", "-yolo", "--=x", "--x=\0"])
def test_what_is_no_flag_is_refused(flag: str) -> None:
    with pytest.raises(OstlerError) as caught:
        with_flags(AGENTS["claude"], (flag,), ARGV)
    assert caught.value.kind == "bad_request"


def test_an_agent_may_take_none() -> None:
    with pytest.raises(OstlerError) as caught:
        with_flags(AGENTS["opencode"], ("--x",), ARGV)
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.flags_at])
def test_every_flag_of_a_launch_that_guards_is_refused(name: str) -> None:
    """What ostler's own launch sets, nobody else sets."""
    guards = {"claude": "--strict-mcp-config", "codex": "--sandbox=x", "gemini": "--approval-mode=x"}
    flag = {**guards, "qwen": "--core-tools=x", "script": "--access=full"}[name]
    with pytest.raises(OstlerError):
        with_flags(AGENTS[name], (flag,), ARGV)
