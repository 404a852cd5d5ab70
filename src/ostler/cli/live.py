"""The story of a turn, as people read it: live in a terminal, or in plain lines."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TextIO

from ostler import clock
from ostler.cli.views import already_shown, is_dumb
from ostler.model import AnyEvent, Envelope
from ostler.render.lines import DIM, MARKDOWN, WARN, Line, ending, plain, spoken_duration
from ostler.render.region import Foot
from ostler.render.turn_renderer import TurnRenderer
from ostler.work.turns.artifacts import diff_of
from ostler.work.turns.tool_times import ToolTimes

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    FootMaker = Callable[[Console, Callable[[], RenderableType]], "AnyFoot"]

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class PlainView:
    """Lines without control characters, as they become whole: for pipes and logs."""

    def __init__(self, out: TextIO, renderer: TurnRenderer, *, talking: bool = False) -> None:
        self.out, self.renderer, self.talking = out, renderer, talking

    def begin(self, agent: str) -> None:
        pass

    def show(self, event: AnyEvent) -> None:
        if not already_shown(event):
            self._print(self.renderer.feed(event))

    def end(self, envelope: Envelope) -> None:
        self._print([*self.renderer.flush(), [], *_last_lines(envelope, self.talking)])

    def stop(self) -> None:
        pass

    def _print(self, lines: list[Line]) -> None:
        if lines:
            self.out.write("".join(plain(line).rstrip() + "\n" for line in lines))
            self.out.flush()


class AnyFoot(Protocol):
    """Rows that are drawn anew below those that are printed."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def print(self, renderables: "Iterable[RenderableType]") -> None: ...


class LiveView:
    """A terminal: finished lines scroll by, below them the line being written and what goes on."""

    def __init__(
        self,
        console: "Console",
        renderer: TurnRenderer,
        *,
        scroll: bool = True,
        hint: str = "",
        talking: bool = False,
        foot: "FootMaker" = Foot,
    ) -> None:
        self.console, self.renderer, self.scroll, self.talking = console, renderer, scroll, talking
        self.agent, self.hint = "", hint or "ctrl-c cancels"
        self._since = clock.monotonic()
        self._times = ToolTimes()
        self._foot = foot(console, self.region)

    def begin(self, agent: str) -> None:
        self.agent = agent
        self._foot.start()

    def show(self, event: AnyEvent) -> None:
        lines = [] if already_shown(event) else self.renderer.feed(event)
        self._times.took(event, clock.monotonic())
        if self.scroll:
            self._print(lines)

    def end(self, envelope: Envelope) -> None:
        self.stop()
        if self.scroll:
            self._print([*self.renderer.flush(), [], *_last_lines(envelope, self.talking)])

    def stop(self) -> None:
        self._foot.stop()

    def go_on(self) -> None:
        """After a `stop` in the middle of a turn."""
        self._foot.start()

    def region(self) -> "RenderableType":
        """What stands below the finished lines just now."""
        from rich.console import Group

        rows: list[RenderableType] = []
        if self.scroll and self.renderer.partial:
            rows += [styled([])] if self.renderer.begins_block("text") else []
            rows.append(prose(self.renderer.partial, max(3, self.console.height - 10)))
        now = clock.monotonic()
        mark = (f"{FRAMES[int(now * 12) % len(FRAMES)]} ", "cyan")
        for tool in list(self.renderer.tools.values())[-6:]:
            end = f"  {spoken_duration(self._times.seconds(tool.id, now))}"
            rows.append(
                styled([("  ", ""), mark, *self.renderer.tool_words(tool, 4 + len(end)), (end, DIM)], no_wrap=True)
            )
        return Group(*rows, styled([]), styled([mark, *self._status(now)], no_wrap=True))

    def _status(self, now: float) -> Line:
        doing = f"starting {self.agent}" if self.renderer.activity == "starting" else self.renderer.activity
        if self.renderer.step:
            doing += f": {self.renderer.step}"
        words = (spoken_duration(now - self._since), self.renderer.usage, self.hint)
        style = WARN if self.renderer.activity in ("waiting", "asking") else ""
        return [(doing, style), (" · " + " · ".join(filter(None, words)), DIM)]

    def _print(self, lines: list[Line]) -> None:
        if lines:
            self._foot.print(drawn(line) for line in lines)


def _last_lines(envelope: Envelope, talking: bool) -> list[Line]:
    """How it ended; who keeps talking need not be told how to go on, but where the next line begins."""
    lines = ending(envelope, diff_of(envelope))
    return [*lines[:-1], []] if talking else lines


def progress_view(access: str) -> "LiveView":
    """What goes on, on stderr, beside a result on stdout."""
    renderer = TurnRenderer(access=access, home=os.path.expanduser("~"))
    return LiveView(console_on(sys.stderr), renderer, scroll=False)


def story_view(
    access: str,
    *,
    verbose: bool = False,
    hint: str = "",
    talking: bool = False,
    header: str = "",
    console: "Console | None" = None,
    foot: "FootMaker" = Foot,
) -> "LiveView | PlainView":
    """A turn as it is told to people: live where stdout is a terminal, else in plain lines."""
    width = drawing_width()
    renderer = TurnRenderer(
        access=access,
        home=os.path.expanduser("~"),
        verbose=verbose,
        width=width,
        markdown=width is not None,
        header=header,
    )
    if width is None:
        return PlainView(sys.stdout, renderer, talking=talking)
    return LiveView(console or console_on(sys.stdout), renderer, hint=hint, talking=talking, foot=foot)


def console_on(out: TextIO) -> "Console":
    from rich.console import Console

    return Console(file=out, highlight=False, markup=False, emoji=False)


def drawing_width() -> int | None:
    """The cells of a row where stdout is a terminal that can do more than print; else None."""
    if not sys.stdout.isatty() or is_dumb():
        return None
    from shutil import get_terminal_size

    return max(20, get_terminal_size().columns - 1)


def drawn(line: Line) -> "RenderableType":
    """A finished line or block of text, as rich draws it."""
    return prose(line[0][0]) if line and line[0][1] == MARKDOWN else styled(line)


def prose(source: str, last_rows: int | None = None) -> "RenderableType":
    from ostler.render.markdown import MarkdownBlock

    return MarkdownBlock(source, last_rows)


def styled(line: Line, no_wrap: bool = False) -> "Text":
    """The line as rich text: never parsed as markup."""
    from rich.text import Text

    text = Text(no_wrap=no_wrap, overflow="ellipsis" if no_wrap else "fold")
    for part, style in line:
        text.append(part, style)
    return text


def print_lines(lines: list[Line]) -> None:
    """Finished lines on stdout, in colour where it is a terminal."""
    if drawing_width():
        console = console_on(sys.stdout)
        for line in lines:
            console.print(drawn(line))
    else:
        for line in lines:
            print(plain(line).rstrip())
