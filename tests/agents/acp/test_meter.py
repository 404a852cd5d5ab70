"""What a turn used, out of sums over sessions and processes: its own part, or nothing."""

import math
from typing import Any

import pytest

from ostler.agents.acp.meter import Meter
from ostler.agents.acp.protocol import Acp
from ostler.model import Usage


def cost(amount: Any, currency: Any = "USD") -> dict[str, Any]:
    return {"sessionUpdate": "usage_update", "used": 5, "cost": {"amount": amount, "currency": currency}}


def used(**counts: Any) -> dict[str, Any]:
    return {"stopReason": "end_turn", "usage": counts}


def meter(counts: Any = "turn", new: bool = True) -> Meter:
    return Meter(Acp(counts=counts), new=new)


# -- money ------------------------------------------------------------------------------------------


def spent(*updates: dict[str, Any], new: bool = True) -> float | None:
    found = meter(new=new)
    for update in updates:
        found.take(update)
    return found.turn({})[1]


def test_the_cost_is_that_of_the_session() -> None:
    found = meter()
    found.take(cost(0.1))
    found.take(cost(0.3))
    assert found.turn({})[1] == 0.3
    assert found.turn({})[1] is None
    found.take(cost(0.35))
    assert found.turn({})[1] == 0.05


def test_of_a_resumed_session_the_first_sum_is_only_a_mark() -> None:
    assert spent(cost(5.0), new=False) is None
    assert spent(cost(5.0), cost(5.25), new=False) == 0.25


def test_a_sum_that_went_back_begins_anew() -> None:
    assert spent(cost(5.0), cost(1.0)) == 5.0
    assert spent(cost(5.0), cost(1.0), cost(1.5)) == 5.5


def test_no_price_is_not_free() -> None:
    assert spent() is None and spent(cost(0)) is None and spent(cost(0.0), cost(0)) is None


@pytest.mark.parametrize(
    "update", [{}, cost(None), cost("0.5"), cost(True), cost(0.5, "EUR"), cost(0.5, None), {"cost": 0.5}, {"cost": []}]
)
def test_what_is_no_cost_in_dollars(update: dict[str, Any]) -> None:
    assert spent(update) is None
    assert spent(cost(0.5), update) == 0.5


@pytest.mark.parametrize("amount", [math.nan, math.inf, -1.0])
def test_what_no_program_can_have_spent(amount: float) -> None:
    assert spent(cost(amount)) is None
    assert spent(cost(0.5), cost(amount), cost(0.75)) == 0.75


# -- tokens -----------------------------------------------------------------------------------------


def test_tokens_of_a_turn() -> None:
    told = used(inputTokens=100, outputTokens=20, cachedReadTokens=90, thoughtTokens=3)
    whole = Usage(input_tokens=100, output_tokens=20, cached_tokens=90, reasoning_tokens=3)
    found = meter()
    assert (found.turn(told)[0], found.turn(told)[0]) == (whole, whole)


def test_cached_tokens_that_are_counted_apart() -> None:
    apart = used(inputTokens=10, outputTokens=5, cachedReadTokens=80, cachedWriteTokens=20, totalTokens=115)
    assert meter().turn(apart)[0] == Usage(input_tokens=110, output_tokens=5, cached_tokens=80)
    within = used(inputTokens=110, outputTokens=5, cachedReadTokens=80, totalTokens=115)
    assert meter().turn(within)[0] == Usage(input_tokens=110, output_tokens=5, cached_tokens=80)


def test_tokens_as_gemini_tells_them() -> None:
    quota = {"_meta": {"quota": {"token_count": {"input_tokens": 7, "output_tokens": 2}}}}
    assert meter().turn(quota)[0] == Usage(input_tokens=7, output_tokens=2)


def test_sums_over_a_process() -> None:
    found = meter("process")
    assert found.turn(used(inputTokens=100, outputTokens=20))[0] == Usage(input_tokens=100, output_tokens=20)
    assert found.turn(used(inputTokens=150, outputTokens=21))[0] == Usage(input_tokens=50, output_tokens=1)
    assert found.turn(used(inputTokens=150, outputTokens=21))[0] is None  # a turn that used nothing
    assert found.turn({})[0] is None
    assert found.turn(used(inputTokens=160, outputTokens=22))[0] == Usage(input_tokens=10, output_tokens=1)
    assert found.turn(used(inputTokens=5, outputTokens=5))[0] is None  # it counts anew: nobody knows from when


def test_an_agent_that_counts_something_else() -> None:
    assert meter("no").turn(used(inputTokens=100, outputTokens=20))[0] is None


@pytest.mark.parametrize(
    "result",
    [
        *({}, {"usage": None}, {"usage": [1]}, used(), used(inputTokens="5"), used(inputTokens=True)),
        *(used(inputTokens=0, outputTokens=0), used(inputTokens=-5), used(inputTokens=1e300), {"_meta": 5}),
        {"_meta": {"quota": {"token_count": "x"}}},
    ],
)
def test_no_figures(result: dict[str, Any]) -> None:
    assert meter().turn(result) == (None, None)
    assert meter("process").turn(result) == (None, None)
