"""How a dialog with an ACP agent begins, and what ends it before it has begun."""

from typing import Any

import pytest
from msgspec import structs

from agents.acp_replayed import HOST, dialog_of, opened, turn_of
from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.acp.protocol import Acp
from ostler.agents.dialog import Fail, Ready
from ostler.agents.gemini.dialog import ACP as GEMINI
from ostler.model import Exit, McpServer, Problem


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
    careful = Acp(modes={"full": "careful"}, options={"allow_all": "off", "none": "x"})
    dialog = AcpDialog(turn_of(model="small"), HOST, careful)
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
    (step,) = opened(AcpDialog(turn_of(), HOST, Acp(modes={"full": "gone"})), {"modes": MODES})
    assert (step.problem.kind, step.problem.hint) == ("unsupported", "It has: yolo, careful")
    (step,) = opened(dialog_of(model="tiny"), {"configOptions": [MODEL]})
    assert (step.problem.kind, step.problem.hint) == ("bad_request", "It has: big, other/small")


def answered(dialog: AcpDialog, **answer: Any) -> Any:
    """The one step that follows the answer to `initialize`."""
    (write,) = dialog.open()
    (step,) = dialog.read({"id": write.record["id"], "result": {"protocolVersion": 1, **answer}})
    return step


@pytest.mark.parametrize(
    ("access", "acp", "writes", "terminal"),
    [
        ("read", Acp(), False, False),
        ("write", Acp(), True, False),
        ("full", Acp(), True, True),
        ("full", Acp(terminals=False, writes=False), False, False),
    ],
)
def test_what_the_agent_may_ask_of_us_is_within_its_access(access: str, acp: Acp, writes: bool, terminal: bool) -> None:
    (write,) = dialog_of(acp, access=access).open()
    assert write.record == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": True, "writeTextFile": writes},
                "terminal": terminal,
                "_meta": {"terminal_output": True},
            },
            "clientInfo": {"name": "ostler", "title": "ostler", "version": "1"},
        },
    }


def test_true_is_no_version() -> None:
    assert answered(dialog_of(), protocolVersion=True).problem == Problem(
        kind="unsupported",
        message="mine speaks version True of ACP, ostler speaks version 1",
        hint="Update mine or ostler",
    )


@pytest.mark.parametrize("info", [{"name": "other"}, {}, None, {"name": None}])
def test_who_calls_itself_otherwise_is_not_taken_for_a_known_one(info: Any) -> None:
    problem = answered(dialog_of(Acp(names=("acme", "acme-acp"))), agentInfo=info).problem
    assert problem.kind == "denied" and problem.message.startswith("mine calls itself ")
    assert answered(dialog_of(Acp(names=("acme", "acme-acp"))), agentInfo={"name": "acme-acp"}).record["id"] == 2


def test_a_session_has_its_folder_its_servers_and_what_its_own_words_know() -> None:
    server = McpServer(name="db", command="db-server")
    acp = Acp(meta=lambda turn, host: {"own": [turn.access, host.executable]})
    write = answered(dialog_of(acp, mcp=(server,)))
    assert (write.record["method"], write.record["params"]) == (
        "session/new",
        {
            "cwd": "/workspace",
            "mcpServers": [{"name": "db", "command": "db-server", "args": (), "env": []}],
            "_meta": {"own": ["full", "agent"]},
        },
    )
    assert answered(dialog_of(Acp(mcp_by_flag=True), mcp=(server,))).record["params"]["mcpServers"] == []


def test_a_fork_is_refused() -> None:
    dialog = dialog_of(resume=True, fork=True, agent_session="old")
    assert answered(dialog).problem == Problem(
        kind="unsupported", message="mine cannot fork a session over ACP", hint="Start a new session"
    )


def test_an_answer_without_a_session_is_no_agent() -> None:
    for session in ({"sessionId": ""}, {"sessionId": 5}, {"sessionId": None}):
        (step,) = opened(dialog_of(), session)
        assert step.problem == Problem(
            kind="unsupported",
            message="mine is not an ACP agent: it named no session",
            hint="Check its command line, and its version",
        )


def test_a_program_that_says_back_what_it_hears_is_no_agent() -> None:
    dialog = dialog_of()
    (write,) = dialog.open()
    (step,) = dialog.read(write.record)
    assert step.problem.message == "mine is not an ACP agent: it only echoes its input"


def test_a_program_that_only_prints_is_told_by_its_first_words() -> None:
    dialog = dialog_of()
    dialog.open()
    assert dialog.startup_error(Exit(code=2), "") is None  # it printed nothing
    for line in ("  ", " usage: mine [-h] ", "more"):
        dialog.read_noise(line)
    assert dialog.startup_error(Exit(code=2), "").message == (  # type: ignore[union-attr]
        "mine is not an ACP agent: it printed 'usage: mine [-h]' and ended with exit code 2"
    )
    assert dialog.startup_error(None, "").message == "mine is not an ACP agent: it printed 'usage: mine [-h]'"  # type: ignore[union-attr]


def test_a_banner_before_a_good_answer_is_only_noise() -> None:
    dialog = dialog_of()
    dialog.read_noise("welcome")
    answered(dialog, agentCapabilities={"loadSession": True})
    assert dialog.startup_error(Exit(code=1), "") is None


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"code": -32603, "message": "boom"}, "unsupported", "mine could not open a dialog (session/new): boom"),
        ({"code": -32000}, "unauthenticated", "mine needs a login: refused"),
        ("a bare string", "unsupported", "mine could not open a dialog (session/new): a bare string"),
    ],
)
def test_a_session_that_is_refused(error: Any, kind: str, message: str) -> None:
    dialog = dialog_of()
    write = answered(dialog)
    (step,) = dialog.read({"id": write.record["id"], "error": error})
    assert (step.problem.kind, step.problem.message) == (kind, message)


def test_a_setting_that_is_refused_before_the_first_prompt_ends_the_dialog() -> None:
    dialog = AcpDialog(turn_of(), HOST, Acp(modes={"full": "careful"}))
    (write,) = opened(dialog, {"modes": MODES})
    (step,) = dialog.read({"id": write.record["id"], "error": {"code": 1, "message": "no"}})
    assert step.problem == Problem(kind="bad_request", message="mine refused session/set_mode: no")
