"""Views of a turn, for programs and for people: NDJSON events, the envelope alone, the answer alone, or the story.

What draws the story (live.py) is imported where it is wanted: a program that asks for JSON does not wait for it.
"""

import os
import sys
from typing import Protocol, TextIO

import msgspec

from ostler.model import EVENT_ENCODER, AnyEvent, Envelope, Notice, Problem
from ostler.terminal.safe import one_line, safe

SHOWN_BEFORE: set[str] = set()  # notices on settings that this process has printed already


class TurnDisplay(Protocol):
    """Somewhere a turn is shown. `stop` may come at any time and leaves the terminal in order."""

    def begin(self, agent: str) -> None: ...
    def show(self, event: AnyEvent) -> None: ...
    def end(self, envelope: Envelope) -> None: ...
    def stop(self) -> None: ...


def already_shown(event: AnyEvent) -> bool:
    """Whether the person at this terminal has read it before the turn began."""
    return isinstance(event, Notice) and event.code == "settings" and event.text in SHOWN_BEFORE


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

    def __init__(self, out: TextIO, *, envelope: bool, progress: TurnDisplay | None = None) -> None:
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
            self._answer(envelope)
            if envelope.error is not None:
                complain_of(envelope.error)
        self.out.flush()

    def stop(self) -> None:
        if self.progress:
            self.progress.stop()

    def _answer(self, envelope: Envelope) -> None:
        """The value that was checked where there is one: what an agent says around it is no part of it."""
        if envelope.structured is not None:
            self.out.write(json_text(envelope.structured))
            return
        self.out.write(safe(envelope.text) if self.out.isatty() else envelope.text)
        if envelope.text and not envelope.text.endswith("\n"):
            self.out.write("\n")


def complain_of(error: Problem) -> None:
    """What went wrong with a turn, in one line on stderr."""
    said = f"{error.message}. {error.hint}" if error.hint else error.message
    print(f"ostler: {one_line(said, 2000)}", file=sys.stderr)


def choose_view(
    *,
    json: bool = False,
    events: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    access: str = "",
    hint: str = "",
) -> TurnDisplay:
    """The view that the flags and the terminal ask for."""
    if events:
        return EventsView(sys.stdout)
    if json or quiet:
        progress: TurnDisplay | None = None
        if sys.stderr.isatty() and not quiet and not is_dumb():
            from ostler.cli.live import progress_view

            progress = progress_view(access)
        return ResultView(sys.stdout, envelope=json, progress=progress)
    from ostler.cli.live import story_view

    return story_view(access, verbose=verbose, hint=hint)


def is_dumb() -> bool:
    """Whether the terminal can do no more than print."""
    return os.environ.get("TERM", "dumb") in ("dumb", "")


def json_text(value: object) -> str:
    """Indented JSON; control characters are escaped by JSON itself, but for C1 ones and DEL."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return text.translate({code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}) + "\n"
