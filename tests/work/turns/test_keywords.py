"""The keywords of the Python API, and the options that come of them."""

from typing import Any, get_type_hints

import pytest

from ostler.errors import OstlerError
from ostler.model import Attachment, Limits, McpServer, TurnOptions
from ostler.work.turns.keywords import RunKeywords, SingleRunKeywords, TurnKeywords, options_from


def test_every_option_is_a_keyword() -> None:
    assert {*get_type_hints(TurnKeywords)} == {*TurnOptions.__struct_fields__}
    assert {*get_type_hints(RunKeywords)} - {*get_type_hints(TurnKeywords)} == {"wait", "record"}
    own = {"folder", "session", "name", "resume_last", "agent_session"}
    assert {*get_type_hints(SingleRunKeywords)} - {*get_type_hints(RunKeywords)} == own


def test_handy_forms_become_options() -> None:
    given = {
        "access": "write",
        "tools_allowed": ["shell"],
        "attachments": ["a.txt", Attachment(name="n", content="c")],
        "env": {"A": "1"},
        "mcp": ["db", {"name": "mine", "command": "x"}, McpServer(name="far", url="http://far/mcp", transport="http")],
        "limits": Limits(total=5.0),
        "fallback": [],
    }
    assert options_from(given) == TurnOptions(
        access="write",
        tools_allowed=("shell",),
        attachments=("a.txt", Attachment(name="n", content="c")),
        env={"A": "1"},
        mcp=("db", McpServer(name="mine", command="x"), McpServer(name="far", url="http://far/mcp", transport="http")),
        limits=Limits(total=5.0),
        fallback=(),
    )


def test_keywords_count_before_options_that_are_given_whole() -> None:
    base = TurnOptions(access="full", model="m")
    assert options_from({"access": "read"}, base) == TurnOptions(access="read", model="m")
    assert options_from({}, base) == base
    assert options_from({}) == TurnOptions()


@pytest.mark.parametrize("name", ["tools_allowed", "fallback", "attachments", "mcp"])
def test_one_text_is_no_list(name: str) -> None:
    with pytest.raises(OstlerError, match="'shell' is a single string; a list of names is expected") as refused:
        options_from({name: "shell"})
    assert refused.value.kind == "bad_request"


@pytest.mark.parametrize("given", [{"nonsense": 1}, {"folder": "/x"}])
def test_a_keyword_that_there_is_not(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        options_from(given)


def test_a_keyword_that_is_no_option_is_named_as_it_was_written() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'acess': a turn has no such option"):
        options_from({"acess": "write"})
