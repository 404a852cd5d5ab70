"""copilot in a dialog: what it says of itself among the model's words, and what it was refused."""

from typing import Any

import pytest

from agents.acp_replayed import turn_of
from ostler.agents.acp.reader import AcpReader
from ostler.agents.copilot.dialog import ACP, aside
from ostler.model import AnyEvent, Limited, Notice


@pytest.mark.parametrize(
    ("said", "event"),
    [
        (
            "Info: Request failed with status 503, retrying",
            Limited(error="overloaded", message="Request failed with status 503, retrying"),
        ),
        ("Info: Compacting", Notice(code="agent", text="Info: Compacting")),
        ("Warning: old", Notice(code="agent", text="Warning: old")),
        ("Information is here", None),
        ("info: x", None),
        (" Info: x", None),
        ("Error: no key", None),
        ("", None),
    ],
)
def test_what_it_says_of_itself(said: str, event: AnyEvent | None) -> None:
    assert aside(said) == event


@pytest.mark.parametrize(
    ("call", "denied"),
    [
        ({"rawOutput": {"code": "denied"}}, True),
        ({"rawOutput": {"code": "failure", "message": "denied"}}, False),
        ({"rawOutput": "denied"}, False),
        ({}, False),
    ],
)
def test_what_was_refused(call: dict[str, Any], denied: bool) -> None:
    assert ACP.denied(call, "denied") is denied


def test_it_begins_in_a_mode_that_asks() -> None:
    assert ACP.modes == dict.fromkeys(("read", "write", "full"), "agent")
    assert (ACP.options, ACP.safe_modes) == ({"allow_all": "off"}, ("plan",))


# As copilot 1.0.102 ends a turn whose model's server failed, word for word; a model's words come in pieces.
FAILED = (
    "Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 15.25 seconds)"
    " Last error: 500 scripted 500 from the scripted model"
)
TOOL = {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "title": "ls", "status": "completed"}
TOKENS = {"stopReason": "end_turn", "usage": {"inputTokens": 1234, "outputTokens": 56, "totalTokens": 1290}}


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([FAILED], "overloaded"),
        ([FAILED[:10], FAILED[10:]], None),
        (["Error: the tests failed"], None),
        (["It says: " + FAILED], None),
    ],
)
def test_an_error_after_a_tool_is_no_answer(pieces: list[str], kind: str | None) -> None:
    reader = AcpReader(turn_of(), ACP)
    reader.read(TOOL)
    for piece in pieces:
        reader.read({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}})
    reader.stopped(TOKENS)
    verdict = reader.end(None, "")
    assert (verdict.error.kind if verdict.error else None) == kind
