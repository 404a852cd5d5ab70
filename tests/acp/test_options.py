"""What a client may choose for a session, whole; and what it may not."""

from typing import Any

import pytest
from msgspec import structs

from ostler.acp.options import (
    Choices,
    access_of,
    accesses,
    config_options,
    is_model,
    model_of,
    modes,
    options_of,
)
from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import Offer, TurnOptions

CLAUDE = AGENTS["claude"]
MUTE = structs.replace(CLAUDE, dialog=None)
CHOICES = Choices(
    agent=CLAUDE,
    chosen="claude",
    agents={"claude": "Claude Code", "reviewer": "Reviewer"},
    access="write",
    accesses=("read", "write"),
    model=None,
    models=(Offer(id="opus", name="Opus", description="Large"), Offer(id="haiku")),
)


def test_accesses_that_the_agent_can_keep_to() -> None:
    shy = structs.replace(CLAUDE, unpromised={"read": "it writes", "write": "it roams"})
    assert accesses(CLAUDE, "read", loose=False) == ["read", "write", "full"]
    assert accesses(shy, "full", loose=False) == ["full"]
    assert accesses(shy, "read", loose=False) == ["read", "full"]  # the one that holds is always among them
    assert accesses(shy, "full", loose=True) == ["read", "write", "full"]


@pytest.mark.parametrize(("agent", "asks"), [(CLAUDE, "; asks before it acts"), (MUTE, "; does not ask")])
def test_modes_say_whether_it_asks(agent: Any, asks: str) -> None:
    assert modes(structs.replace(CHOICES, agent=agent)) == {
        "currentModeId": "write",
        "availableModes": [
            {"id": "read", "name": "Read", "description": "May read, but change nothing"},
            {"id": "write", "name": "Write", "description": f"May change files in the folder{asks}"},
        ],
    }


def test_options_are_told_whole() -> None:
    mode, model, agent = config_options(CHOICES)
    assert mode == {
        "id": "mode",
        "name": "Access",
        "description": "What the agent may do",
        "category": "mode",
        "type": "select",
        "currentValue": "write",
        "options": [
            {"value": "read", "name": "Read", "description": "May read, but change nothing"},
            {
                "value": "write",
                "name": "Write",
                "description": "May change files in the folder; asks before it acts",
            },
        ],
    }
    assert (model["currentValue"], model["options"]) == (
        "default",
        [
            {"value": "default", "name": "Default", "description": "The default of the agent"},
            {"value": "opus", "name": "Opus", "description": "Large"},
            {"value": "haiku", "name": "haiku"},
        ],
    )
    assert (agent["currentValue"], agent["category"], agent["options"]) == (
        "claude",
        "_agent",
        [{"value": "claude", "name": "Claude Code"}, {"value": "reviewer", "name": "Reviewer"}],
    )
    assert config_options(structs.replace(CHOICES, model="opus"))[1]["currentValue"] == "opus"


def test_only_an_access_that_is_offered() -> None:
    assert [access_of(value, CHOICES) for value in ("read", "write")] == ["read", "write"]
    for value in ("full", "Read", "", None, 1, ["read"]):
        with pytest.raises(OstlerError) as refused:
            access_of(value, CHOICES)
        assert (refused.value.kind, refused.value.hint) == ("bad_request", "Choose one of: read, write")


@pytest.mark.parametrize("name", ["opus", "acme/large:free", "m" * 200, "modèle"])
def test_any_name_may_be_a_model(name: str) -> None:
    assert is_model(name) and model_of(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "a\x00b", "\x1b[2J", "m" * 201, "a\u2028b"])
def test_what_is_no_name_of_a_model(name: str) -> None:
    assert not is_model(name)
    with pytest.raises(OstlerError):
        model_of(name)


def test_the_default_is_no_model_of_its_own() -> None:
    assert model_of("default") is None and not is_model("default")
    for value in (None, 5, ["opus"]):
        with pytest.raises(OstlerError):
            model_of(value)


def told(**fields: Any) -> dict[str, Any]:
    return {"_meta": {"ostler": fields}}


def test_options_of_a_prompt_stand_over_those_of_its_session() -> None:
    assert options_of({}) == options_of({"_meta": {"other": 1}}) == TurnOptions()
    session = options_of(told(system="be kind", system_mode="replace", tools_denied=["web"], env={"A": "1"}))
    assert session == TurnOptions(system="be kind", system_mode="replace", tools_denied=("web",), env={"A": "1"})
    assert options_of({}, session) == session
    over = options_of(told(tools_denied=[], fallback=["codex"]), session)
    assert over == structs.replace(session, tools_denied=(), fallback=("codex",))
    # A mode goes with its prompt.
    assert options_of(told(system="be brief"), session).system_mode is None


@pytest.mark.parametrize("wrong", [{"sytem": "x"}, {"system": 5}, {"env": {"A": 1}}, {"tools_denied": "web"}])
def test_options_that_are_not_understood(wrong: dict[str, Any]) -> None:
    with pytest.raises(OstlerError, match=r"_meta\.ostler is not valid") as caught:
        options_of(told(**wrong))
    assert caught.value.kind == "bad_request"


def test_options_that_are_no_table() -> None:
    with pytest.raises(OstlerError, match=r"_meta\.ostler is not valid"):
        options_of({"_meta": {"ostler": 5}})
