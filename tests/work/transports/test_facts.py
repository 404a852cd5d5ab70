"""What is true of each transport stands in one record."""

from typing import get_args

from ostler.agents import AGENTS
from ostler.model import TRANSPORT_MEANS, TransportName
from ostler.work.transports.facts import TRANSPORT_FACTS, AnyTransport
from ostler.work.transports.keepers import Keepers


def those_that(fact: str) -> set[str]:
    return {name for name, facts in TRANSPORT_FACTS.items() if getattr(facts, fact)}


def test_each_has_its_facts() -> None:
    assert [*TRANSPORT_FACTS] == [name for each in get_args(AnyTransport) for name in (get_args(each) or (each,))]
    assert [*TRANSPORT_MEANS] == [*get_args(TransportName)]


def test_what_is_true_of_which() -> None:
    assert those_that("stays") == {"dialog", "pty", "tmux"}
    assert those_that("can_be_warm") == {"dialog", "pty"}
    assert those_that("survives") == {"tmux"}
    assert those_that("is_dialog") == {"dialog"}
    assert those_that("has_own_screen") == {"pty", "tmux"}
    assert those_that("has_own_terminal") == {"visible", "pty", "tmux", "terminal"}
    assert those_that("needs_hooks") == {"visible"}
    assert those_that("asks_people") == {"dialog", "pty", "tmux"}
    assert those_that("can_be_recorded") == {"pipe"}
    assert those_that("starts_process") == TRANSPORT_FACTS.keys() - {"nothing"}


def test_each_that_stays_has_a_keeper_of_its_own() -> None:
    keepers = [facts.keeper for facts in TRANSPORT_FACTS.values() if facts.stays]
    assert len({*keepers}) == len(keepers)
    assert all(hasattr(Keepers, keeper) for keeper in keepers)
    assert those_that("can_be_warm") <= those_that("stays")


def test_a_turn_says_why_an_agent_lacks_it() -> None:
    for name in get_args(TransportName):
        facts = TRANSPORT_FACTS[name]
        assert "{agent}" in facts.lacks and facts.instead
        assert any(map(facts.has, AGENTS.values()))
    assert not any(TRANSPORT_FACTS[name].has(agent) for name in ("terminal", "nothing") for agent in AGENTS.values())


def test_only_a_visible_turn_has_a_command_of_its_own() -> None:
    claude = AGENTS["claude"]
    own = {name: facts.own_launch(claude) for name, facts in TRANSPORT_FACTS.items()}
    assert {name: launch for name, launch in own.items() if launch} == {"visible": claude.in_terminal}
