"""The line at the foot of a terminal: what is typed stays there, with editing and history, whatever is printed above.

prompt_toolkit does the editing. It takes its time to be imported, so it is only where somebody sits at a terminal.
"""

import asyncio
import contextlib
import io
import os
import sys
import termios
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ostler.cli.live import console_on, drawn
from ostler.render.region import PACE, SHOW, TOGETHER, foot_text

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from rich.console import Console, RenderableType

    from ostler.render.lines import Line

PROMPT = "> "
_PLAIN = "\x1b[?2004l\x1b[?25h\x1b[0m"  # pasting as before, the cursor seen
_LONGEST = 10_000  # characters of what history keeps in a file


class Editor:
    """What is typed goes to `entered`; Ctrl-C and Ctrl-D on an empty line call their functions, and do no more.

    Enter ends what is typed; Alt-Enter, and Enter after a backslash, begin a new line of it, as those of a pasted
    text are. Use it within `async with shown()`: everything printed meanwhile comes above it.
    """

    def __init__(
        self,
        *,
        entered: Callable[[str], None],
        interrupted: Callable[[], None],
        closed: Callable[[], None],
        completions: Callable[[str], list[str]],
        queued: Callable[[], list[str]],
        history: str,
        redact: Callable[[str], str],
    ) -> None:
        self._entered, self._interrupted, self._closed = entered, interrupted, closed
        self.completions, self._redact = completions, redact
        self._foot: Callable[[], str] | None = None  # what moves above the line
        self._queued = queued  # rows right above the line
        self._question = ""
        self._draft: Any = None  # what was being typed when a question came
        self._modes = termios.tcgetattr(sys.stdin.fileno())
        self._out = sys.stdout
        self.console = console_on(sys.stdout)
        self._timer: asyncio.TimerHandle | None = None
        self._held = False  # the terminal was told to wait for the next frame
        self._session = _session(self, history)
        self._app = self._session.app
        self._above: StyleAndTextTuples = []
        self._app.before_render += lambda _: self._compose()
        self._app.after_render += lambda _: self._release()

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self._run())
        try:
            with self._prints_above():
                yield
        finally:
            self._still()
            if self._app.is_running and not self._app.is_done:
                self._app.exit()
            await asyncio.wait([running], timeout=2)
            running.cancel()
            self.restore()

    async def _run(self) -> None:
        try:
            await self._session.prompt_async()
        except (EOFError, OSError):
            pass  # the terminal has gone
        finally:
            self._closed()

    def restore(self) -> None:
        """The terminal as it was before; at any time, and again."""
        with contextlib.suppress(OSError, ValueError, termios.error):  # the terminal has gone
            self._release()
            if self._app.is_running:
                self._app.renderer.erase()
            self._out.write(_PLAIN)
            self._out.flush()
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._modes)

    # -- above the line

    def print(self, text: str) -> None:
        """Whole lines, colours and all, above the line."""
        if not text:
            return
        if not self._app.is_running:
            self._out.write(text)
            self._out.flush()
            return
        self._hold()
        self._app.renderer.erase()
        self._app.output.write_raw(text)
        self._app.output.flush()
        self._app.invalidate()

    def print_lines(self, lines: "list[Line]") -> None:
        with self.console.capture() as printed:
            for line in lines:
                self.console.print(drawn(line))
        self.print(printed.get())

    def show_foot(self, foot: Callable[[], str] | None) -> None:
        """Draws what this returns, again and again, until it is None."""
        self._foot = foot
        self._still()
        if foot is not None:
            self._frame()
        self._app.invalidate()

    def redraw(self) -> None:
        self._app.invalidate()

    def _frame(self) -> None:
        self._app.invalidate()
        self._timer = asyncio.get_running_loop().call_later(PACE, self._frame)

    def _still(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hold(self) -> None:
        """Nothing is shown between the erasing and the next frame: it does not flicker."""
        if not self._held:
            self._held = True
            self._app.output.write_raw(TOGETHER)

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._app.output.write_raw(SHOW)
            self._app.output.flush()

    @contextlib.contextmanager
    def _prints_above(self) -> Iterator[None]:
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = Above(self.print)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before

    # -- the line

    def ask(self, question: str) -> None:
        """The line is for an answer now; what was being typed comes back afterwards, and is none."""
        buffer = self._session.default_buffer
        self._question, self._draft = question, buffer.document
        buffer.reset()
        with contextlib.suppress(termios.error):  # no terminal: nothing was typed ahead
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self.redraw()

    def answered(self) -> None:
        if self._question:
            self._question = ""
            self._session.default_buffer.reset(self._draft)
            self._draft = None
            self.redraw()

    def put_back(self, texts: list[str], keep: bool = True) -> None:
        """What was entered and is not to be done yet: it can be changed, and entered again. Also empties the line."""
        from prompt_toolkit.document import Document

        buffer = self._session.default_buffer
        typed = self._draft if self._question else buffer.document
        line = Document("\n".join(filter(None, [*texts, typed.text if keep else ""])))
        if self._question:
            self._draft = line
        else:
            buffer.reset(line)

    def enter(self, buffer: Any) -> None:
        """The key of that name."""
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
            return
        text = buffer.text.strip()
        buffer.reset()
        if text and not self._question and len(text) <= _LONGEST:
            with contextlib.suppress(OSError):  # a full disk: the line counts all the same
                self._session.history.append_string(self._redact(text))
        self._entered(text)

    def interrupt(self) -> None:
        self._interrupted()

    def end(self) -> None:
        self._closed()

    def is_empty(self) -> bool:
        return not self._session.default_buffer.text

    def message(self) -> "StyleAndTextTuples":
        """All that stands above the line, and what the line begins with. Called several times for each frame."""
        return [*self._above, ("bold", self._question or PROMPT)]

    def _compose(self) -> None:
        from prompt_toolkit.formatted_text import ANSI, to_formatted_text

        foot = to_formatted_text(ANSI(self._foot())) if self._foot is not None else []
        self._above = [*foot, *(("ansibrightblack", f"{row}\n") for row in self._queued())]


def _session(editor: Editor, history: str) -> Any:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory

    completer: Any = LineCompleter(editor.completions)
    with contextlib.suppress(OSError):  # no history then; its own errors are dealt with above
        os.close(os.open(history, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    return PromptSession(
        editor.message,
        multiline=True,
        wrap_lines=True,
        prompt_continuation=lambda width, line, wrapped: " " * width,
        history=FileHistory(history),
        completer=completer,
        complete_while_typing=False,
        reserve_space_for_menu=6,
        key_bindings=_keys(editor),
        erase_when_done=True,
        enable_suspend=True,
        output=_output(),
    )


def _output() -> Any:
    from prompt_toolkit.output.vt100 import Vt100_Output

    output: Any = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    output.enable_cpr = False  # it would ask where the cursor is, and wait, before each line that is printed
    output.disable_bracketed_paste = lambda: None  # nor is a text that is pasted in that moment cut up
    return output


def _keys(editor: Editor) -> Any:
    from prompt_toolkit.enums import DEFAULT_BUFFER
    from prompt_toolkit.filters import Condition, has_focus
    from prompt_toolkit.key_binding import KeyBindings

    keys: Any = KeyBindings()
    here = has_focus(DEFAULT_BUFFER)  # not while something is searched for
    keys.add("enter", filter=here)(lambda event: editor.enter(event.current_buffer))
    keys.add("escape", "enter", filter=here)(lambda event: event.current_buffer.newline(copy_margin=False))
    keys.add("c-c", filter=here)(lambda event: editor.interrupt())
    keys.add("<sigint>")(lambda event: editor.interrupt())
    keys.add("c-d", filter=Condition(editor.is_empty))(lambda event: editor.end())
    return keys


class LineCompleter:
    """Tab offers the ways in which a line can go on; `completions` knows whole lines."""

    def __init__(self, completions: Callable[[str], list[str]]) -> None:
        self._completions = completions

    def get_completions(self, document: "Document", event: object) -> "Iterator[Completion]":
        from prompt_toolkit.completion import Completion

        begun = document.text_before_cursor
        for line in self._completions(begun):
            yield Completion(line, start_position=-len(begun))

    async def get_completions_async(self, document: "Document", event: object) -> "AsyncIterator[Completion]":
        for each in self.get_completions(document, event):
            yield each


class EditorFoot:
    """The foot of a live view that stands above the line which is being typed."""

    def __init__(self, editor: Editor, console: "Console", foot: "Callable[[], RenderableType]") -> None:
        self._editor, self._console, self._foot = editor, console, foot

    def start(self) -> None:
        self._editor.show_foot(self._drawn)

    def stop(self) -> None:
        self._editor.show_foot(None)

    def print(self, renderables: "Iterable[RenderableType]") -> None:
        with self._console.capture() as printed:
            for each in renderables:
                self._console.print(each)
        self._editor.print(printed.get())

    def _drawn(self) -> str:
        text, _ = foot_text(self._console, self._foot(), self._console.height - 8)  # the line needs some rows, too
        return text + "\n"


class Above(io.TextIOBase):
    """What any part of the program prints, in whole lines, above the line that is being typed."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._begun = show, ""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        lines, end, self._begun = (self._begun + text).rpartition("\n")
        if end and threading.get_ident() == self._thread:
            self._show(lines + end)
        elif end:
            self._loop.call_soon_threadsafe(self._show, lines + end)
        return len(text)
