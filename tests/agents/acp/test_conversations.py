"""The list of conversations that an ACP agent keeps: page by page, enough of it, and no session opened."""

from typing import Any

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.agents.acp.conversations import PAGES, AcpList
from ostler.agents.adapter import Conversation
from ostler.agents.dialog import Fail, Ready, Write
from ostler.model import Problem

LISTS = {"sessionCapabilities": {"list": {}}}


def listing(limit: int = 10, folder: str | None = None, abilities: Any = None) -> tuple[AcpList, Any]:
    """A listing whose `initialize` was answered, and the step that came of it."""
    found = AcpList(turn_of(), HOST, limit, folder)
    (write,) = found.open()
    about = {"protocolVersion": 1, "agentCapabilities": LISTS if abilities is None else abilities}
    (step,) = found.read({"id": write.record["id"], "result": about})
    return found, step


def page(found: AcpList, sent: Any, sessions: Any, cursor: Any = None) -> Any:
    (step,) = found.read({"id": sent.record["id"], "result": {"sessions": sessions, "nextCursor": cursor}})
    return step


def test_pages_until_there_are_no_more() -> None:
    found, sent = listing()
    assert (sent.record["method"], sent.record["params"]) == ("session/list", {})
    sent = page(found, sent, [{"sessionId": "a", "cwd": "/w", "title": " two\n  words "}], "next")
    assert sent.record["params"] == {"cursor": "next"}
    assert page(found, sent, [{"sessionId": "b"}]) == Ready()
    assert found.found == [Conversation(id="a", folder="/w", title="two words"), Conversation(id="b")]


def test_those_of_a_folder_on_every_page() -> None:
    found, sent = listing(folder="/w")
    assert sent.record["params"] == {"cwd": "/w"}
    assert page(found, sent, [], "next").record["params"] == {"cwd": "/w", "cursor": "next"}


def test_enough_is_enough() -> None:
    found, sent = listing(limit=3)
    sessions = [{"sessionId": f"s{n}"} for n in range(5)]
    assert page(found, sent, sessions, "more") == Ready()
    assert [each.id for each in found.found] == ["s0", "s1", "s2"]


def test_a_list_without_an_end_is_left_alone() -> None:
    found, sent = listing()
    for _ in range(PAGES - 1):
        sent = page(found, sent, [], "again")
        assert isinstance(sent, Write)
    assert page(found, sent, [], "again") == Ready() and found.found == []


@pytest.mark.parametrize("sessions", [None, {}, "x", [None, 5, {}, {"sessionId": 7}, {"sessionId": ""}]])
def test_nonsense_is_no_conversation(sessions: Any) -> None:
    found, sent = listing()
    assert page(found, sent, sessions, 7) == Ready()
    assert found.found == []


def test_titles_are_short() -> None:
    found, sent = listing()
    page(found, sent, [{"sessionId": "a", "title": "x" * 500, "cwd": 5}])
    assert found.found == [Conversation(id="a", title="x" * 200)]


@pytest.mark.parametrize("abilities", [{}, {"sessionCapabilities": None}, {"sessionCapabilities": {"resume": {}}}])
def test_an_agent_that_cannot_list(abilities: Any) -> None:
    _, step = listing(abilities=abilities)
    assert step == Fail(
        Problem(
            kind="unsupported",
            message="mine cannot list its conversations",
            hint="Continue one with --agent-session ID",
        )
    )


def test_requests_of_the_agent_are_not_served_and_its_errors_end_it() -> None:
    found, sent = listing()
    (answer,) = found.read({"id": 9, "method": "fs/read_text_file", "params": {}})
    assert answer.record["error"] == {"code": -32601, "message": "fs/read_text_file is not served here"}
    assert found.read({"method": "session/update", "params": {}}) == []
    assert found.read({"id": 99, "result": {}}) == []
    (step,) = found.read({"id": sent.record["id"], "error": {"code": -32000, "message": "log in"}})
    assert (step.problem.kind, step.problem.message) == ("unauthenticated", "mine needs a login: log in")
