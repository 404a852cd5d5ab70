"""What agents offer in a dialog, by recordings of real ones; modes, and that none of them widens an access."""

import json
from typing import Any

import pytest
from msgspec import structs

from agents.acp_replayed import CAPTURES, HOST, Replay, dialog_of, opened, turn_of
from agents.codex_played import Played
from ostler.agents import AGENTS
from ostler.agents.acp import AcpDialog
from ostler.agents.acp_words import Acp
from ostler.agents.claude import ClaudeDialog
from ostler.agents.copilot_dialog import ACP as COPILOT
from ostler.agents.dialog import Dialog, Fail, Over, Ready, Tell, Write
from ostler.agents.gemini_dialog import ACP as GEMINI
from ostler.agents.offers import LONGEST, MOST, listed
from ostler.agents.opencode_dialog import OpencodeDialog
from ostler.errors import OstlerError
from ostler.words import Access, Offer, Offered, Turn


def offered(steps: list[Any]) -> list[Offered]:
    told = [event for step in steps if isinstance(step, Tell) for event in step.events]
    return [event for event in told if isinstance(event, Offered)]


def written(steps: list[Any]) -> list[Any]:
    return [step.record for step in steps if isinstance(step, Write)]


def refusal(dialog: Dialog, mode: str) -> tuple[str, str]:
    with pytest.raises(OstlerError) as refused:
        dialog.check_mode(mode)
    with pytest.raises(OstlerError) as again:
        dialog.change(mode=mode)
    assert again.value.kind == refused.value.kind
    return refused.value.kind, refused.value.hint


# -- as offers --------------------------------------------------------------------------------------


def test_offers_are_told_once_and_in_short() -> None:
    many = ((f"c{n}", "", "") for n in range(2 * MOST))
    assert len(listed(many)) == MOST
    found = listed(
        [("a", "a", " two\nlines "), ("a", "again", ""), ("", "none", ""), (None, 1, 2), ("b", "B", "x" * 999)]
    )
    assert found == (Offer(id="a", description="two lines"), Offer(id="b", name="B", description="x" * 199 + "…"))
    assert len(found[1].description) == LONGEST


# -- claude -----------------------------------------------------------------------------------------


def claude(access: Access = "write") -> ClaudeDialog:
    """A dialog that has heard the answer to `initialize` of a recording."""
    dialog = ClaudeDialog(Turn(id="t", session="s", agent="claude", prompt="", folder="/w", access=access), HOST)
    rows = map(json.loads, (CAPTURES / "dialogs/claude/control-modes.trace.ndjson").read_text().splitlines()[1:])
    told = next(row["msg"]["response"] for row in rows if row["msg"].get("type") == "control_response")
    mode = {"current_permission_mode": ClaudeDialog.modes[access][0]}
    steps = answer(dialog, dialog.open(), {**told["response"], **mode})
    assert isinstance(steps[0], Ready) and offered(steps) == []  # between turns nothing is told
    return dialog


def answer(dialog: Dialog, sent: list[Any], response: Any = None, error: str = "") -> list[Any]:
    about = {"request_id": written(sent)[-1]["request_id"]}
    said = {"subtype": "error", "error": error} if error else {"subtype": "success", "response": response or {}}
    return dialog.read({"type": "control_response", "response": {**about, **said}})


INIT = {"type": "system", "subtype": "init", "session_id": "S", "model": "claude-opus-5-5", "permissionMode": "default"}


def test_claude_tells_its_commands_models_and_modes_in_a_turn() -> None:
    dialog = claude()
    assert dialog.read(INIT) == []
    dialog.prompt(turn_of())
    (told,) = offered(dialog.read(INIT))
    assert told.quiet and (told.model, told.mode) == ("claude-opus-5-5", "default")
    assert [offer.id for offer in told.modes] == ["default", "plan", "acceptEdits"]
    assert told.models[1].id == "opus" and told.models[1].name == "Opus"
    assert "compact" in [offer.id for offer in told.commands]
    assert max(len(offer.description) for offer in told.commands) == LONGEST
    assert offered(dialog.read(INIT)) == []  # the same as before
    (told,) = offered(dialog.read({"type": "system", "subtype": "status", "permissionMode": "plan"}))
    assert told.mode == "plan"


def test_a_prompt_of_claude_waits_for_its_mode() -> None:
    dialog = claude()
    sent = dialog.change(mode="plan")
    assert written(sent)[0]["request"] == {"subtype": "set_permission_mode", "mode": "plan"}
    assert dialog.prompt(turn_of("do it")) == []
    (prompt,) = written(answer(dialog, sent, {"mode": "plan"}))
    assert prompt["message"]["content"] == "do it"
    assert dialog.change(mode="plan") == []  # it holds
    assert len(dialog.change(mode="default")) == 1


def test_a_mode_that_claude_refuses_costs_the_turn_alone() -> None:
    dialog = claude()
    sent = dialog.change(mode="plan")
    dialog.prompt(turn_of())
    assert answer(dialog, sent, error="invalid_mode") == [Over()]
    problem = dialog.verdict(None, "").error
    assert problem is not None and (problem.kind, problem.message) == (
        "bad_request",
        "claude refused the mode: invalid_mode",
    )
    assert len(written(dialog.prompt(turn_of()))) == 1


def test_an_interrupt_before_claude_has_its_prompt() -> None:
    dialog = claude()
    sent = dialog.change(mode="plan")
    dialog.prompt(turn_of())
    assert dialog.interrupt() == [Over()]
    assert dialog.verdict(None, "").outcome == "cancelled"
    assert answer(dialog, sent, {"mode": "plan"}) == []


@pytest.mark.parametrize(
    ("access", "mode", "kind", "hint"),
    [
        ("read", "acceptEdits", "denied", "Within it: dontAsk, plan. Others need a wider --access"),
        ("read", "default", "denied", "Within it: dontAsk, plan. Others need a wider --access"),
        ("write", "dontAsk", "denied", "Within it: default, plan, acceptEdits. Others need a wider --access"),
        ("full", "bypassPermissions", "bad_request", "It has: default, plan, acceptEdits"),
        ("full", "auto", "bad_request", "It has: default, plan, acceptEdits"),
        ("read", "yolo", "bad_request", "It has: dontAsk, plan"),
    ],
)
def test_no_mode_of_claude_widens_the_access(access: Access, mode: str, kind: str, hint: str) -> None:
    assert refusal(claude(access), mode) == (kind, hint)


@pytest.mark.parametrize(("access", "strays"), [("read", True), ("write", True), ("full", False)])
def test_a_claude_that_leaves_the_modes_of_its_access_is_ended(access: Access, strays: bool) -> None:
    dialog = claude(access)
    dialog.prompt(turn_of())
    steps = dialog.read({"type": "system", "subtype": "status", "permissionMode": "bypassPermissions"})
    assert [step.problem.kind for step in steps if isinstance(step, Fail)] == (["denied"] if strays else [])


# -- qwen -------------------------------------------------------------------------------------------


def test_qwen_is_asked_for_its_models_and_tells_commands_in_its_first_turn() -> None:
    dialog = AGENTS["qwen"].dialog.dialog(turn_of(access="write"), HOST)  # type: ignore[union-attr]
    steps = answer(dialog, dialog.open(), {"capabilities": {"can_get_available_models": True}})
    assert isinstance(steps[0], Ready)
    assert answer(dialog, steps, {"models": [{"id": "qwen-9", "label": "Qwen 9"}]}) == []
    dialog.prompt(turn_of())
    init = {"type": "system", "subtype": "init", "session_id": "S", "model": "qwen-9", "permission_mode": "default"}
    (told,) = offered(dialog.read({**init, "slash_commands": ["compress", 7, "init"]}))
    assert told == Offered(
        quiet=True,
        commands=(Offer(id="compress"), Offer(id="init")),
        models=(Offer(id="qwen-9", name="Qwen 9"),),
        modes=(Offer(id="default"), Offer(id="plan")),
        model="qwen-9",
        mode="default",
    )
    assert refusal(dialog, "auto-edit")[0] == "denied"
    assert refusal(dialog, "yolo")[0] == "bad_request"


# -- codex ------------------------------------------------------------------------------------------


def test_codex_lists_its_models_without_being_waited_for() -> None:
    played = Played().opened()
    assert isinstance(played.others[-1], Ready)
    models = [
        {"model": "gpt-9", "displayName": "GPT-9", "description": "The best"},
        {"model": "old", "hidden": True},
        {"model": "gpt-8", "displayName": "gpt-8"},
    ]
    played.reply("model/list", {"data": models})
    assert offered([Tell(played.events)]) == []  # no turn runs
    played.do(played.dialog.prompt(played.turn))
    (told,) = offered([Tell(played.events)])
    assert told.models == (Offer(id="gpt-9", name="GPT-9", description="The best"), Offer(id="gpt-8"))
    assert refusal(played.dialog, "plan")[0] == "unsupported"


def test_an_answer_of_codex_in_a_turn_is_told_there() -> None:
    played = Played().opened()
    played.do(played.dialog.prompt(played.turn))
    assert offered([Tell(played.events)]) == []
    played.reply("model/list", {"data": [{"model": "gpt-9"}]})
    assert [told.models for told in offered([Tell(played.events)])] == [(Offer(id="gpt-9"),)]


def test_the_models_of_a_recorded_codex() -> None:
    rows = map(json.loads, (CAPTURES / "dialogs/codex/interrupt-model.trace.ndjson").read_text().splitlines())
    listed = [row["msg"]["result"] for row in rows if "data" in row["msg"].get("result", {})][-1]
    played = Played().opened().reply("model/list", listed)
    (told,) = offered(played.dialog.prompt(played.turn))
    assert told.models[0].id == "gpt-6.1-sol" and told.models[0].name == "GPT-6.1-Sol"


# -- ACP --------------------------------------------------------------------------------------------

MODES = {
    "currentModeId": "default",
    "availableModes": [
        {"id": "default", "name": "Default", "description": "Asks"},
        {"id": "autoEdit"},
        {"id": "u#plan", "name": "Plan"},
    ],
}
MODEL = {
    "id": "model",
    "category": "model",
    "currentValue": "big",
    "options": [{"value": "big", "name": "Big"}, {"name": "More", "options": [{"value": "other/small"}]}],
}
COMMANDS = [{"name": "init", "description": "Sets up"}, {"name": "review"}]


def acp(access: Access = "write", safe: tuple[str, ...] = ("plan",), **more: Any) -> AcpDialog:
    class Plain(AcpDialog):
        pass

    Plain.acp = Acp(modes=dict.fromkeys(("read", "write", "full"), "default"), safe_modes=safe, **more)
    dialog = Plain(turn_of(access=access), HOST)
    assert isinstance(opened(dialog, {"modes": MODES, "configOptions": [MODEL]})[-1], Ready)
    return dialog


def updated(dialog: AcpDialog, kind: str, **what: Any) -> list[Any]:
    told = {"sessionUpdate": kind, **what}
    return dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": told}})


def test_an_acp_agent_tells_what_it_offers_when_that_changes() -> None:
    dialog = acp()
    assert updated(dialog, "available_commands_update", availableCommands=COMMANDS) == []
    (told,) = offered(dialog.prompt(turn_of()))
    assert told == Offered(
        quiet=True,
        commands=(Offer(id="init", description="Sets up"), Offer(id="review")),
        models=(Offer(id="big", name="Big"), Offer(id="other/small")),
        modes=(Offer(id="default", name="Default", description="Asks"), Offer(id="plan", name="Plan")),
        model="big",
        mode="default",
    )
    assert updated(dialog, "available_commands_update", availableCommands=COMMANDS) == []
    (told,) = offered(updated(dialog, "available_commands_update", availableCommands=COMMANDS[:1]))
    assert [each.id for each in told.commands] == ["init"]
    (told,) = offered(updated(dialog, "current_mode_update", currentModeId="u#plan"))
    assert told.mode == "plan"
    dialog.read({"id": dialog._prompt, "result": {"stopReason": "end_turn"}})
    assert updated(dialog, "current_mode_update", currentModeId="default") == []
    (told,) = offered(dialog.prompt(turn_of()))
    assert told.mode == "default"


def test_a_mode_is_set_before_the_prompt() -> None:
    dialog = acp()
    sent = dialog.change(mode="plan")
    assert written(sent)[0]["params"] == {"sessionId": "S", "modeId": "u#plan"}
    assert written(dialog.prompt(turn_of())) == []
    tell, prompt = dialog.read({"id": written(sent)[0]["id"], "result": {}})
    assert offered([tell])[0].mode == "plan" and prompt.record["method"] == "session/prompt"
    assert dialog.change(mode="plan") == []


@pytest.mark.parametrize("wish", [{"mode": "plan"}, {"model": "small"}])
def test_what_the_agent_refuses_costs_the_turn_alone(wish: dict[str, str]) -> None:
    dialog = acp()
    (request,) = written(dialog.change(**wish))
    dialog.prompt(turn_of())
    steps = dialog.read({"id": request["id"], "error": {"code": -32602, "message": "not now"}})
    assert steps == [Over()]
    error = dialog.verdict(None, "").error
    assert error is not None and error.kind == "bad_request" and "not now" in error.message
    assert len(dialog.change(**wish)) == 1  # it was not set
    assert dialog._offered.mode == ("u#plan" if "mode" in wish else "default")


@pytest.mark.parametrize(
    ("access", "mode", "kind", "hint"),
    [
        ("read", "autoEdit", "denied", "Within it: default, plan. Others need a wider --access"),
        ("write", "nonesuch", "denied", "Within it: default, plan. Others need a wider --access"),
        ("full", "nonesuch", "bad_request", "It has: default, autoEdit, plan"),
    ],
)
def test_no_mode_of_an_acp_agent_widens_the_access(access: Access, mode: str, kind: str, hint: str) -> None:
    dialog = acp(access)
    with pytest.raises(OstlerError) as refused:
        dialog.change(mode=mode)
    assert (refused.value.kind, refused.value.hint) == (kind, hint)
    assert dialog._offered.mode == "default"


def test_with_full_access_every_mode_may_be_set() -> None:
    assert written(acp("full").change(mode="autoEdit"))[0]["params"]["modeId"] == "autoEdit"
    assert [offer.id for offer in acp("full").offered().modes] == ["default", "autoEdit", "plan"]


def test_where_the_mode_keeps_the_access_it_is_not_to_be_set() -> None:
    dialog = OpencodeDialog(turn_of(id="t1"), HOST)
    mode = {"id": "mode", "category": "mode", "currentValue": "ostler-t1", "options": [{"value": "ostler-t1"}]}
    opened(dialog, {"configOptions": [mode]})
    assert refusal(dialog, "build")[0] == "unsupported"
    assert offered(dialog.prompt(turn_of())) == []


def test_an_agent_without_modes() -> None:
    dialog = dialog_of(access="full")
    opened(dialog)
    with pytest.raises(OstlerError) as refused:
        dialog.change(mode="plan")
    assert refused.value.kind == "unsupported"


def test_an_agent_that_leaves_its_mode_is_ended_unless_all_is_allowed() -> None:
    for access, strays in (("read", True), ("write", True), ("full", False)):
        dialog = acp(access)  # type: ignore[arg-type]
        dialog.prompt(turn_of())
        steps = updated(dialog, "current_mode_update", currentModeId="autoEdit")
        assert any(isinstance(step, Fail) for step in steps) is strays
        dialog = acp(access)  # type: ignore[arg-type]
        steps = updated(dialog, "current_mode_update", currentModeId="u#plan")
        assert not any(isinstance(step, Fail) for step in steps)


def test_an_option_that_allows_everything_is_noticed() -> None:
    """copilot has a command `/allow-all`."""

    class Copilot(AcpDialog):
        acp = COPILOT

    option = {"id": "allow_all", "category": "permissions", "currentValue": "off"}
    modes = {"currentModeId": "agent", "availableModes": [{"id": "agent"}]}
    for access in ("read", "write", "full"):
        dialog = Copilot(turn_of(access=access), HOST)
        opened(dialog, {"modes": modes, "configOptions": [option]})
        steps = updated(dialog, "config_option_update", configOptions=[{**option, "currentValue": "on"}])
        assert [type(step) for step in steps] == ([] if access == "full" else [Fail])


def test_what_a_recorded_gemini_and_copilot_offer() -> None:
    gemini = Replay("dialogs/gemini/acp-newfile-cap-write-only", GEMINI).offered[-1]
    assert [offer.id for offer in gemini.modes] == ["default", "autoEdit", "yolo", "plan"]  # the access was full
    assert "memory show" in [offer.id for offer in gemini.commands]
    assert (gemini.model, gemini.mode, gemini.models[0].id) == ("gemini-2.5-pro", "default", "auto")
    copilot = Replay("acp/copilot", structs.replace(COPILOT, options={})).offered[-1]
    assert [offer.id for offer in copilot.modes] == ["agent", "plan", "autopilot"]
    assert copilot.mode == "agent" and "add-dir" in [offer.id for offer in copilot.commands]
