"""Which modes of an ACP agent stay within an access."""

from typing import Any

import pytest

from agents.acp_replayed import turn_of
from ostler.agents.acp.access_modes import AccessModes
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.session_options import AcpSessionOptions
from ostler.errors import OstlerError

CAREFUL = Acp(modes={"read": "ask", "write": "ask", "full": "ask"}, safe_modes=("plan",), options={"all": "off"})

UNASKED = "in which it does not ask: access write would not hold"


def modes_of(acp: Acp, mode: str, access: str = "write", **options: Any) -> AccessModes:
    known = AcpSessionOptions("mine")
    listed = [{"id": "ask"}, {"id": "x#plan"}, {"id": "yolo", "name": "YOLO"}, {"id": "fast", "name": "Auto-approve"}]
    known.take({"modes": {"currentModeId": mode, "availableModes": listed}})
    known.take({"configOptions": [{"id": id, "currentValue": value} for id, value in options.items()]})
    return AccessModes(acp, turn_of(access=access), known)


def refusal(modes: AccessModes, mode: str) -> tuple[str, str]:
    with pytest.raises(OstlerError) as refused:
        modes.check(mode)
    return refused.value.kind, refused.value.hint


@pytest.mark.parametrize(
    ("access", "mode", "allowed"),
    [("read", "ask", True), ("write", "x#plan", True), ("write", "yolo", False), ("full", "yolo", True)],
)
def test_its_own_mode_and_safe_ones_stay_within_the_access(access: str, mode: str, allowed: bool) -> None:
    modes = modes_of(CAREFUL, "ask", access)
    assert (modes.own, modes.allows(mode)) == ("ask", allowed)
    if allowed:
        modes.check(mode)
    else:
        assert refusal(modes, mode) == ("denied", "Within it: ask, plan. Others need a wider --access")


def test_where_the_mode_keeps_the_access_nobody_sets_it() -> None:
    modes = modes_of(Acp(mode_of=lambda turn: f"own-{turn.id}", keeps_mode=True), "own-t", "full")
    assert (modes.own, modes.allows("own-t"), modes.allows("ask")) == ("own-t", True, False)
    assert refusal(modes, "own-t") == ("unsupported", "Leave the mode out, or choose another --access")


@pytest.mark.parametrize(
    ("modes", "said"),
    [
        (modes_of(CAREFUL, "x#plan", all="off"), None),
        (modes_of(CAREFUL, "yolo"), "mine left the mode that keeps access write for 'yolo'"),
        (modes_of(CAREFUL, "ask", all="on"), "mine left access write: all is 'on'"),
        (modes_of(CAREFUL, "yolo", "full", all="on"), None),
        (modes_of(Acp(), "ask"), None),
        (modes_of(Acp(), "yolo", "full"), None),
        (modes_of(Acp(), "yolo"), f"mine is in its mode 'yolo', {UNASKED}"),
        (modes_of(Acp(), "fast"), f"mine is in its mode 'fast', {UNASKED}"),
    ],
)
def test_what_is_wrong_with_where_the_agent_is(modes: AccessModes, said: str | None) -> None:
    problem = modes.violation()
    assert (problem and (problem.kind, problem.message)) == (said and ("denied", said))
