"""How dialogs are launched: what confines one-shot turns stays, what lets an agent act unasked goes."""

import json
from typing import Any

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.agents import AGENTS
from ostler.agents.dialog import Ask, Tell, Write
from ostler.words import Answered, Launch, Turn


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


# -- qwen's side of the talk ------------------------------------------------------------------------


def _qwen(**changes: Any) -> Any:
    face = AGENTS["qwen"].dialog
    assert face is not None
    turn: Turn = turn_of(agent="qwen", **changes)
    dialog = face.dialog(turn, HOST)
    dialog.prompt(turn)
    return dialog


def _asks(dialog: Any, id: str, tool: str, **input: Any) -> list[Any]:
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": input}
    return list(dialog.read({"type": "control_request", "request_id": id, "request": request}))


def test_qwen_is_not_asked_twice_what_was_always_allowed() -> None:
    dialog = _qwen()
    (ask,) = _asks(dialog, "1", "run_shell_command", command="ls")
    assert [option.kind for option in ask.asked.options] == ["allow_once", "allow_always", "reject_once"]
    (write,) = dialog.answer("1", "allow_always")
    assert write.record["response"]["response"] == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    told, write = _asks(dialog, "2", "run_shell_command", command="ls")
    assert told.events[-1] == Answered(id="2", option="allow_always", by="an answer before")
    assert write.record["response"]["request_id"] == "2"
    assert isinstance(_asks(dialog, "3", "run_shell_command", command="ls -l")[0], Ask)
    _asks(dialog, "4", "edit", file_path="/workspace/a", old_string="x", new_string="y")
    dialog.answer("4", "allow_always")
    assert isinstance(_asks(dialog, "5", "edit", file_path="/workspace/a", old_string="q", new_string="r")[0], Tell)


@pytest.mark.parametrize("path", ["/etc/x", "/workspace/../etc/x", "x", "/workspaces/x"])
def test_qwen_keeps_to_the_folder_by_its_questions(path: str) -> None:
    dialog = _qwen(access="write")
    told, write = _asks(dialog, "1", "write_file", file_path=path, content="x")
    assert (told.events[-1].option, told.events[-1].by) == ("reject_once", "access write")
    assert isinstance(write, Write) and write.record["response"]["response"]["behavior"] == "deny"
    assert [(d.target, d.access) for d in dialog.reader.denied] == [(path, "full")]
    assert isinstance(_asks(dialog, "2", "write_file", file_path="/workspace/x", content="x")[0], Ask)


def test_qwen_says_that_a_conversation_is_gone() -> None:
    dialog = _qwen(resume=True, agent_session="gone")
    assert dialog.unborn(None, "No saved session found with ID gone.").kind == "not_found"
    assert dialog.unborn(None, "something else") is None


def test_qwen_takes_prompts_as_they_are() -> None:
    dialog = _qwen()
    told, write = dialog.prompt(turn_of("/exit and @README.md", agent="qwen"))
    assert write.record["message"]["content"] == "\n/exit and \\@README.md"
    assert "@name" in told.events[0].text


def test_cursor_asks_for_all_it_does() -> None:
    assert launched("cursor", "write", model="m").argv == ("agent", "--model=m", "acp")
