"""Views of a turn: live in a terminal, plain lines, NDJSON events, the envelope alone, the answer alone."""

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Protocol, TextIO

import msgspec

from ostler.terminal.safe import one_line, safe
from ostler.words import EVENT_ENCODER, AnyEvent, Envelope
from ostler.work.lines import DIM, WARN, Line, Story, ending, plain, spoken_duration, tool_words
from ostler.work.turn_terminal import diff_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class View(Protocol):
    """Somewhere a turn is shown. `stop` may come at any time and leaves the terminal in order."""

    def begin(self, agent: str) -> None: ...
    def show(self, event: AnyEvent) -> None: ...
    def end(self, envelope: Envelope) -> None: ...
    def stop(self) -> None: ...


class PlainView:
    """Lines without control characters, as they become whole: for pipes and logs."""

    def __init__(self, out: TextIO, story: Story, *, talking: bool = False) -> None:
        self.out, self.story, self.talking = out, story, talking

    def begin(self, agent: str) -> None:
        pass

    def show(self, event: AnyEvent) -> None:
        self._print(self.story.feed(event))

    def end(self, envelope: Envelope) -> None:
        self._print([*self.story.flush(), [], *_last_lines(envelope, self.talking)])

    def stop(self) -> None:
        pass

    def _print(self, lines: list[Line]) -> None:
        if lines:
            self.out.write("".join(plain(line).rstrip() + "\n" for line in lines))
            self.out.flush()


class LiveView:
    """A terminal: finished lines scroll by, below them the line being written and what goes on."""

    def __init__(
        self, console: "Console", story: Story, *, scroll: bool = True, hint: str = "", talking: bool = False
    ) -> None:
        from rich.live import Live

        self.console, self.story, self.scroll, self.talking = console, story, scroll, talking
        self.agent, self.hint = "", hint or "ctrl-c cancels"
        self._since = time.monotonic()
        self._tools_since: dict[str, float] = {}
        self._live = Live(
            console=console,
            get_renderable=self.region,
            refresh_per_second=12,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, agent: str) -> None:
        self.agent = agent
        self._live.start()

    def show(self, event: AnyEvent) -> None:
        lines = self.story.feed(event)
        now = time.monotonic()
        self._tools_since = {id: self._tools_since.get(id, now) for id in self.story.tools}
        if self.scroll:
            self._print(lines)

    def end(self, envelope: Envelope) -> None:
        self.stop()
        if self.scroll:
            self._print([*self.story.flush(), [], *_last_lines(envelope, self.talking)])

    def stop(self) -> None:
        self._live.stop()

    def go_on(self) -> None:
        """After a `stop` in the middle of a turn."""
        self._live.start()

    def region(self) -> "RenderableType":
        """What stands below the finished lines just now."""
        from rich.console import Group

        rows: list[Line] = []
        if self.scroll and self.story.partial:
            rows += [[], [(safe(self.story.partial), "")]] if self.story.begins_block("text") else []
            rows = rows or [[(safe(self.story.partial), "")]]
        now = time.monotonic()
        frame = FRAMES[int(now * 12) % len(FRAMES)]
        tools = list(self.story.tools.values())[-6:]
        for tool in tools:
            since = spoken_duration(now - self._tools_since.get(tool.id, now))
            rows.append([("  ", ""), (f"{frame} ", "cyan"), *tool_words(tool), (f"  {since}", DIM)])
        rows += [[], [(f"{frame} ", "cyan"), *self._status(now)]]
        return Group(*(styled(row, no_wrap=len(rows) - i <= 2 + len(tools)) for i, row in enumerate(rows)))

    def _status(self, now: float) -> Line:
        doing = f"starting {self.agent}" if self.story.activity == "starting" else self.story.activity
        if self.story.step:
            doing += f": {self.story.step}"
        words = (spoken_duration(now - self._since), self.story.usage, self.hint)
        style = WARN if self.story.activity in ("waiting", "asking") else ""
        return [(doing, style), (" · " + " · ".join(filter(None, words)), DIM)]

    def _print(self, lines: list[Line]) -> None:
        for line in lines:
            self.console.print(styled(line))


def _last_lines(envelope: Envelope, talking: bool) -> list[Line]:
    """How it ended; who keeps talking need not be told how to go on, but where the next line begins."""
    lines = ending(envelope, diff_of(envelope))
    return [*lines[:-1], []] if talking else lines


class EventsView:
    """Each event as one line of JSON; flushed, so that a reader sees it at once."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def begin(self, agent: str) -> None:
        pass

    def show(self, event: AnyEvent) -> None:
        self.out.write(EVENT_ENCODER.encode(event).decode() + "\n")
        self.out.flush()

    def end(self, envelope: Envelope) -> None:
        pass

    def stop(self) -> None:
        pass


class ResultView:
    """The result alone on stdout: the envelope as JSON, or the answer; progress beside it if there is a place."""

    def __init__(self, out: TextIO, *, envelope: bool, progress: View | None = None) -> None:
        self.out, self.envelope, self.progress = out, envelope, progress

    def begin(self, agent: str) -> None:
        if self.progress:
            self.progress.begin(agent)

    def show(self, event: AnyEvent) -> None:
        if self.progress:
            self.progress.show(event)

    def end(self, envelope: Envelope) -> None:
        self.stop()
        if self.envelope:
            self.out.write(json_text(envelope))
        else:
            self.out.write(safe(envelope.text) if self.out.isatty() else envelope.text)
            if envelope.text and not envelope.text.endswith("\n"):
                self.out.write("\n")
            if envelope.error is not None:
                error = envelope.error
                said = f"{error.message}. {error.hint}" if error.hint else error.message
                print(f"ostler: {one_line(said, 2000)}", file=sys.stderr)
        self.out.flush()

    def stop(self) -> None:
        if self.progress:
            self.progress.stop()


def choose_view(
    *,
    json: bool = False,
    events: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    access: str = "",
    hint: str = "",
    talking: bool = False,
) -> View:
    """The view that the flags and the terminal ask for."""
    home = os.path.expanduser("~")
    if events:
        return EventsView(sys.stdout)
    if json or quiet:
        progress = None
        if sys.stderr.isatty() and not quiet and not _dumb():
            progress = LiveView(_console(sys.stderr), Story(access=access, home=home), scroll=False)
        return ResultView(sys.stdout, envelope=json, progress=progress)
    if sys.stdout.isatty() and not _dumb():
        width = max(20, shutil.get_terminal_size().columns - 1)
        story = Story(access=access, home=home, verbose=verbose, width=width)
        return LiveView(_console(sys.stdout), story, hint=hint, talking=talking)
    return PlainView(sys.stdout, Story(access=access, home=home, verbose=verbose), talking=talking)


def _console(out: TextIO) -> "Console":
    from rich.console import Console

    return Console(file=out, highlight=False, markup=False, emoji=False)


def _dumb() -> bool:
    return os.environ.get("TERM", "dumb") in ("dumb", "")


def styled(line: Line, no_wrap: bool = False) -> "Text":
    """The line as rich text: never parsed as markup."""
    from rich.text import Text

    text = Text(no_wrap=no_wrap, overflow="ellipsis" if no_wrap else "fold")
    for part, style in line:
        text.append(part, style)
    return text


def print_lines(lines: list[Line]) -> None:
    """Finished lines on stdout, in colour where it is a terminal."""
    if sys.stdout.isatty() and not _dumb():
        console = _console(sys.stdout)
        for line in lines:
            console.print(styled(line))
    else:
        for line in lines:
            print(plain(line).rstrip())


def json_text(value: object) -> str:
    """Indented JSON; control characters are escaped by JSON itself, but for C1 ones and DEL."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return text.translate({code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}) + "\n"
