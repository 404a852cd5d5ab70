"""A turn that is taken up again: whatever of it was in the journal, all of it stands there once in the end."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.model import AnyEvent, Asked, Notice, Started, Text, TextDelta, ToolEnded, ToolStarted
from ostler.work.panes.replay import Replay

READ: list[AnyEvent] = [
    Started(agent="script"),
    TextDelta(text="One ", id="m1"),
    TextDelta(text="more.", id="m1"),
    Text(text="One more.", id="m1"),
    ToolStarted(id="t1", name="shell"),
    Notice(code="odd", text="as its reader says"),
    ToolEnded(id="t1", ok=True),
    Text(text="Two.", id="m2"),
]
OTHERS: list[AnyEvent] = [Notice(code="receipt", text="submitted"), Asked(id="tui-1", tool="shell")]


@given(st.integers(0, len(READ)), st.booleans())
def test_what_is_there_is_left_out_and_what_is_not_comes(kept: int, with_others: bool) -> None:
    journal = [*(OTHERS if with_others else []), *READ[:kept]]
    assert Replay(journal).new(READ) == READ[kept:]


def test_pieces_of_text_may_have_been_cut_otherwise() -> None:
    replay = Replay([Started(agent="script"), TextDelta(text="One m", id="m1")])
    assert replay.new(READ[:4]) == [TextDelta(text="ore.", id="m1"), READ[3]]


def test_what_comes_twice_is_left_out_once() -> None:
    notice = Notice(code="odd", text="again")
    assert Replay([notice]).new([notice, notice]) == [notice]
