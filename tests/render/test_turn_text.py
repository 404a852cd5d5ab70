"""Events as bytes for a terminal: nothing twice, nothing lost, nothing that acts on the terminal."""

import re
from typing import Any

from msgspec.structs import replace

from ostler.model import (
    Ended,
    Envelope,
    Notice,
    Started,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
)
from ostler.render.turn_text import StreamedMarkdown, TurnText, styled
from ostler.terminal.text import plain_text


def told(*events: Any) -> bytes:
    text = TurnText(access="read")
    return b"".join(text.feed(event) for event in events)


def test_deltas_are_sent_as_they_come_and_nothing_twice() -> None:
    text = TurnText()
    assert text.feed(Started(agent="script")).endswith(b"\r\n")
    assert text.feed(TextDelta(text="Hel")) == b"\r\nHel"
    assert text.feed(TextDelta(text="lo ")) == b"lo "
    assert text.feed(TextDelta(text="you\nand")) == b"you\r\nand"
    assert text.feed(ThoughtDelta(text="hm")) == b""
    assert text.feed(Text(text="Hello you\nand all")) == b" all\r\n"
    assert text.feed(TextDelta(text="", id="2")) == b""
    assert text.feed(TextDelta(text="\n next", id="2")) == b"\r\n next"


def test_a_line_that_never_ends_is_broken_and_nothing_of_it_lost() -> None:
    """Else each piece would cost the whole line so far: a hundred thousand of them took minutes."""
    pieces = [f"{number}\x07," for number in range(5_000)]
    text = TurnText()
    sent = b"".join(text.feed(TextDelta(text=piece)) for piece in pieces).decode()
    assert sent.replace("\r\n", "") == "".join(pieces).replace("\x07", "\\x07")
    assert 2 < sent.count("\r\n") < 20
    assert text.feed(Text(text="".join(pieces) + "end")) == b"end\r\n"


def test_a_notice_in_the_middle_of_a_line_ends_it() -> None:
    events = (TextDelta(text="half a"), Notice(text="careful"), TextDelta(text=" line"), Ended(outcome="done"))
    assert plain_text(told(*events)) == "half a\n\nnote: careful\n\n line\n"


def test_marks_colour_what_follows_even_over_several_deltas() -> None:
    assert told(TextDelta(text="a `co"), TextDelta(text="de` b **bo"), TextDelta(text="ld** c\n")) == (
        b"a \x1b[36m`code`\x1b[0m b \x1b[1m**bold**\x1b[0m c\r\n"
    )
    assert told(TextDelta(text="# Tit"), TextDelta(text="le\nplain")) == b"\x1b[1m# Title\x1b[0m\r\nplain"
    assert told(TextDelta(text="open `for ever"), TextDelta(text="\nnext")) == b"open \x1b[36m`for ever\x1b[0m\r\nnext"
    assert told(TextDelta(text="2 * 3 *"), TextDelta(text=" 4\n")) == b"2 * 3 * 4\r\n"


def test_blocks_of_code_keep_their_colour_however_they_come() -> None:
    text = "```py\nx = `1`\n```\nafter `it`\n"
    code, fence, mark, off = b"\x1b[36m", b"\x1b[2m```", b"\x1b[36m`it`", b"\x1b[0m"
    whole = told(TextDelta(text=text))
    lines = [fence + b"py" + off, code + b"x = `1`" + off, fence + off, b"after " + mark + off, b""]
    assert whole.split(b"\r\n") == lines
    for cut in range(1, len(text)):
        if cut in (1, 2, 15, 16):
            continue  # within the fence itself it is not known yet
        assert told(TextDelta(text=text[:cut]), TextDelta(text=text[cut:])) == whole, cut


def test_what_agents_say_cannot_act_on_the_terminal() -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m"
    shown = told(
        TextDelta(text=evil),
        TextDelta(text=evil + "\n"),
        Thought(text=evil),
        ToolStarted(id="1", name=evil, title=evil),
        ToolEnded(id="1", ok=False, output=evil),
        Notice(text=evil),
    )
    assert set(re.findall(rb"\x1b(?!\[[0-9;]*m)", shown)) == set() and b"\x07" not in shown and b"\xc2\x9b" not in shown
    assert b"\\x1b]0;title" in shown


def test_the_end_says_how_it_went() -> None:
    envelope = Envelope(
        status="ok",
        outcome="done",
        summary="s",
        text="t",
        turn="k3-1",
        session="k3",
        agent="script",
        served_by="script",
        started_at=1.0,
        duration_ms=1200,
    )
    text = TurnText()
    text.feed(TextDelta(text="unfinished"))
    assert plain_text(text.end(envelope)) == '\n\n✓ done · 1.2 s\ncontinue: ostler run --session k3 "…"\n'
    failed = replace(envelope, outcome="timed_out", status="error")
    assert b"\x1b[31m" in TurnText().end(failed)


def test_spans_leave_nothing_switched_on() -> None:
    line = [("a ", ""), ("b", "bold"), (" c", "dim italic"), ("d", "red")]
    assert styled(line) == "a \x1b[1mb\x1b[0m\x1b[2;3m c\x1b[0m\x1b[31md\x1b[0m"
    assert styled([]) == ""


def test_prose_forgets_marks_at_the_end_of_a_line_but_not_fences() -> None:
    prose = StreamedMarkdown()
    assert prose.feed("**bold") == "\x1b[1m**bold"
    assert prose.end() == "\x1b[0m"
    assert prose.end() == ""
    prose.pass_by("```py")
    assert prose.feed("x **y**") == "\x1b[36mx **y**"
    assert prose.end() == "\x1b[0m"
    prose.pass_by("  ```")
    assert prose.feed("x") + prose.end() == "x"


def test_lone_surrogates_do_not_end_the_turn() -> None:
    assert told(TextDelta(text="a\ud800b\n")).startswith(b"a")
