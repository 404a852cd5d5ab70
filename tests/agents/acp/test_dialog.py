"""ACP as its client: recorded dialogs of real agents, and how a dialog opens."""

from typing import Any

import pytest
from msgspec import structs

from agents.acp_replayed import Replay
from ostler.agents.acp.protocol import Acp
from ostler.agents.copilot.dialog import ACP as COPILOT_ACP
from ostler.agents.gemini.dialog import ACP as GEMINI
from ostler.agents.opencode.dialog import ACP as OPENCODE_ACP
from ostler.model import (
    FileChange,
    Limited,
    Notice,
    Raw,
    Text,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Usage,
)

# A recording's agent talks to modes and options that later settings of ours would change first.
COPILOT = structs.replace(COPILOT_ACP, options={})
OPENCODE = structs.replace(OPENCODE_ACP, keeps_mode=False)
FINAL = "All done. The tool ran and this is the final answer."


# -- recordings -------------------------------------------------------------------------------------


def test_a_whole_turn_of_opencode() -> None:
    replay = Replay("acp/opencode", OPENCODE)
    command = "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
    assert [e for e in replay.events[0] if not isinstance(e, TextDelta)][1:] == [
        Text(text="I will run one tool now."),
        ToolStarted(
            id="call_20f6ddbcaff74985",
            name="bash",
            category="shell",
            title=command,
            input={"command": command, "cwd": "/workspace"},
        ),
        ToolEnded(id="call_20f6ddbcaff74985", ok=True, output="hello-from-tool\n", exit_code=0),
        Text(text=FINAL),
    ]
    (first, second) = (ask.asked for ask in replay.asks)
    assert (first.tool, first.title, first.input) == ("bash", command, {"command": command})
    assert [option.kind for option in first.options] == ["allow_once", "allow_always", "reject_once"]
    assert (second.tool, second.files) == ("write", (FileChange(path="/workspace/a.txt", change="add"),))
    assert second.diff == "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+written by the fake model\n"
    (call,) = replay.calls
    assert (call.name, call.params["path"]) == ("write_file", "/workspace/a.txt")
    # The tokens are those of the last step alone, the cost is that of the session: each turn gets its part.
    assert [(v.outcome, v.usage, v.cost_usd) for v in replay.verdicts[:2]] == [("done", None, 0.003084)] * 2
    assert [(v.outcome, v.error and v.error.kind) for v in replay.verdicts[2:]] == [
        ("cancelled", "cancelled"),
        ("failed", "unauthenticated"),
    ]


def test_a_whole_turn_of_copilot() -> None:
    replay = Replay("acp/copilot", COPILOT)
    assert [v.text for v in replay.verdicts[:2]] == [FINAL, FINAL]
    # It counts over the process: each turn gets its own part.
    each = Usage(input_tokens=2468, output_tokens=112, cached_tokens=2000, reasoning_tokens=16)
    assert [v.usage for v in replay.verdicts] == [each, each, None, None]
    # A 401 is an end_turn with a message that begins with "Error: ", and no success.
    assert [(v.outcome, v.error and v.error.kind) for v in replay.verdicts] == [
        ("done", None),
        ("done", None),
        ("cancelled", "cancelled"),
        ("failed", "unauthenticated"),
    ]
    assert [type(e) for e in replay.events[3]].count(Limited) == 2
    assert [e.text for e in replay.events[1] if isinstance(e, Notice)] == ["Info: /workspace/a.txt"]
    assert [ask.asked.files for ask in replay.asks] == [(), (FileChange(path="/workspace/a.txt", change="add"),)]
    assert replay.asks[1].asked.diff.endswith("+written by the fake model\n")
    ended = [e for events in replay.events for e in events if isinstance(e, ToolEnded)]
    assert [(e.ok, e.exit_code) for e in ended] == [(True, 0), (True, None)]


@pytest.mark.parametrize(
    ("name", "acp", "turns", "kinds"),
    [
        ("acp/claude-agent-acp", None, ["done", "done", "cancelled"], [None, None, "cancelled"]),
        ("acp/codex-acp", None, ["done", "done", "cancelled", "failed"], [None, None, "cancelled", "unauthenticated"]),
        ("acp/codex-acp-escalate", None, ["done", "failed"], [None, "unauthenticated"]),
        ("acp/codex-acp-mode-auto", None, ["done", "failed"], [None, "unauthenticated"]),
        (
            "acp/opencode",
            OPENCODE,
            ["done", "done", "cancelled", "failed"],
            [None, None, "cancelled", "unauthenticated"],
        ),
        ("dialogs/gemini/acp-newfile-cap-write-only", GEMINI, ["done", "done"], [None, None]),
        ("dialogs/gemini/acp-newfile-read-edit", GEMINI, ["done"] * 3, [None] * 3),
        ("dialogs/gemini/acp-newfile-32002-resnotfound", GEMINI, None, None),
        ("dialogs/opencode/acp-newfile-no-fs-cap", OPENCODE, ["done", "done"], [None, None]),
        ("dialogs/opencode/acp-newfile-write-error", OPENCODE, None, None),
    ],
)
def test_recorded_dialogs(name: str, acp: Acp | None, turns: list[str] | None, kinds: list[Any] | None) -> None:
    """Outcomes as they were, the same answers as were given then, and no record that is not understood."""
    replay = Replay(name, acp)
    if turns is not None:
        assert [v.outcome for v in replay.verdicts] == turns
        assert [v.error and v.error.kind for v in replay.verdicts] == kinds
    assert replay.verdicts
    assert replay.ready is not None and replay.ready.agent_session
    for ours, then in replay.pairs:
        if "result" in then:
            assert ours == then
        else:
            assert (ours["id"], "error" in ours or ours["result"] == {}) == (then["id"], True)
    raw = [e for events in replay.events for e in events if isinstance(e, Raw)]
    assert raw == []
    for events in replay.events:
        started = [e.id for e in events if isinstance(e, ToolStarted)]
        ended = [e.id for e in events if isinstance(e, ToolEnded)]
        assert len(started) == len(set(started)) and set(ended) <= set(started)


def test_gemini_names_its_tools_and_tells_tokens() -> None:
    replay = Replay("dialogs/gemini/acp-newfile-cap-write-only", GEMINI)
    assert [ask.asked.tool for ask in replay.asks] == ["write_file", "write_file"]
    assert replay.verdicts[0].usage == Usage(input_tokens=2468, output_tokens=112)
    call = {"toolCallId": "run_shell_command__fc-1", "title": "git status\nrm -rf /", "kind": "execute"}
    assert GEMINI.tool(call) == ("run_shell_command", {"command": "git status\nrm -rf /"})


def test_cached_input_that_is_counted_apart_is_input() -> None:
    replay = Replay("acp/claude-agent-acp")
    assert replay.verdicts[0].usage == Usage(input_tokens=4468, output_tokens=112, cached_tokens=2000)
