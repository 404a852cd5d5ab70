"""What an ACP agent offers in a dialog, and that no choice of a mode widens the access."""

from typing import Any

import pytest
from msgspec import structs

from agents.acp_replayed import HOST, Replay, dialog_of, opened, turn_of
from ostler.access import Access
from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.acp.protocol import Acp
from ostler.agents.copilot.dialog import ACP as COPILOT
from ostler.agents.dialog import Dialog, Emit, Fail, Over, Ready, Write
from ostler.agents.gemini.dialog import ACP as GEMINI
from ostler.agents.opencode.dialog import ACP as OPENCODE
from ostler.errors import OstlerError
from ostler.model import Offer, Offered


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
    described = Acp(modes=dict.fromkeys(("read", "write", "full"), "default"), safe_modes=safe, **more)
    dialog = AcpDialog(turn_of(access=access), HOST, described)
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
    assert dialog._options.mode == ("u#plan" if "mode" in wish else "default")


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
    assert dialog._options.mode == "default"


def test_with_full_access_every_mode_may_be_set() -> None:
    assert written(acp("full").change(mode="autoEdit"))[0]["params"]["modeId"] == "autoEdit"
    assert [offer.id for offer in acp("full").offered().modes] == ["default", "autoEdit", "plan"]


def test_where_the_mode_keeps_the_access_it_is_not_to_be_set() -> None:
    dialog = AcpDialog(turn_of(id="t1"), HOST, OPENCODE)
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

    option = {"id": "allow_all", "category": "permissions", "currentValue": "off"}
    modes = {"currentModeId": "agent", "availableModes": [{"id": "agent"}]}
    for access in ("read", "write", "full"):
        dialog = AcpDialog(turn_of(access=access), HOST, COPILOT)
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


def test_nonsense_about_offers_changes_nothing() -> None:
    dialog = acp()
    dialog.prompt(turn_of())
    before = dialog.offered()
    for kind, what in (
        ("current_mode_update", {"currentModeId": None}),
        ("current_mode_update", {"currentModeId": 7}),
        ("config_option_update", {"configOptions": "x"}),
        ("config_option_update", {"configOptions": [None, 5]}),
        ("available_commands_update", {"availableCommands": [None, {"name": 5}, "x"]}),
    ):
        assert updated(dialog, kind, **what) == []
    assert dialog.offered() == before


def test_a_refused_pair_of_wishes_leaves_both_as_they_were() -> None:
    dialog = acp()
    with pytest.raises(OstlerError):
        dialog.change(model="small", mode="autoEdit")
    with pytest.raises(OstlerError):
        dialog.change(model="tiny", mode="plan")
    assert (dialog.offered().model, dialog.offered().mode) == ("big", "default")


def test_one_that_is_launched_with_its_model_may_take_others_in_a_new_process() -> None:
    with pytest.raises(OstlerError) as refused:
        acp(model_by_flag=True).change(model="tiny")
    assert (refused.value.kind, refused.value.message) == ("unsupported", "mine has no model 'tiny'")
