"""Modes, models and options of a session: as agents told them in the captures, and as they are chosen."""

import json
from typing import Any

import pytest

from agents.replayed import CAPTURES
from ostler.agents.acp.session_options import AcpSessionOptions, ending, fits
from ostler.errors import OstlerError
from ostler.model import Offer

MODES = {"currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}, {"id": "plan"}]}
MODELS = {"currentModelId": "m-1", "availableModels": [{"modelId": "m-1", "name": "One"}, {"modelId": "m-2"}]}
PICK = [
    {"group": "fast", "options": [{"value": "acme/small", "name": "Small"}]},
    {"value": "acme/large", "name": "Large"},
    {"name": "broken"},
    7,
]


def option(id: str, category: str, now: str, options: Any) -> dict[str, Any]:
    return {"id": id, "category": category, "type": "select", "currentValue": now, "options": options}


def told(*results: dict[str, Any]) -> AcpSessionOptions:
    options = AcpSessionOptions()
    for result in results:
        options.take(result)
    return options


def kind_of(call: Any, *args: Any) -> tuple[str, str, str]:
    with pytest.raises(OstlerError) as refused:
        call(*args)
    return refused.value.kind, refused.value.message, refused.value.hint


def test_an_agent_that_tells_nothing() -> None:
    for nothing in ({}, {"modes": None, "models": [], "configOptions": "x"}, {"configOptions": [{}]}):
        options = told(nothing)
        assert (options.mode, options.model, options.models(), options.modes(lambda id: True)) == ("", None, (), ())
        assert options.set_option("allow_all", "off") is None and options.value("allow_all") == ""
        assert kind_of(options.set_mode, "plan") == ("unsupported", "the agent has no mode 'plan'", "It has: none")
        assert kind_of(options.set_model, "m")[0] == "bad_request"


def test_modes_of_their_own() -> None:
    options = told({"modes": MODES})
    assert options.mode == "default"
    assert options.modes(lambda id: True) == (Offer(id="default", name="Default"), Offer(id="plan"))
    assert options.modes(lambda id: id == "plan") == (Offer(id="plan"),)
    assert options.set_mode("default") is None
    assert options.set_mode("plan") == ("session/set_mode", {"modeId": "plan"})
    assert options.mode == "plan" and options.set_mode("plan") is None
    known = ("the agent has no mode 'yolo'", "It has: default, plan")
    assert kind_of(options.set_mode, "yolo") == ("unsupported", *known)
    assert kind_of(options.set_mode, "yolo", "bad_request") == ("bad_request", *known)


def test_modes_with_an_address_for_an_id() -> None:
    agent = "https://agentclientprotocol.com/protocol/session-modes#agent"
    modes = {"currentModeId": agent, "availableModes": [{"id": agent}, {"id": agent.replace("#agent", "#plan")}]}
    options = told({"modes": modes})
    assert [each.id for each in options.modes(lambda id: True)] == ["agent", "plan"]
    assert options.set_mode("agent") is None
    assert options.set_mode("plan") == ("session/set_mode", {"modeId": agent.replace("#agent", "#plan")})


def test_a_mode_that_is_an_option() -> None:
    options = told({"configOptions": [option("mode", "mode", "ask", [{"value": "ask"}, {"value": "code"}])]})
    assert options.mode == "ask" and options.set_mode("ask") is None
    assert options.set_mode("code") == ("session/set_config_option", {"configId": "mode", "value": "code"})
    assert options.mode == "ask"  # until the agent says so
    options.take({"configOptions": [option("mode", "mode", "code", [{"value": "ask"}, {"value": "code"}])]})
    assert options.mode == "code"


def test_a_mode_that_is_told_in_both_ways_is_the_one_that_changed() -> None:
    def both(now: str) -> dict[str, Any]:
        return {"configOptions": [option("mode", "mode", now, [{"value": "default"}, {"value": "yolo"}])]}

    options = told({"modes": MODES, **both("default")})
    options.take(both("yolo"))
    assert options.mode == "yolo"
    options.take({"currentModeId": "plan"})
    assert options.mode == "plan"
    options.take(both("yolo"))  # says nothing new
    assert options.mode == "plan"


def test_models_that_are_an_option_also_in_groups() -> None:
    options = told({"configOptions": [option("model", "model", "acme/large", PICK)], "models": MODELS})
    assert options.model == "acme/large"
    assert [each.id for each in options.models()] == ["acme/small", "acme/large"]
    assert options.set_model("acme/large") is None
    for name in ("acme/small", "small"):
        assert options.set_model(name) == ("session/set_config_option", {"configId": "model", "value": "acme/small"})
    assert kind_of(options.set_model, "mall") == (
        "bad_request",
        "the agent has no model 'mall'",
        "It has: acme/small, acme/large",
    )


def test_models_by_the_older_method_are_not_all_that_it_takes() -> None:
    options = told({"models": MODELS})
    assert (options.model, [each.id for each in options.models()]) == ("m-1", ["m-1", "m-2"])
    assert options.set_model("m-1") is None
    assert options.set_model("m-9") == ("session/set_model", {"modelId": "m-9"})
    assert options.model == "m-9"


def test_what_was_refused_is_taken_back() -> None:
    options = told({"modes": MODES, "models": MODELS})
    before = options.state
    options.set_mode("plan")
    options.set_model("m-2")
    assert options.state == ("plan", "m-2")
    options.state = before
    assert (options.mode, options.model) == ("default", "m-1")


def test_other_options() -> None:
    options = told({"configOptions": [option("allow_all", "other", "on", [{"value": "on"}, {"value": "off"}])]})
    assert options.value("allow_all") == "on" and options.value("else") == ""
    assert options.set_option("allow_all", "on") is None
    assert options.set_option("allow_all", "off") == (
        "session/set_config_option",
        {"configId": "allow_all", "value": "off"},
    )
    assert kind_of(options.set_option, "allow_all", "maybe")[0] == "unsupported"


def test_what_is_told_later_adds_and_an_empty_word_takes_nothing_away() -> None:
    options = told({"modes": MODES, "models": MODELS}, {}, {"modes": {"currentModeId": None}, "configOptions": []})
    assert (options.mode, options.model, len(options.models())) == ("default", "m-1", 2)


@pytest.mark.parametrize(
    ("value", "wanted", "fit"),
    [
        *(("plan", "plan", True), ("a/plan", "plan", True), ("x#plan", "plan", True), ("a/b/plan", "b/plan", True)),
        *(("xplan", "plan", False), ("plan", "a/plan", False), ("plan/x", "plan", False), ("", "plan", False)),
        *(("Plan", "plan", False), ("a-plan", "plan", False)),
    ],
)
def test_a_name_fits_whole_or_by_its_end(value: str, wanted: str, fit: bool) -> None:
    assert fits(value, wanted) is fit


def test_endings() -> None:
    assert [ending(id) for id in ("plan", "https://x#plan", "x#", "", "a#b#c")] == ["plan", "plan", "x#", "", "c"]


@pytest.mark.parametrize(
    ("capture", "mode", "modes"),
    [
        ("copilot", "agent", ["agent", "plan", "autopilot"]),
        ("codex-acp", None, None),
        ("qwen", None, None),
        ("claude-agent-acp", None, None),
        ("opencode", None, None),
    ],
)
def test_what_agents_told_when_they_were_recorded(capture: str, mode: str | None, modes: list[str] | None) -> None:
    options = AcpSessionOptions()
    for line in (CAPTURES / "acp" / f"{capture}.trace.ndjson").read_text().splitlines():
        message = json.loads(line)["msg"]
        result = message.get("result") if isinstance(message, dict) else None
        if isinstance(result, dict) and "sessionId" in result:
            options.take(result)
    listed = [each.id for each in options.modes(lambda id: True)]
    assert ending(options.mode) in listed
    assert (mode or ending(options.mode), modes or listed) == (ending(options.mode), listed)
    assert options.set_mode(ending(options.mode)) is None
    for each in listed:
        options.set_mode(each)
    for model in options.models():
        options.set_model(model.id)
