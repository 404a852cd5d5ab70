"""ACP as its client: recorded dialogs of real agents, and how a dialog opens."""

from typing import Any

import pytest
from msgspec import structs

from agents.acp_replayed import HOST, Replay, dialog_of, opened, turn_of
from ostler.agents import opencode_dialog
from ostler.agents.acp import AcpDialog
from ostler.agents.acp_words import Acp
from ostler.agents.copilot_dialog import ACP as COPILOT_ACP
from ostler.agents.dialog import Fail, Ready, Write
from ostler.agents.gemini_dialog import ACP as GEMINI
from ostler.agents.opencode_dialog import OpencodeDialog
from ostler.errors import OstlerError
from ostler.words import (
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
OPENCODE = structs.replace(OpencodeDialog.acp, keeps_mode=False)
FINAL = "All done. The tool ran and this is the final answer."


# -- recordings -------------------------------------------------------------------------------------


def test_a_whole_turn_of_opencode() -> None:
    replay = Replay("acp/opencode", OPENCODE)
    command = "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
    assert [e for e in replay.events[0] if not isinstance(e, TextDelta)][1:] == [
        Text(text="I will run one tool now."),
        ToolStarted(
            id="call_20f6ddbcaff74985", name="bash", title=command, input={"command": command, "cwd": "/workspace"}
        ),
        ToolEnded(id="call_20f6ddbcaff74985", ok=True, output="hello-from-tool\n", exit_code=0),
        Text(text=FINAL),
    ]
    (first, second) = (ask.asked for ask in replay.asks)
    assert (first.tool, first.title, first.input) == ("bash", command, {"command": command})
    assert [option.kind for option in first.options] == ["allow_once", "allow_always", "reject_once"]
    assert (second.tool, second.files) == ("write", (FileChange(path="/workspace/a.txt"),))
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
    assert [ask.asked.files for ask in replay.asks] == [(), (FileChange(path="/workspace/a.txt"),)]
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


# -- opening ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 0, None, "1", 1.5])
def test_another_version_is_refused(version: Any) -> None:
    dialog = dialog_of()
    (write,) = dialog.open()
    (step,) = dialog.read({"id": write.record["id"], "result": {"protocolVersion": version}})
    assert isinstance(step, Fail) and step.problem.kind == "unsupported"


def test_a_login_is_asked_for_in_the_agents_words() -> None:
    dialog = dialog_of()
    (write,) = dialog.open()
    methods = [
        {"id": "a", "name": "Log in", "description": "Run `mine login`"},
        {"id": "b", "type": "env_var", "name": "Key", "vars": [{"name": "MINE_KEY"}]},
        "broken",
    ]
    (write,) = dialog.read({"id": write.record["id"], "result": {"protocolVersion": 1, "authMethods": methods}})
    (step,) = dialog.read({"id": write.record["id"], "error": {"code": -32000, "message": "Authentication required"}})
    assert (step.problem.kind, step.problem.hint) == ("unauthenticated", "Run `mine login`; Set MINE_KEY")


def test_resume_is_preferred_to_load_and_what_is_missing_is_told() -> None:
    for abilities, method in (
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
        ({"loadSession": True}, "session/load"),
    ):
        dialog = dialog_of(resume=True, agent_session="old")
        (write,) = dialog.open()
        answer = {"protocolVersion": 1, "agentCapabilities": abilities}
        (write,) = dialog.read({"id": write.record["id"], "result": answer})
        assert (write.record["method"], write.record["params"]["sessionId"]) == (method, "old")
        (step,) = dialog.read({"id": write.record["id"], "error": {"code": -32002, "message": "gone"}})
        assert (step.problem.kind, step.problem.hint) == ("not_found", "Start a new session")
    dialog = dialog_of(resume=True, agent_session="old")
    (write,) = dialog.open()
    (step,) = dialog.read({"id": write.record["id"], "result": {"protocolVersion": 1}})
    assert step.problem.kind == "unsupported"


def test_replayed_history_is_dropped_also_when_it_comes_late() -> None:
    """gemini answers a load, and replays after it: the same request again and again tells when it is over."""
    dialog = dialog_of(structs.replace(GEMINI, modes={}), resume=True, agent_session="old")
    (write,) = dialog.open()
    answer = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    (write,) = dialog.read({"id": write.record["id"], "result": answer})
    assert write.record["params"]["sessionId"] == " old"
    modes = {"modes": {"currentModeId": "default", "availableModes": [{"id": "default"}]}}
    (write,) = dialog.read({"id": write.record["id"], "result": modes})
    old = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old words"}}
    for _ in range(3):
        assert (write.record["method"], write.record["params"]["modeId"]) == ("session/set_mode", "default")
        assert dialog.read({"method": "session/update", "params": {"sessionId": " old", "update": old}}) == []
        (write,) = dialog.read({"id": write.record["id"], "result": {}})
    (ready,) = dialog.read({"id": write.record["id"], "result": {}})
    assert ready == Ready(agent_session="old")


MODES = {"currentModeId": "yolo", "availableModes": [{"id": "yolo"}, {"id": "x#careful"}]}
MODEL = {
    "id": "m",
    "category": "model",
    "currentValue": "big",
    "options": [{"value": "big"}, {"group": "g", "options": [{"value": "other/small"}]}],
}


def test_a_mode_and_a_model_are_set_before_the_first_prompt() -> None:
    class Careful(AcpDialog):
        acp = Acp(modes={"full": "careful"}, options={"allow_all": "off", "none": "x"})

    dialog = Careful(turn_of(model="small"), HOST)
    every = {"id": "allow_all", "currentValue": "on", "options": [{"value": "on"}, {"value": "off"}]}
    steps = opened(dialog, {"modes": MODES, "configOptions": [MODEL, every]})
    wanted = [
        ("session/set_mode", {"sessionId": "S", "modeId": "x#careful"}),
        ("session/set_config_option", {"sessionId": "S", "configId": "allow_all", "value": "off"}),
        ("session/set_config_option", {"sessionId": "S", "configId": "m", "value": "other/small"}),
    ]
    chosen = {"m": "big", "allow_all": "on"}
    for method, params in wanted:
        (write,) = steps
        assert (write.record["method"], write.record["params"]) == (method, params)
        chosen |= {params.get("configId", ""): params.get("value", "")}
        now = [{**option, "currentValue": chosen[str(option["id"])]} for option in (MODEL, every)]
        steps = dialog.read({"id": write.record["id"], "result": {"configOptions": now}})
    assert steps == [Ready(agent_session="S", model="other/small")]


def test_what_there_is_not_is_refused_with_what_there_is() -> None:
    class Careful(AcpDialog):
        acp = Acp(modes={"full": "gone"})

    (step,) = opened(Careful(turn_of(), HOST), {"modes": MODES})
    assert (step.problem.kind, step.problem.hint) == ("unsupported", "It has: yolo, careful")
    (step,) = opened(dialog_of(model="tiny"), {"configOptions": [MODEL]})
    assert (step.problem.kind, step.problem.hint) == ("bad_request", "It has: big, other/small")


def test_another_model_holds_the_prompt_back() -> None:
    dialog = dialog_of()
    opened(dialog, {"configOptions": [MODEL]})
    (write,) = dialog.change(model="small")
    steps = dialog.prompt(turn_of())
    assert not any(isinstance(step, Write) for step in steps)
    _, prompt = dialog.read({"id": write.record["id"], "result": {"configOptions": [MODEL]}})
    assert prompt.record["method"] == "session/prompt"
    assert dialog.change(model="big") == []
    with pytest.raises(OstlerError) as refused:
        dialog.change(model="tiny")
    assert refused.value.kind == "bad_request"


def test_leaving_the_mode_that_keeps_the_access_ends_the_dialog() -> None:
    dialog = OpencodeDialog(turn_of(id="t1"), HOST)
    mode = {"id": "mode", "category": "mode", "currentValue": "ostler-t1", "options": [{"value": "ostler-t1"}]}
    assert isinstance(opened(dialog, {"configOptions": [mode]})[0], Ready)
    dialog.prompt(turn_of())
    update = {"sessionUpdate": "config_option_update", "configOptions": [{**mode, "currentValue": "build"}]}
    (step,) = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
    assert isinstance(step, Fail) and step.problem.kind == "denied"


def test_rules_of_opencode_ask_for_what_they_allowed() -> None:
    full = opencode_dialog.asking({"*": "allow", "external_directory": "allow", "webfetch": "deny"})
    assert full == {
        "*": "ask",
        **dict.fromkeys(opencode_dialog.QUIET, "allow"),
        "external_directory": "ask",
        "webfetch": "deny",
    }
    write = opencode_dialog.asking({"*": "deny", "read": {"*": "allow"}, "edit": "allow"})
    assert write == {"*": "deny", "read": {"*": "allow"}, "edit": "ask"}
