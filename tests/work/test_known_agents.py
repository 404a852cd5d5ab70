"""Agents by name, as each set of settings knows them; plug-ins: tests/work/test_plug_ins.py."""

import pytest

from ostler.agents import AGENTS
from ostler.agents.acp.any_agent import agent_of
from ostler.errors import OstlerError
from ostler.model import PlainAgent
from ostler.settings import Settings
from ostler.work.known_agents import agents_of, find_agent, the_agent

MINE = Settings(acp={"mine": ("my-agent", "--acp")})


def test_ostlers_own_come_first_then_those_of_the_settings() -> None:
    agents = agents_of(MINE)
    assert [*agents][: len(AGENTS) + 1] == [*AGENTS, "mine"]
    assert len(agents) == len([*agents])
    assert agents["claude"] is AGENTS["claude"]
    assert agents["mine"] == agent_of("mine", ("my-agent", "--acp"))


def test_what_one_set_of_settings_names_no_other_knows() -> None:
    assert "mine" in agents_of(MINE)
    assert "mine" not in agents_of(Settings()) and "mine" not in AGENTS
    with pytest.raises(KeyError):
        agents_of(Settings())["mine"]


def test_no_name_of_the_settings_stands_in_for_one_of_ours() -> None:
    with pytest.raises(OstlerError) as refused:
        agents_of(Settings(acp={"mine": ("x",), "claude": ("evil",)}))
    assert (refused.value.kind, refused.value.hint) == ("exists", "Choose another name")
    assert refused.value.message == "acp.claude: there is already an agent named 'claude'"
    plain = PlainAgent(command=("x",))
    with pytest.raises(OstlerError) as refused:
        agents_of(Settings(agents={"codex": plain}))
    assert refused.value.message == "agents.codex: there is already an agent named 'codex'"
    with pytest.raises(OstlerError) as refused:
        agents_of(Settings(acp={"mine": ("x",)}, agents={"mine": plain}))
    assert refused.value.message == "agents.mine: there is already an agent named 'mine'"


def test_an_agent_or_a_model() -> None:
    assert find_agent(MINE, "mine")[0].name == "mine"
    agent, model = find_agent(Settings(models={"big-*": "codex"}), "big-one")
    assert (agent.name, model) == ("codex", "big-one")
    for nobody in ("nobody", ""):
        with pytest.raises(OstlerError) as refused:
            find_agent(Settings(), nobody)
        assert refused.value.kind in ("not_found", "bad_request")


def test_an_agent_that_was_there_when_its_session_began() -> None:
    assert the_agent(MINE, "mine").name == "mine"
    with pytest.raises(OstlerError) as refused:
        the_agent(Settings(), "mine")
    assert (refused.value.kind, refused.value.message) == ("not_found", "the agent 'mine' no longer exists")
    assert refused.value.hint.startswith("Agents: claude, ")
