"""A pipeline whose nodes are real CLIs: what one answers by a schema is what the next ones do, each in a worktree."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from real.yard import Yard, setup_of
from waiting import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("agent", ["claude"])]

FLOW = """
[nodes.plan]
agent = "claude"
prompt = "[[schema]] Name the files."
[nodes.plan.schema]
type = "object"
required = ["first", "second"]
properties = { first = { enum = ["one.txt"] }, second = { enum = ["two.txt"] } }

[nodes.first]
agent = "codex"
needs = ["plan"]
access = "write"
worktree = { then = "merge" }
prompt = "[[write:{{ nodes.plan.structured.first }}]]"

[nodes.second]
agent = "gemini"
needs = ["plan"]
access = "write"
worktree = { then = "merge" }
prompt = "[[write:{{ nodes.plan.structured.second }}]]"

[nodes.judge]
agent = "claude"
needs = ["first", "second"]
prompt = "[[say:both are good]] {{ nodes.first.diff }} {{ nodes.second.diff }}"
"""


def git(folder: Path, *args: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@y"]
    return subprocess.run(["git", "-C", str(folder), *who, *args], capture_output=True, text=True, check=True).stdout


async def get_to_know(yard: Yard, *agents: str) -> None:
    """On a busy machine a CLI may take longer to tell its version than a turn waits for that."""
    async with yard.ostler() as o:
        for name in agents:

            async def tells(name: str = name) -> bool:
                (report,) = await o.doctor([name], sandboxes=False)
                return report.installed and not report.problem

            await until(tells, 180)


@pytest.mark.core
async def test_three_agents_hand_on_what_they_made(yard: Yard) -> None:
    for other in ("codex", "gemini"):
        yard.env |= setup_of(other).setup(yard.home, yard.folder, yard.model.url, False)
    await get_to_know(yard, "claude", "codex", "gemini")
    git(yard.folder, "add", ".")
    git(yard.folder, "commit", "-qm", "first")
    (yard.folder / "flow.toml").write_text(FLOW)
    going = yard.cli("pipeline", "run", "flow.toml", "--json")
    out, err = await asyncio.to_thread(going.communicate)
    told = {row["node"]: row["result"] for row in json.loads(out)["nodes"]}
    assert going.returncode == 0, (err, {name: result.get("error") for name, result in told.items()})
    assert {name: (result["state"], result["agent"]) for name, result in told.items()} == {
        "plan": ("done", "claude"),
        "first": ("done", "codex"),
        "second": ("done", "gemini"),
        "judge": ("done", "claude"),
    }
    assert told["plan"]["structured"] == {"first": "one.txt", "second": "two.txt"}
    assert told["judge"]["text"] == "both are good"
    # What was made in the worktrees is in the folder, committed, and nothing else is left of them.
    assert (yard.folder / "one.txt").exists() and (yard.folder / "two.txt").exists()
    assert git(yard.folder, "status", "--porcelain").split() == ["??", "flow.toml"]
    assert git(yard.folder, "branch", "--list", "ostler/*") == ""
    assert git(yard.folder, "worktree", "list").count("\n") == 1
    asked = [request.text for request in yard.model.asked if "both are good" in request.text]
    assert any("+++ b/one.txt" in body and "+++ b/two.txt" in body for body in asked)
