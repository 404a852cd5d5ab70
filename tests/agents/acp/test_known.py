"""Agents of the settings: which are known by their program, and what keeps each to its access."""

from typing import Any

import pytest
from msgspec import structs

from agents.acp_replayed import HOST, opened, turn_of
from ostler.access import Access
from ostler.agents import AGENTS
from ostler.agents.acp import any_agent as any_acp
from ostler.agents.acp.known import CODEX_ACP, KNOWN, known
from ostler.agents.acp.protocol import unasking
from ostler.agents.acp.reader import AcpReader
from ostler.agents.adapter import Agent
from ostler.agents.claude import agent as claude
from ostler.agents.dialog import Fail, Ready, Write
from ostler.errors import OstlerError
from ostler.model import Host, Launch, Limited

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


def test_an_agent_of_the_settings_has_the_name_that_they_give_it_and_what_is_known_of_its_program() -> None:
    mine = any_acp.agent_of("mine", ["codex-acp"])
    assert (mine.name, mine.env, mine.keys) == ("mine", AGENTS["codex"].env, AGENTS["codex"].keys)
    other = any_acp.agent_of("mine", ["something"])
    assert (other.name, other.env) == ("mine", ())


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
        "claudeCode": {"options": {"strictMcpConfig": False, "settingSources": ["user"]}},
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


# -- what codex-acp makes of an error of its model's server ----------------------------------------------


def codex_state(status: str) -> dict[str, Any]:
    return {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": status}}}}


def codex_retry(status: int | None, said: str) -> dict[str, Any]:
    info = {"responseStreamDisconnected": {"httpStatusCode": status}}
    error = {"message": "Reconnecting... 1/1", "codexErrorInfo": info, "additionalDetails": said, "willRetry": True}
    return {"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": error}}}


def message(said: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}


# As codex-acp 2.6.0 ends such a turn, word for word.
NO_TOKENS = {"stopReason": "end_turn", "usage": None, "_meta": {"quota": {"token_count": None, "model_usage": []}}}
TOKENS = {"stopReason": "end_turn", "usage": {"totalTokens": 1290, "inputTokens": 1234, "outputTokens": 56}}
LIMITED = "exceeded retry limit, last status: 429 Too Many Requests"
DEMAND = "We’re currently experiencing high demand, which may cause temporary errors."


def codex_turn(*updates: dict[str, Any], result: dict[str, Any] = NO_TOKENS) -> tuple[list[Any], Any]:
    reader = AcpReader(turn_of(), CODEX_ACP)
    events = [event for update in updates for event in reader.read(update)] + reader.stopped(result)
    return events, reader.end(None, "")


@pytest.mark.parametrize(
    ("said", "status", "kind"),
    [(LIMITED, 429, "limited"), (DEMAND, None, "overloaded"), ("Something else went wrong.", None, "unproven")],
)
def test_an_error_of_the_server_that_codex_acp_tells_as_its_answer(said: str, status: int | None, kind: str) -> None:
    before = (codex_state("active"), codex_retry(status, said))
    events, verdict = codex_turn(*before, codex_state("systemError"), message(f"{said}\n\n"))
    assert (verdict.error and verdict.error.kind, verdict.error and verdict.error.message) == (kind, said)
    (retry,) = events  # no word of it is an answer
    assert isinstance(retry, Limited) and retry.attempt == 1 and said in retry.message
    assert retry.error == ("limited" if status == 429 else "overloaded")
    # One that does not tell its state still tells no tokens.
    _, verdict = codex_turn(message(f"{said}\n\n"))
    assert verdict.error and verdict.error.kind == kind


def test_an_error_after_a_tool_and_tokens_is_one_too() -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "title": "ls", "status": "completed"}
    failed = (tool, codex_state("systemError"), message(DEMAND))
    assert codex_turn(*failed, result=TOKENS)[1].error.kind == "overloaded"
    assert codex_turn(tool, message(DEMAND), codex_state("systemError"), result=TOKENS)[1].error.kind == "overloaded"


def test_what_the_model_of_codex_acp_says_stays_an_answer() -> None:
    for updates in (
        (codex_state("active"), message("hello"), codex_state("idle")),
        (codex_state("active"), codex_retry(429, LIMITED), message("hello"), codex_state("idle")),
        (codex_state("systemError"), codex_state("active"), message("hello")),
    ):
        for result in (TOKENS, {"stopReason": "end_turn"}):  # not every version of it counts
            _, verdict = codex_turn(*updates, result=result)
            assert (verdict.outcome, verdict.error, verdict.text) == ("done", None, "hello")
