"""What a busy session is about, in one line."""

from typing import Any

import pytest
from msgspec import structs

from ostler.model import (
    EVENT_ENCODER,
    Answered,
    Asked,
    Ended,
    Limited,
    Notice,
    Raw,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
)
from ostler.server.activity import LONGEST, LastWords, newest_line


def doing(*events: Any) -> str:
    """Of a journal in its order."""
    words = LastWords()
    for event in reversed(events):
        if words.enough(EVENT_ENCODER.encode(structs.replace(event, seq=1))):
            break
    return newest_line(words.text)


def test_the_last_tool_or_the_last_words() -> None:
    tool = ToolStarted(id="1", name="Bash", title="make test")
    assert doing() == "" and doing(Raw(line="x"), Notice(text="n")) == ""
    assert doing(Text(text="So.\nNow the tests:\n"), tool, ToolEnded(id="1", output="ok")) == "make test"
    assert doing(tool, ToolEnded(id="1"), Text(text="All\n  is   well \n\n")) == "is well"
    assert doing(ToolStarted(id="1", name="Read")) == "Read"
    assert doing(TextDelta(text="I look "), TextDelta(text="for "), TextDelta(text="hay")) == "I look for hay"
    assert doing(TextDelta(text="old", id="a"), TextDelta(text="new", id="b")) == "new"
    assert doing(Text(text="whole"), ThoughtDelta(text="hm")) == "hm"
    assert doing(TextDelta(text="one\ntwo "), TextDelta(text="three")) == "two three"
    assert doing(tool, Limited(message="try again soon")) == "try again soon"
    assert doing(Asked(id="1", tool="Bash")) == "asks whether it may use Bash"
    answered = Answered(id="1", option="allow_once", by="you")
    assert doing(tool, Asked(id="1", tool="Bash"), answered) == "make test"
    assert (
        doing(tool, Asked(id="1", tool="Bash"), answered, Asked(id="2", tool="Edit")) == "asks whether it may use Edit"
    )
    assert doing(tool, Asked(id="2", tool="Edit"), answered) == "asks whether it may use Edit"
    assert doing(tool, Ended(outcome="done"), Notice(text="n")) == "", "what an older turn said is over"
    assert doing(Text(text="a\x1b[31mb\u202ec")) == "a [31mb c"
    long = doing(*(TextDelta(text=f"{n} ") for n in range(1000)))
    assert len(long) == LONGEST and long.startswith("…") and long.endswith("998 999")


def test_only_what_tells_something_is_decoded() -> None:
    words = LastWords()
    for body in (b"", b"{", b'{"kind":"raw"', b'{"kind":"usage","usage":{}}', b'{ "kind":"text","text":"x"}', b"\xff"):
        assert words.enough(body) is False
    assert words.text == ""


def test_a_long_line_of_deltas_is_enough() -> None:
    words = LastWords()
    pieces = [EVENT_ENCODER.encode(TextDelta(text="x" * 50, seq=1)) for _ in range(9)]
    assert [words.enough(piece) for piece in pieces] == [False] * 4 + [True] * 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *(("", ""), ("\n \n", ""), ("a\nb\n\n", "b"), ("  a \t b  ", "a b"), ("\x00\x1b", "")),
        *(("x" * 200, "x" * 200), ("x" * 300, "…" + "x" * 199), ("a\u2028b", "b"), ("a\rb", "b")),
    ],
)
def test_one_line(text: str, line: str) -> None:
    assert newest_line(text) == line


def test_a_thought_and_an_end() -> None:
    assert doing(Thought(text="why?")) == "why?"
    assert doing(Text(text="old"), Ended(outcome="done")) == ""
