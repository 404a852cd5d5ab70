"""What a viewer gets next, at which time: turned by hand."""

from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.process import Size
from ostler.terminal.byte_stream import CHUNK, FOREVER, PACE, ByteStream
from ostler.terminal.display import Display
from ostler.terminal.screen.protocol import ScreenFacts
from ostler.terminal.screen.screens import Screens
from ostler.terminal.screen.screens import nothing as ignore
from ostler.terminal.viewer_protocol import HIGH, LOW, FactsMessage, Gone, ResizedMessage, read_terminal_message


def walk_over(ring: int = 1 << 20) -> tuple[Display, ByteStream]:
    """A viewer that has seen all there is so far: nothing."""
    display = Display(Screens(), Size(80, 24), ring, spread=ignore, on_facts=ignore, reply=ignore)
    return display, ByteStream(display, 0, lambda: None)


def taken(walk: ByteStream, now: float) -> list[Any]:
    """All that it gets at this time."""
    found = []
    while not isinstance(step := walk.next(now), float):
        found.append(read_terminal_message(step))
    return found


async def test_at_once_after_a_pause_and_together_under_load() -> None:
    display, walk = walk_over()
    assert walk.next(10.0) == FOREVER
    display.append(b"first")
    assert taken(walk, 10.0) == [(0, b"first")]
    display.append(b"second")
    assert walk.next(10.001) == 10.0 + PACE
    display.append(b"third")
    assert taken(walk, 10.0 + PACE) == [(5, b"secondthird")]
    display.append(b"later")
    assert taken(walk, 11.0) == [(16, b"later")]


async def test_who_typed_gets_the_echo_at_once() -> None:
    display, walk = walk_over()
    display.append(b"first")
    taken(walk, 10.0)
    display.append(b"echo")
    assert walk.next(10.001) == 10.0 + PACE
    walk.hurry()
    assert taken(walk, 10.001) == [(5, b"echo")]


async def test_it_is_hungry_only_while_output_would_help() -> None:
    display, walk = walk_over()
    walk.next(10.0)
    assert walk.hungry
    display.append(b"x" * HIGH * 2)
    taken(walk, 10.0)
    assert not walk.hungry  # it has to acknowledge


async def test_the_watermarks() -> None:
    display, walk = walk_over()
    display.append(b"x" * (HIGH + 10))
    pieces = taken(walk, 10.0)
    assert [len(data) for _, data in pieces] == [CHUNK, CHUNK, CHUNK, HIGH - 3 * CHUNK]
    walk.ack(HIGH - LOW - 1)
    assert walk.next(11.0) == FOREVER
    walk.ack(HIGH - LOW)
    assert taken(walk, 12.0) == [(HIGH, b"x" * 10)]
    for wrong in (HIGH + 11, -1):
        with pytest.raises(OstlerError):
            walk.ack(wrong)


async def test_sizes_stand_between_the_bytes() -> None:
    display, walk = walk_over()
    display.append("ż".encode()[:1])
    display.resize(Size(100, 30))
    display.append("ż".encode()[1:] + b"b")
    display.resize(Size(50, 20))
    display.resize(Size(60, 20))
    found = taken(walk, 10.0) + taken(walk, 10.1) + taken(walk, 10.2) + taken(walk, 10.3)
    assert found == [
        (0, b"\xc5"),  # its other half comes after the resize
        ResizedMessage(cols=100, rows=30, offset=1),
        (1, b"\xbcb"),
        ResizedMessage(cols=50, rows=20, offset=3),
        ResizedMessage(cols=60, rows=20, offset=3),
    ]


async def test_facts_are_joined_while_they_wait() -> None:
    display, walk = walk_over()
    display.append(b"x" * HIGH)
    taken(walk, 10.0)
    for number in range(1000):
        walk.add_facts(ScreenFacts(bells=1, title=f"title {number}", progress="none"))
    assert walk.next(11.0) == FOREVER
    walk.ack(HIGH)
    assert taken(walk, 12.0) == [FactsMessage(bells=1000, title="title 999", progress="none")]


async def test_the_end_waits_for_the_last_byte() -> None:
    display, walk = walk_over()
    display.append(b"x" * (HIGH + 5) + "🐢".encode()[:3])
    display.gone = gone = Gone(exit=None, offset=HIGH + 8)
    assert sum(len(data) for _, data in taken(walk, 10.0)) == HIGH
    assert not walk.over
    walk.ack(HIGH)
    assert (
        [read_terminal_message(walk.next(10.0)), read_terminal_message(walk.next(10.0))]
        == [  # type: ignore[arg-type]
            (HIGH, b"x" * 5 + "🐢".encode()[:3]),
            gone,
        ]
    )
    assert walk.over
