"""Whether a turn has hooks, and what they find in their environment."""

from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import Callback, Host, Turn
from ostler.work.turns.setup import Setup
from ostler.work.turns.turn_hooks import callback_of, hook_environment, notices_without_hooks
from work.scripted import Stable

CLAUDE, OPENCODE = AGENTS["claude"], AGENTS["opencode"]
CALLBACK = Callback(url="http://127.0.0.1:9/h", token="a-token", python="python3")


def a_turn(**options: Any) -> Turn:
    return Turn(id="t1", session="s1", agent="claude", prompt="x", folder="/w", **options)


class NoPort:
    """An endpoint that cannot be made."""

    async def callback(self, turn: Turn, settings: Any) -> Callback:
        raise OstlerError("too_many", "no port is free")


@pytest.mark.parametrize(
    ("agent", "options", "has"),
    [
        (CLAUDE, {}, False),
        (CLAUDE, {"hooks": True}, True),
        (CLAUDE, {"hooks": True, "transport": "dialog"}, False),  # which tells and asks by itself
        (CLAUDE, {"transport": "pty"}, True),
        (CLAUDE, {"transport": "pty", "hooks": False}, False),
        (CLAUDE, {"hooks": True, "lean": True}, False),
        (OPENCODE, {"hooks": True}, False),
    ],
)
async def test_who_has_hooks(stable: Stable, agent: Any, options: dict[str, Any], has: bool) -> None:
    async with stable.ostler() as o:
        assert (await callback_of(o.setup_in(str(stable.folder)), a_turn(**options), agent) is not None) is has


@pytest.mark.parametrize(
    ("agent", "options"),
    [
        (OPENCODE, {"hooks": "ask"}),
        (OPENCODE, {"transport": "visible", "hooks": True}),
        (CLAUDE, {"hooks": "ask", "lean": True}),
    ],
)
async def test_where_a_person_is_to_be_asked_it_has_them_or_does_not_start(
    stable: Stable, agent: Any, options: dict[str, Any]
) -> None:
    async with stable.ostler() as o:
        with pytest.raises(OstlerError, match="no hooks that can ask") as refused:
            await callback_of(o.setup_in(str(stable.folder)), a_turn(**options), agent)
    assert refused.value.kind == "unsupported" and "claude" in refused.value.hint


async def test_an_endpoint_that_cannot_be_made_matters_only_where_hooks_were_asked_for(stable: Stable) -> None:
    async with stable.ostler() as o:
        no_port: Any = NoPort
        setup: Setup = structs.replace(o.setup_in(str(stable.folder)), callbacks=no_port)
        assert await callback_of(setup, a_turn(transport="pty"), CLAUDE) is None
        with pytest.raises(OstlerError, match="no port is free"):
            await callback_of(setup, a_turn(transport="pty", hooks=True), CLAUDE)


def test_a_turn_that_wanted_hooks_is_told_that_it_has_none() -> None:
    host = Host(executable="claude")
    assert notices_without_hooks(a_turn(), host) == ()
    assert notices_without_hooks(a_turn(hooks=True), structs.replace(host, callback=CALLBACK)) == ()
    assert notices_without_hooks(a_turn(hooks=True, transport="dialog"), host) == ()
    (said,) = notices_without_hooks(a_turn(hooks=True), host)
    assert said == "claude has no hooks that ostler can use: this turn has none"
    (said,) = notices_without_hooks(a_turn(hooks=True, lean=True), host)
    assert said == "`lean` leaves hooks out: this turn has none"


def test_hooks_find_where_to_call_and_for_whom() -> None:
    known = {"OSTLER_CALLBACK_URL": CALLBACK.url, "OSTLER_CALLBACK_TOKEN": "a-token", "OSTLER_SESSION": "s1"}
    assert hook_environment(a_turn(), None) == {}
    assert hook_environment(a_turn(), CALLBACK) == {**known, "OSTLER_TURN": "t1"}
    assert hook_environment(a_turn(transport="pty"), CALLBACK) == known  # it stays for further turns
    served = structs.replace(CALLBACK, api_url="http://127.0.0.1:8")
    assert hook_environment(a_turn(transport="pty"), served) == {**known, "OSTLER_API_URL": "http://127.0.0.1:8"}
