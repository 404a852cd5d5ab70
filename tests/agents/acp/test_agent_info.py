"""What an ACP agent says of itself, and why one opens no dialog."""

from typing import Any

import pytest

from agents.acp_replayed import turn_of
from ostler.agents.acp.agent_info import CHECK, AgentInfo
from ostler.agents.acp.protocol import Acp
from ostler.model import Exit, Problem

KEY = {"type": "env_var", "vars": [{"name": "A"}, {"name": "B"}]}


def info_of(acp: Acp | None = None, **changes: Any) -> AgentInfo:
    return AgentInfo(turn_of(**changes), acp or Acp())


def test_what_it_may_ask_of_us_is_within_the_access() -> None:
    asked = {access: info_of(access=access).initialize()["clientCapabilities"] for access in ("read", "write", "full")}
    walled = {a: info_of(access=a, walled=True).initialize()["clientCapabilities"] for a in ("read", "write")}
    assert {access: can["terminal"] for access, can in walled.items()} == {"read": False, "write": True}
    assert {access: (can["fs"]["writeTextFile"], can["terminal"]) for access, can in asked.items()} == {
        "read": (False, False),
        "write": (True, False),
        "full": (True, True),
    }
    none = info_of(Acp(reads=False, writes=False, terminals=False)).initialize()["clientCapabilities"]
    assert none["fs"] == {"readTextFile": False, "writeTextFile": False} and none["terminal"] is False


def test_its_abilities_and_logins_are_kept() -> None:
    info = info_of()
    able = {"sessionCapabilities": {"close": {}}, "loadSession": True}
    methods = [{"name": "Browser"}, {"description": "Run x login"}, KEY]
    assert info.initialized({"protocolVersion": 1, "agentCapabilities": able, "authMethods": methods}) is None
    assert info.abilities == able and info.logins == "Browser; Run x login; Set A and B"
    assert (info.able_in_session("close"), info.able_in_session("list")) == (True, False)


@pytest.mark.parametrize(
    ("acp", "answer", "kind", "said"),
    [
        (Acp(), {}, "unsupported", "mine speaks no version of ACP, ostler speaks version 1"),
        (Acp(), {"protocolVersion": True}, "unsupported", "mine speaks version True of ACP, ostler speaks version 1"),
        (
            Acp(names=("x",)),
            {"protocolVersion": 1, "agentInfo": {"name": "y"}},
            "denied",
            "mine calls itself 'y', not 'x': what keeps it to its access is not known",
        ),
    ],
)
def test_one_that_is_not_to_be_gone_on_with(acp: Acp, answer: Any, kind: str, said: str) -> None:
    info = info_of(acp)
    problem = info.initialized(answer)
    assert problem is not None and (problem.kind, problem.message) == (kind, said)
    assert info.abilities == {}


@pytest.mark.parametrize(
    ("method", "error", "problem"),
    [
        (
            "session/new",
            {"code": -32000},
            Problem(kind="unauthenticated", message="mine needs a login: refused", hint="Log in to mine"),
        ),
        (
            "session/load",
            {"message": "gone"},
            Problem(kind="not_found", message="mine has no session old: gone", hint="Start a new session"),
        ),
        (
            "session/set_mode",
            {"message": "no"},
            Problem(kind="bad_request", message="mine refused session/set_mode: no"),
        ),
        (
            "session/list",
            {"message": "no"},
            Problem(kind="unsupported", message="mine could not open a dialog (session/list): no", hint=CHECK),
        ),
    ],
)
def test_what_it_refused(method: str, error: Any, problem: Problem) -> None:
    assert info_of(agent_session="old").refusal(method, error) == problem


def test_a_program_that_prints_instead_of_talking() -> None:
    info = info_of()
    assert info.startup_error(Exit(code=2)) is None
    info.printed("  \n")
    info.printed("usage: mine\n")
    assert info.startup_error(Exit(code=2)) == Problem(
        kind="unsupported",
        message="mine is not an ACP agent: it printed 'usage: mine' and ended with exit code 2",
        hint=CHECK,
    )
    info.initialized({"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    assert info.startup_error(Exit(code=2)) is None  # it did talk
