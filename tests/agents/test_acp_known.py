"""Agents of the settings: which are known by their program, and what keeps each to its access."""

from typing import Any

import pytest
from msgspec import structs

from agents.acp_replayed import HOST, opened, turn_of
from ostler.agents import AGENTS, any_acp, claude
from ostler.agents.acp_known import KNOWN, known
from ostler.agents.acp_words import unasking
from ostler.agents.adapter import Agent
from ostler.agents.dialog import Fail, Ready, Write
from ostler.errors import OstlerError
from ostler.words import Access, Host, Launch

CONFINING = structs.replace(HOST, programs=frozenset(("bwrap", "socat")))


def agent_of(*argv: str) -> Agent:
    return any_acp.agent_of("mine", argv)


def dialog_of(*argv: str, host: Host = HOST, **changes: Any) -> Any:
    face = agent_of(*argv).dialog
    assert face is not None
    return face.dialog(turn_of(**changes), host)


def launched(*argv: str, host: Host = HOST, **changes: Any) -> Launch:
    face = agent_of(*argv).dialog
    assert face is not None
    return face.launch(turn_of(**changes), host)


def modes(now: str, *others: str) -> dict[str, Any]:
    return {"modes": {"currentModeId": now, "availableModes": [{"id": id, "name": id} for id in (now, *others)]}}


# -- who is known -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["claude-agent-acp"], "claude-agent-acp"),
        (["/opt/bin/claude-agent-acp", "--debug"], "claude-agent-acp"),
        (["npx", "-y", "@agentclientprotocol/codex-acp@2.6.0"], "codex-acp"),
        (["node", "/x/node_modules/@agentclientprotocol/codex-acp/dist/index.js"], "codex-acp"),
        (["/x/node_modules/.bin/codex-acp"], "codex-acp"),
        (["qwen", "--acp"], "qwen"),
        (["npx", "@qwen-code/qwen-code", "--acp"], "qwen"),
        (["gemini", "--experimental-acp"], "gemini"),
        (["npx", "@google/gemini-cli@latest", "--acp"], "gemini"),
        (["qwen"], None),  # its terminal
        (["my-agent", "--acp"], None),
        (["/home/codex-acp/mine"], None),
        (["mine", "--log=codex-acp"], None),
        (["mine", "--codex-acp"], None),
        (["codex-acp-of-mine"], None),
        (["/"], None),
    ],
)
def test_a_program_is_known_by_its_name_or_its_package(argv: list[str], program: str | None) -> None:
    assert known(argv) is (KNOWN[program] if program else None)


def test_names_are_those_of_the_settings_and_may_change_their_meaning() -> None:
    agents = dict(AGENTS)
    any_acp.add(agents, {"mine": ["codex-acp"]})
    assert agents["mine"].env == AGENTS["codex"].env and agents["mine"].keys == AGENTS["codex"].keys
    any_acp.add(agents, {"mine": ["something"]})
    assert (agents["mine"].name, agents["mine"].env) == ("mine", ())
    with pytest.raises(OstlerError, match="already"):
        any_acp.add(agents, {"claude": ["claude-agent-acp"]})


@pytest.mark.parametrize("name", [*KNOWN, "unknown"])
def test_agents_of_the_settings_have_dialogs_alone_and_claim_no_model(name: str) -> None:
    agent = agent_of(name, "--acp")
    assert (agent.name, agent.one_shot, agent.models, agent.conversations) == ("mine", False, (), ())
    assert agent.dialog is not None and agent.dialog.protocol == "acp"
    assert {*agent.access} == {"read", "write", "full"}


@pytest.mark.parametrize(
    ("argv", "unpromised"),
    [
        (["claude-agent-acp"], set()),
        (["codex-acp"], {"read", "write"}),
        (["gemini", "--acp"], set()),
        (["qwen", "--acp"], {"write"}),
        (["my-agent"], {"read", "write"}),
    ],
)
def test_what_is_promised(argv: list[str], unpromised: set[str]) -> None:
    assert {*agent_of(*argv).unpromised} == unpromised


# -- what keeps the access --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "name", "offered", "wanted"),
    [
        (
            "claude-agent-acp",
            "@agentclientprotocol/claude-agent-acp",
            ("bypassPermissions", "default", "plan"),
            {"read": "default", "write": "default", "full": "default"},
        ),
        (
            "codex-acp",
            "@agentclientprotocol/codex-acp",
            ("agent", "read-only", "workspace-write", "agent-full-access"),
            {"read": "read-only", "write": "workspace-write", "full": "read-only"},
        ),
        (
            "qwen",
            "qwen-code",
            ("auto", "default", "plan", "yolo"),
            {"read": "default", "write": "default", "full": "default"},
        ),
        (
            "gemini",
            "gemini-cli",
            ("yolo", "default", "plan"),
            {"read": "default", "write": "default", "full": "default"},
        ),
    ],
)
@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_a_dialog_begins_in_a_mode_of_its_access(
    program: str, name: str, offered: tuple[str, ...], wanted: dict[str, str], access: Access
) -> None:
    dialog = dialog_of(program, "--acp", access=access)
    (write,) = opened(dialog, modes(*offered), agentInfo={"name": name})
    assert isinstance(write, Write)
    assert (write.record["method"], write.record["params"]["modeId"]) == ("session/set_mode", wanted[access])
    assert isinstance(dialog.read({"id": write.record["id"], "result": {}})[0], Ready)


@pytest.mark.parametrize("program", ["claude-agent-acp", "codex-acp", "qwen", "gemini"])
@pytest.mark.parametrize("about", [{}, {"agentInfo": {"name": "another"}}, {"agentInfo": "x"}])
def test_what_calls_itself_otherwise_is_refused(program: str, about: dict[str, Any]) -> None:
    dialog = dialog_of(program, "--acp")
    (write,) = dialog.open()
    result = {"protocolVersion": 1, "agentCapabilities": {}, **about}
    (fail,) = dialog.read({"id": write.record["id"], "result": result})
    assert isinstance(fail, Fail) and (fail.problem.kind, "acp.mine" in fail.problem.hint) == ("denied", True)


def test_a_known_agent_that_leaves_its_mode_is_ended() -> None:
    dialog = dialog_of("codex-acp", access="read")
    (write,) = opened(
        dialog, modes("read-only", "workspace-write"), agentInfo={"name": "@agentclientprotocol/codex-acp"}
    )
    assert isinstance(write, Ready)
    left = {"sessionUpdate": "current_mode_update", "currentModeId": "workspace-write"}
    (fail,) = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": left}})
    assert isinstance(fail, Fail) and fail.problem.kind == "denied"


# -- claude-agent-acp -------------------------------------------------------------------------------


def claude_meta(host: Host = HOST, **changes: Any) -> dict[str, Any]:
    dialog = dialog_of("claude-agent-acp", host=host, **changes)
    (write,) = dialog.open()
    about = {"protocolVersion": 1, "agentInfo": {"name": "@agentclientprotocol/claude-agent-acp"}}
    (write,) = dialog.read({"id": write.record["id"], "result": {**about, "agentCapabilities": {"loadSession": True}}})
    return dict(write.record["params"]["_meta"])


@pytest.mark.parametrize("resumed", [{}, {"resume": True, "agent_session": "11111111-2222-4333-8444-555555555555"}])
def test_claude_under_read_has_reading_tools_alone(resumed: dict[str, Any]) -> None:
    options = claude_meta(access="read", **resumed)["claudeCode"]["options"]
    assert options["tools"] == list(claude.READING)
    assert {*claude.EDITS, *claude.COMMANDS, "mcp__*"} <= {*options["disallowedTools"]}
    assert (options["strictMcpConfig"], options["allowDangerouslySkipPermissions"]) == (True, False)


def test_claude_under_write_has_the_sandbox_or_no_commands() -> None:
    options = claude_meta(CONFINING, access="write")["claudeCode"]["options"]
    assert (options["settings"], "Bash" in options["tools"]) == ({"sandbox": claude.SANDBOX}, True)
    options = claude_meta(access="write")["claudeCode"]["options"]
    assert "settings" not in options and "Bash" not in options["tools"]
    assert launched("claude-agent-acp", access="write").notices == (claude.NO_SANDBOX,)


def test_lists_of_tools_reach_claude_rule_by_rule() -> None:
    rules = ("Bash(echo a, b)", "WebFetch")
    options = claude_meta(access="full", tools_denied=rules)["claudeCode"]["options"]
    assert options["disallowedTools"] == list(rules)


def test_claude_under_full_is_as_it_is_and_told_the_system_prompt() -> None:
    assert claude_meta(access="full", system="Be brief.") == {
        "claudeCode": {"options": {"strictMcpConfig": False}},
        "systemPrompt": {"append": "Be brief."},
    }


# -- launches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_launches_add_to_the_command_line_what_the_access_needs(access: Access) -> None:
    assert launched("claude-agent-acp", access=access).argv == ("agent",)
    assert launched("codex-acp", access=access).argv == ("agent",)
    assert launched("mine", access=access).argv == ("agent",)
    qwen = launched("qwen", "--acp", access=access, model="m", system="Be brief.").argv
    assert qwen[:2] == ("agent", "--approval-mode=default") and {"--model=m", "--append-system-prompt=Be brief."} <= {
        *qwen
    }
    assert not [flag for flag in qwen if flag.startswith(("--input-format", "--output-format", "--include"))]
    assert bool([flag for flag in qwen if flag.startswith("--exclude-tools=")]) is (access != "full")
    gemini = launched("gemini", "--acp", access=access).argv
    assert "--acp" not in gemini and "--approval-mode=default" in gemini
    assert ("--policy=/private/policy.toml" in gemini) is (access != "full")


@pytest.mark.parametrize("program", ["codex-acp", "mine"])
def test_lists_of_tools_are_not_dropped_in_silence(program: str) -> None:
    with pytest.raises(OstlerError, match="list of tools"):
        launched(program, tools_denied=("shell",))


# -- those that are not known -----------------------------------------------------------------------

UNASKING = ["bypassPermissions", "yolo", "full-access", "agent-full-access", "auto", "autoEdit", "Auto Edit", "x#yolo"]


@pytest.mark.parametrize("mode", [*UNASKING, "Auto review", "acceptEdits", "dontAsk", "allow_all"])
def test_modes_that_do_not_ask(mode: str) -> None:
    assert unasking(mode)


@pytest.mark.parametrize(
    "mode", ["", "default", "ask", "agent", "plan", "read-only", "code", "build", "automatic review"]
)
def test_modes_that_say_nothing_of_the_kind(mode: str) -> None:
    assert not unasking(mode)


@pytest.mark.parametrize("mode", UNASKING)
@pytest.mark.parametrize("access", ["read", "write"])
def test_an_unknown_agent_that_does_not_ask_keeps_no_access(mode: str, access: Access) -> None:
    (fail,) = opened(dialog_of("mine", access=access), modes(mode, "default"))
    assert isinstance(fail, Fail)
    assert (fail.problem.kind, mode in fail.problem.message, "--access full" in fail.problem.hint) == (
        "denied",
        True,
        True,
    )
    assert isinstance(opened(dialog_of("mine", access="full"), modes(mode, "default"))[0], Ready)


def test_a_mode_tells_by_its_name_too() -> None:
    told = {"currentModeId": "agent", "availableModes": [{"id": "agent", "name": "Auto review"}]}
    assert isinstance(opened(dialog_of("mine", access="read"), {"modes": told})[0], Fail)


def test_no_mode_is_chosen_by_guess_and_one_that_comes_later_counts() -> None:
    dialog = dialog_of("mine", access="read")
    (ready,) = opened(dialog, modes("agent", "ask", "default", "yolo"))
    assert isinstance(ready, Ready)
    left = {"sessionUpdate": "current_mode_update", "currentModeId": "yolo"}
    (fail,) = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": left}})
    assert isinstance(fail, Fail) and fail.problem.kind == "denied"
