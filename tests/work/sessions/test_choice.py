"""Who takes a session's turns: by profile, name or model, or by default."""

import pytest

from ostler.errors import OstlerError
from ostler.model import Session
from ostler.settings import Profile, Settings
from ostler.work.sessions.choice import Choice, choose

SETTINGS = Settings(
    default_agent="reviewer",
    profiles={"reviewer": Profile(agent="claude", model="opus"), "claude": Profile(agent="codex")},
    models={"gpt-*": "cursor"},
)


@pytest.mark.parametrize(
    ("wanted", "choice"),
    [
        (None, Choice(agent="claude", model="opus", profile="reviewer")),
        ("claude", Choice(agent="claude")),  # a profile cannot take over an agent's name
        ("gpt-5", Choice(agent="cursor", model="gpt-5")),
        ("sonnet", Choice(agent="claude", model="sonnet")),
    ],
)
def test_who_is_meant(wanted: str | None, choice: Choice) -> None:
    assert choose(SETTINGS, wanted) == choice


@pytest.mark.parametrize(
    ("settings", "wanted", "kind", "said"),
    [
        (SETTINGS, "cluade", "not_found", "claude"),
        (Settings(), None, "bad_request", "no agent was named and there is no default"),
    ],
)
def test_nobody_is_meant(settings: Settings, wanted: str | None, kind: str, said: str) -> None:
    with pytest.raises(OstlerError) as raised:
        choose(settings, wanted)
    assert raised.value.kind == kind and said in str(raised.value)


def test_whose_session_it_is() -> None:
    plain = Session(id="k3", agent="claude", folder="/w", created_at=1.0, used_at=1.0)
    profiled = Session(id="k4", agent="claude", folder="/w", created_at=1.0, used_at=1.0, profile="reviewer")
    assert [Choice(agent="claude").fits(row) for row in (plain, profiled)] == [True, True]
    assert [Choice(agent="claude", profile="reviewer").fits(row) for row in (plain, profiled)] == [False, True]
    assert not Choice(agent="codex").fits(plain)
