"""What agents offer in a dialog, by recordings of real ones; modes, and that none of them widens an access."""

import json
from typing import Any

import pytest

from agents.acp_replayed import CAPTURES, HOST, turn_of
from agents.codex_played import Played
from ostler.access import Access
from ostler.agents import AGENTS
from ostler.agents.claude.dialog import ClaudeDialog
from ostler.agents.claude.reader import ClaudeReader
from ostler.agents.dialog import Dialog, Emit, Fail, Over, Ready, Write
from ostler.agents.offers import LONGEST, MOST, listed
from ostler.errors import OstlerError
from ostler.model import Offer, Offered, Turn


def offered(steps: list[Any]) -> list[Offered]:
    told = [event for step in steps if isinstance(step, Emit) for event in step.events]
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
    turn = Turn(id="t", session="s", agent="claude", prompt="", folder="/w", access=access)
    dialog = ClaudeDialog(turn, HOST, ClaudeReader)
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
    assert offered([Emit(played.events)]) == []  # no turn runs
    played.do(played.dialog.prompt(played.turn))
    (told,) = offered([Emit(played.events)])
    assert told.models == (Offer(id="gpt-9", name="GPT-9", description="The best"), Offer(id="gpt-8"))
    assert refusal(played.dialog, "plan")[0] == "unsupported"


def test_an_answer_of_codex_in_a_turn_is_told_there() -> None:
    played = Played().opened()
    played.do(played.dialog.prompt(played.turn))
    assert offered([Emit(played.events)]) == []
    played.reply("model/list", {"data": [{"model": "gpt-9"}]})
    assert [told.models for told in offered([Emit(played.events)])] == [(Offer(id="gpt-9"),)]


def test_the_models_of_a_recorded_codex() -> None:
    rows = map(json.loads, (CAPTURES / "dialogs/codex/interrupt-model.trace.ndjson").read_text().splitlines())
    listed = [row["msg"]["result"] for row in rows if "data" in row["msg"].get("result", {})][-1]
    played = Played().opened().reply("model/list", listed)
    (told,) = offered(played.dialog.prompt(played.turn))
    assert told.models[0].id == "gpt-6.1-sol" and told.models[0].name == "GPT-6.1-Sol"
