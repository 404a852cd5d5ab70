"""How long a tool works, while a person thinks or another tool is asked about."""

from ostler.model import Answered, AnyEvent, Asked, ToolEnded, ToolStarted
from ostler.work.turns.tool_times import ToolTimes


def took(*events: tuple[float, AnyEvent]) -> list[float]:
    times = ToolTimes()
    return [seconds for now, event in events if (seconds := times.took(event, now)) is not None]


def started(id: str) -> ToolStarted:
    return ToolStarted(id=id, name="Bash")


def asked(id: str) -> Asked:
    return Asked(id=id, tool="Bash")


def answered(id: str) -> Answered:
    return Answered(id=id, option="allow_once", by="you")


def test_the_time_to_answer_is_not_the_tools() -> None:
    assert took((0, started("a")), (1, asked("q")), (31, answered("q")), (33, ToolEnded(id="a"))) == [3]
    assert took((0, asked("q")), (1, started("a")), (31, answered("q")), (33, ToolEnded(id="a"))) == [2]
    assert took((0, started("a")), (1, asked("a")), (31, ToolEnded(id="a"))) == [1]  # denied, say
    assert took((5, ToolEnded(id="never began")), (6, answered("nothing"))) == []


def test_an_ask_with_the_id_of_a_tool_holds_up_that_one_alone() -> None:
    events = [(0, started("a")), (0, started("b")), (1, asked("b")), (31, answered("b"))]
    assert took(*events, (32, ToolEnded(id="a")), (33, ToolEnded(id="b"))) == [32, 3]


def test_asks_at_the_same_time_count_once() -> None:
    events = [(0, started("a")), (1, asked("q")), (2, asked("r")), (11, answered("q")), (12, answered("r"))]
    assert took(*events, (15, ToolEnded(id="a"))) == [1 + 3]


def test_the_clock_of_a_tool_stands_still_while_it_is_asked() -> None:
    times = ToolTimes()
    assert times.seconds("a", 5) == 0
    times.took(started("a"), 0)
    assert times.seconds("a", 5) == 5
    times.took(asked("q"), 6)
    assert times.seconds("a", 60) == 6
    times.took(answered("q"), 61)
    assert times.seconds("a", 62) == 7
