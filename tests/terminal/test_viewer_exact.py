"""Whatever a terminal prints and whatever happens to its viewers: in the end they show what the terminal shows."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.model import Exit
from ostler.terminal.live import LiveTerminal
from ostler.terminal.screen.screens import Screens
from ostler.terminal.viewer_protocol import Refresh, ResizeTerminal
from terminal.watching import ANN, Glass, Reader, Source, room, row

PIECES = [
    b"word ",
    b"a line\r\n",
    b"x" * 130,
    "żółw 🐢 漢字\r\n".encode(),
    b"\x1b[31mred\x1b[0m ",
    b"\x1b[1;48;5;20m bold \x1b[m",
    b"\x1b[H",
    b"\x1b[5;10H",
    b"\x1b[2J",
    b"\x1b[K",
    b"\r\n" * 30,
    b"other screen",
    b"other screen",
    b"\x1b]2;title\x07",
    b"\x07",
    b"\x1b[3L",
    b"\xff\xfe",
    b"line\r\n" * 5_000,
    b"y" * 70_000,
    b"\r\n".join(b"%d" % number for number in range(60_000)),
]

LINES = PIECES.index(b"line\r\n" * 5_000)
pieces = st.tuples(st.sampled_from(range(len(PIECES))), st.integers(0, 100))  # which, and where it is cut
outputs = st.lists(pieces, min_size=1, max_size=12)
steps = st.one_of(
    st.tuples(st.just("output"), outputs),
    st.tuples(st.just("output"), outputs),
    st.tuples(st.just("resize"), st.tuples(st.integers(20, 120), st.integers(5, 40))),
    st.tuples(st.just("acks"), st.tuples(st.integers(0, 1), st.booleans())),
    st.tuples(st.just("stall"), st.integers(0, 1)),
    st.tuples(st.just("again"), st.tuples(st.integers(0, 1), outputs)),
    st.tuples(st.just("again"), st.tuples(st.integers(0, 1), outputs)),
    st.tuples(st.just("leave"), st.integers(0, 1)),
    st.tuples(st.just("come"), st.tuples(st.integers(0, 1), st.booleans())),
    st.tuples(st.just("refresh"), st.integers(0, 1)),
    st.tuples(st.just("read"), st.integers(1, 3)),
    st.tuples(st.just("rest"), st.just(None)),
    st.tuples(st.just("rest"), st.just(None)),
)


class Play:
    """A terminal with two places for viewers, who come and go."""

    def __init__(self, screens: Screens) -> None:
        self.screens = screens
        self.terminal = terminal = LiveTerminal(row(), screens, controls=Source())
        self.places: list[Glass | None] = [Glass(terminal), None]
        self.gone: list[Glass | None] = [None, None]
        self.reader = Reader(terminal.subscribe(buffer=2, snapshot_every=5))
        self.alternate = False

    async def do(self, what: str, how: Any) -> None:
        match what, how:
            case "output", pieces:
                for number, percent in pieces:
                    piece = self.turned() if PIECES[number] == b"other screen" else PIECES[number]
                    cut = len(piece) * percent // 100
                    self.terminal.output(piece[:cut])
                    await room(self.terminal)
                    await asyncio.sleep(0)
                    self.terminal.output(piece[cut:])
            case "resize", (cols, rows):
                self.terminal.input(ANN, ResizeTerminal(cols=cols, rows=rows))
            case "acks", (place, acks):
                if glass := self.places[place]:
                    glass.acks = acks
                    glass.acknowledge()
            case "stall", place:
                await self.do("acks", (place, False))
                for _ in range(5):
                    await self.do("output", [(LINES, 50)])
                    await self.do("rest", None)
            case "again", (place, output):
                await self.do("rest", None)
                await self.do("leave", place)
                await self.do("output", output)
                await self.do("come", (place, True))
            case "leave", place:
                if glass := self.places[place]:
                    await glass.viewing.close()
                    self.gone[place], self.places[place] = glass, None
            case "come", (place, resume):
                if self.places[place] is None:
                    self.come(place, resume)
            case "read", count:
                for _ in range(count):
                    with suppress(TimeoutError):
                        await self.reader.read(within=0.02)
            case "kill", _:
                for pid in self.screens.pids:
                    os.kill(pid, signal.SIGKILL)
            case "refresh", place:
                if glass := self.places[place]:
                    glass.say(Refresh())
            case _:
                await asyncio.sleep(0.03)

    def turned(self) -> bytes:
        """To the alternate screen and back, in turns: leaving it twice needs a cursor that snapshots do not hold."""
        self.alternate = not self.alternate
        return b"\x1b[?1049h\x1b[2J\x1b[H" if self.alternate else b"\x1b[?1049l"

    def come(self, place: int, resume: bool) -> None:
        before = self.gone[place]
        if resume and before and before.emulator:
            self.places[place] = new = Glass(self.terminal, offset=before.offset)
            new.resume(before)
        else:
            self.places[place] = Glass(self.terminal)

    async def end(self) -> None:
        await self.terminal.end(Exit(code=0))
        if self.places[0] is None:
            self.come(0, resume=True)
        for glass in self.places:
            if glass:
                glass.acks = True
                glass.acknowledge()
        shot = await self.terminal.snapshot()
        await self.reader.to_end()
        assert self.reader.shown() == shot.styled
        for glass in self.places:
            if glass:
                async with asyncio.timeout(60):
                    await glass._task
                assert glass.kinds[-1] == "exit"
                own = glass.screen()
                assert (own.text, own.styled) == (shot.text, shot.styled)
                assert (own.cursor.x, own.cursor.y, own.modes) == (shot.cursor.x, shot.cursor.y, shot.modes)
                await glass.close()


@pytest.fixture(scope="module")
def stage() -> Iterator["Stage"]:
    """One loop and one screen process for all of it: starting them takes longer than a play."""
    with asyncio.Runner() as runner:

        async def opened() -> Screens:
            return Screens()

        screens = runner.run(opened())
        yield runner, screens
        runner.run(screens.close())


Stage = tuple[asyncio.Runner, Screens]
Script = list[tuple[str, Any]]
thorough = settings(deadline=None, suppress_health_check=list(HealthCheck))


async def play(screens: Screens, script: Script) -> None:
    game = Play(screens)
    for what, how in script:
        await game.do(what, how)
    await game.end()


@settings(thorough, max_examples=50)
@given(script=st.lists(steps, min_size=1, max_size=30))
def test_viewers_show_what_the_terminal_shows(stage: Stage, script: Script) -> None:
    runner, screens = stage
    runner.run(play(screens, script))


@settings(thorough, max_examples=12)
@given(script=st.lists(steps | st.just(("kill", None)), min_size=8, max_size=30))
def test_also_when_the_screen_process_is_killed(stage: Stage, script: Script) -> None:
    runner, screens = stage
    runner.run(play(screens, script))
