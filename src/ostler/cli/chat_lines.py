"""What is said to `ostler chat`: typed at the foot of a terminal, or line by line from a pipe or a plain terminal."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from ostler.cli.ask_view import PlainInput
from ostler.cli.live import LiveView, PlainView, drawing_width, story_view
from ostler.cli.views import TurnDisplay
from ostler.render.lines import BAD, BOLD, DIM, GOOD, Line
from ostler.terminal.safe import one_line, safe

if TYPE_CHECKING:
    from ostler.cli.chat import Chat

PROMPT = "> "
_SHOWN = 10  # lines of a prompt that are shown again
_DIFF = {"+": GOOD, "-": BAD, "@": DIM}


def input_for(talk: "Chat") -> "ChatInput | Lines":
    """How this process is talked to."""
    return ChatInput(talk) if sys.stdin.isatty() and drawing_width() else Lines(talk)


class Interrupts:
    """Ctrl-C interrupts the turn, and a second time leaves at once; between turns the second one leaves."""

    def __init__(self, talk: "Chat", at_once: Callable[[], None]) -> None:
        self._talk, self._at_once = talk, at_once
        self._turn = 0  # the number of the one that was interrupted
        self._again = False

    def leaves(self) -> bool:
        """Takes a Ctrl-C; True: it is the one that leaves."""
        if self._talk.running:
            self._interrupt(self._talk.turns)
            return False
        if self._again or not sys.stdin.isatty():
            return True
        self._again = True
        click.echo("press ctrl-c again to leave", err=True)
        return False

    def forget(self) -> None:
        """Something else was typed."""
        self._again = False

    def _interrupt(self, turn: int) -> None:
        if self._turn == turn:
            self._at_once()
            os._exit(130)  # what runs is ended by the warden
        self._turn = turn
        self._talk.interrupt()


class ChatInput:
    """A person types whenever they like: what comes while a turn runs waits, and is seen waiting."""

    alone = False  # a question stands in the line that is typed; all else goes on above it

    def __init__(self, talk: "Chat") -> None:
        from ostler.cli.editor import Editor

        self._talk = talk
        self._waiting: list[str] = []
        self._over = False  # nothing more will be typed
        self._news = asyncio.Event()
        self._line: Callable[[str], bool] = lambda line: False  # takes an answer, while a turn runs
        self._withdraw: Callable[[], None] = lambda: None
        self._asked = False
        self._editor = Editor(
            entered=self._entered,
            interrupted=self._interrupted,
            closed=self._closed,
            completions=talk.completions,
            queued=self._queued,
            history=os.path.join(talk.ostler.settings.home, "chat_history"),
            redact=talk.redacted,
        )
        self._interrupts = Interrupts(talk, self._editor.restore)

    async def lines(self) -> AsyncGenerator[str, None]:
        """What is typed, one after the other. While this runs, all that is printed comes above the line."""
        async with self._editor.shown():
            name = self._talk.session.row.label
            click.echo(f"session {name} · /help, ctrl-d leaves", err=True)
            while self._waiting or not self._over:
                if not self._waiting:
                    self._news.clear()
                    await self._news.wait()
                    continue
                line = self._waiting.pop(0)
                self._editor.print_lines(_shown_again(line))
                yield line

    def view(self, access: str, verbose: bool, header: str, hint: str) -> LiveView | PlainView:
        from ostler.cli.editor import EditorFoot

        self._editor.print("\n")
        foot = partial(EditorFoot, self._editor)
        console = self._editor.console
        return story_view(access, verbose=verbose, hint=hint, talking=True, header=header, console=console, foot=foot)

    # -- asks

    def begin(self, view: TurnDisplay, line: Callable[[str], bool], withdrawn: Callable[[], None]) -> None:
        self._line, self._withdraw = line, withdrawn

    def ask(self, rows: list[str], question: str) -> None:
        """Also again, when what was typed means nothing."""
        self._editor.print_lines([[(row, _DIFF.get(row.lstrip()[:1], ""))] for row in rows])
        if not self._asked:
            self._asked = True
            self._editor.ask(question)

    def leave(self) -> None:
        self._asked = False
        self._editor.answered()

    def stop(self) -> None:
        self._line = lambda line: False

    # -- keys

    def _entered(self, text: str) -> None:
        self._interrupts.forget()
        if self._line(text) or not text:
            return
        if self._talk.running and self._talk.steers(text):
            self._editor.print_lines(_shown_again(text))
        else:
            self._waiting.append(text)
            self._news.set()

    def _interrupted(self) -> None:
        if self._talk.running and self._waiting:  # what waits is not to begin by itself now
            self._editor.put_back(self._waiting)
            self._waiting.clear()
        elif not self._talk.running:
            self._editor.put_back([], keep=False)
        if self._interrupts.leaves():
            self._closed()

    def _closed(self) -> None:
        """Ctrl-D: a question is left to others, else what waits is still done."""
        if self._asked:
            self._withdraw()
            return
        if self._talk.running and not self._over:
            click.echo("leaving when this turn ends", err=True)
        self._over = True
        self._news.set()

    def _queued(self) -> list[str]:
        return [f"  next: {one_line(text, 60)}" for text in self._waiting] if self._talk.running else []


def _shown_again(text: str) -> list[Line]:
    """What was typed has left the line: it stands above what becomes of it."""
    rows = text.split("\n")
    lines: list[Line] = [[("  " if n else PROMPT, DIM), (safe(row), BOLD)] for n, row in enumerate(rows[:_SHOWN])]
    return [*lines, [(f"  … {len(rows) - _SHOWN:,} more lines", DIM)]] if len(rows) > _SHOWN else lines


class Lines:
    """One line after the other, each a prompt: from a pipe, or from a terminal that can do no more than print."""

    def __init__(self, talk: "Chat") -> None:
        self._talk = talk
        self._person = sys.stdin.isatty()
        self._typed: list[str] = []  # while a turn ran
        self._interrupts = Interrupts(talk, lambda: None)
        self._reader = LineReader()
        self._keyboard = PlainInput(self._while_it_works)
        self.begin, self.ask = self._keyboard.begin, self._keyboard.ask
        self.leave, self.stop, self.alone = self._keyboard.leave, self._keyboard.stop, True

    async def lines(self) -> AsyncGenerator[str, None]:
        """Ends with its input, or when a Ctrl-C leaves: for a pipe that sets the chat's exit code, `left`, to 130."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        try:
            while (line := await self._next()) is not None:
                self._interrupts.forget()
                if line := line.strip():
                    yield line
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        if self._person:
            click.echo()

    def view(self, access: str, verbose: bool, header: str, hint: str) -> LiveView | PlainView:
        return story_view(access, verbose=verbose, hint=hint, talking=True, header=header)

    async def _next(self) -> str | None:
        if self._typed:
            return self._typed.pop(0)
        if self._person:
            click.echo(PROMPT, nl=False)
        return await self._reader.next()

    def _while_it_works(self, line: str) -> None:
        if not self._talk.steers(line):
            self._typed.append(line)

    def _interrupted(self) -> None:
        if self._interrupts.leaves():
            self._reader.end()
            self._talk.left = None if self._person else 130


class LineReader:
    """Lines of stdin, one at a time and only when asked for: in between they are the terminal's, or another reader's.

    A thread reads, since a file cannot be waited for; it is a daemon, since nothing ends a read.
    """

    def __init__(self) -> None:
        self._data, self._ended = b"", False
        self._next: asyncio.Future[str | None] | None = None

    async def next(self) -> str | None:
        """Without its end; None: there are no more. Cancelled, what was read is kept."""
        if b"\n" not in self._data and not self._ended:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            threading.Thread(target=self._read, args=(loop, self._next), name="ostler-lines", daemon=True).start()
            await self._next
        if not self._data:
            return None
        line, _, self._data = self._data.partition(b"\n")
        return line.decode(errors="replace")

    def end(self) -> None:
        """There are no more, whatever may still come."""
        self._ended, self._data = True, b""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    def _read(self, loop: asyncio.AbstractEventLoop, came: "asyncio.Future[str | None]") -> None:
        data = b""
        try:
            while b"\n" not in data:
                more = os.read(0, 65536)
                if not more:
                    break
                data += more
        except OSError:
            pass  # stdin is gone: the end of the lines
        try:
            loop.call_soon_threadsafe(self._took, data, came)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def _took(self, data: bytes, came: "asyncio.Future[str | None]") -> None:
        if not self._ended:
            self._data += data
            self._ended = b"\n" not in data
        if not came.done():
            came.set_result(None)
