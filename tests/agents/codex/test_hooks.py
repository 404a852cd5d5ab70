"""Hooks of codex: named and trusted by one flag."""

import sys
import tomllib

from ostler.agents.codex.hooks import HOOKS, hook_flags, snake, trusted_hash
from ostler.model import Callback, Host, Turn

TURN = Turn(id="t", session="s", agent="codex", prompt="go", folder="/yard", hooks=True)


def test_the_hash_is_the_one_that_codex_makes() -> None:
    """Taken from `hooks/list` of codex 0.166."""
    hook = {"type": "command", "command": "echo hi", "timeout": 10}
    known = "sha256:2a05b889a7ae70a6cb043aabb2bcfb6ce36c120c3e60d0fd65e4d297c36f1e00"
    assert trusted_hash("Stop", [{"hooks": [hook]}]) == known
    assert trusted_hash("Stop", [{"matcher": "*", "hooks": [hook]}]) != known
    matched = {"type": "command", "command": "echo ho", "timeout": 600}
    known = "sha256:2e19f6846be2d000b00cf3ba79e84a94dfad75a6f9c5c11047db6958ba2aa8ff"
    assert trusted_hash("PreToolUse", [{"matcher": "*", "hooks": [matched]}]) == known


def test_one_flag_names_the_hooks_and_trusts_them() -> None:
    files: dict[str, bytes] = {}
    callback = Callback(url="http://127.0.0.1:9/api/hooks", token="a-token-of-one-turn", python=sys.executable)
    (flag,) = hook_flags(TURN, Host(executable="/bin/codex", private="/private/it's", callback=callback), files)
    made = tomllib.loads(flag.removeprefix("--config="))["hooks"]
    assert {*made} == {*HOOKS.events, "state"}
    assert made["Stop"][0]["hooks"][0]["command"].endswith("Stop 2>/dev/null; exit 0")
    note = made["state"]["/<session-flags>/config.toml:pre_tool_use:0:0"]
    assert note == {"trusted_hash": trusted_hash("PreToolUse", made["PreToolUse"])}
    assert "a-token-of-one-turn" not in flag and list(files) == ["/private/it's/hook.py"]
    assert hook_flags(TURN, Host(executable="/bin/codex"), {}) == []


def test_names() -> None:
    assert [snake(event) for event in ("Stop", "PreToolUse")] == ["stop", "pre_tool_use"]
