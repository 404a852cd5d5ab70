"""What is said of quotas, and when a turn is tried again."""

import pytest

from ostler.model import Limited, Problem, Text, Turn
from ostler.settings import Profile, Settings
from ostler.work.pool.quota import UsedUp, account_of, backoff, is_retried, used_up, used_up_at_end


def turn(agent: str = "claude", profile: str | None = None) -> Turn:
    return Turn(id="t", session="k3", agent=agent, prompt="p", folder="/w", profile=profile)


def test_an_account_is_the_agents_or_the_one_that_the_profile_names() -> None:
    settings = Settings(profiles={"p": Profile(agent="claude", account="work"), "q": Profile(agent="claude")})
    assert account_of(turn(), settings) == "claude"
    assert account_of(turn(profile="p"), settings) == "work"
    assert account_of(turn(profile="q"), settings) == "claude"
    assert account_of(turn("codex", profile="p"), settings) == "codex"  # another one took the turn over


def test_a_profile_may_name_its_agent_by_a_model() -> None:
    by_model = {"o": Profile(agent="opus", account="work"), "m": Profile(model="opus", account="work")}
    settings = Settings(profiles={**by_model, "gone": Profile(agent="nobody", account="work")})
    for name in by_model:
        assert account_of(turn(profile=name), settings) == "work"
        assert account_of(turn("codex", profile=name), settings) == "codex"
    assert account_of(turn(profile="gone"), settings) == "claude"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Limited(message="m", retry_at=500.0), UsedUp("a", 500.0, "m")),
        (Limited(message="m", retry_in=300.0), UsedUp("a", 400.0, "m")),
        (Limited(message="m", retry_in=5.0), None),  # the agent's own retry
        (Limited(message="m"), None),
        (Limited(message="m", error="overloaded", retry_at=500.0), None),
        (Text(text="m"), None),
    ],
)
def test_only_what_lasts_parks(event: Limited, expected: UsedUp | None) -> None:
    assert used_up("a", [event], now=100.0) == expected


def test_the_end_of_a_turn_parks_too() -> None:
    limited = Problem(kind="limited", message="m", retry_at=500.0)
    assert used_up_at_end("a", limited, 100.0) == UsedUp("a", 500.0, "m")
    assert used_up_at_end("a", limited, 499.0) is None
    assert used_up_at_end("a", Problem(kind="limited", message="m"), 100.0) is None
    assert used_up_at_end("a", Problem(kind="crashed", message="m", retry_at=500.0), 100.0) is None
    assert used_up_at_end("a", None, 100.0) is None


def test_only_trouble_before_any_work_is_tried_again() -> None:
    busy = Problem(kind="overloaded", message="529")
    assert is_retried(busy, worked=False)
    assert not is_retried(busy, worked=True)
    assert not is_retried(Problem(kind="limited", message="m", retry_at=9.0), worked=False)
    assert not is_retried(Problem(kind="crashed", message="m"), worked=False)
    assert not is_retried(None, worked=False)


def test_pauses_double_and_differ() -> None:
    assert [backoff(n, 0.5) for n in (1, 2, 3, 9)] == [2.0, 4.0, 8.0, 120.0]
    assert backoff(1, 0.0) == 1.0 and backoff(1, 1.0) == 3.0
