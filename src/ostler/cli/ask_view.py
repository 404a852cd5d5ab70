"""Asks at the terminal: a view that shows what an agent asks, and reads the answer of the person there."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import json

from ostler.cli.live import LiveView
from ostler.cli.views import ResultView, TurnDisplay
from ostler.model import Answered, AnyEvent, Asked, Ended, Envelope
from ostler.terminal.safe import one_line, safe
from ostler.work.dialogs.asks import AskAnswer

BRIEF = 20  # rows of a diff that are shown without `view`
_SOON = 0.1  # a rule answers at once: then nobody is asked
_WORDS = {"a": "allow", "allow": "allow", "d": "deny", "deny": "deny", "w": "always", "always": "always"}


class AskReply(NamedTuple):
    """What a line typed at an ask means; `again`: it means nothing, and nothing is answered."""

    what: Literal["allow", "deny", "always", "view", "again"]
    message: str = ""


def understood(line: str, asked: Asked) -> AskReply:
    """`a`, `d [why]`, `w`, `v`, or the whole words. Enter alone is no answer, nor is what the ask does not offer."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower()
    if word in ("v", "view") and not rest:
        return AskReply("view")
    option = _WORDS.get(word, "")
    if option == "deny":
        return AskReply("deny", rest.strip())
    if rest or option not in choices(asked):
        return AskReply("again")
    return AskReply("allow" if option == "allow" else "always")


def choices(asked: Asked) -> list[str]:
    """What can be answered: every ask can be denied, what else it offers is told by the kinds of its options."""
    offered = {option.kind for option in asked.options}
    able = {"allow": "allow_once" in offered, "deny": True, "always": "allow_always" in offered}
    return [name for name, can in able.items() if can]


def question(asked: Asked) -> str:
    names = {"allow": "[a]llow", "deny": "[d]eny", "always": "al[w]ays"}
    return "  " + "  ".join([*(names[name] for name in choices(asked)), "[v]iew"]) + " ? "


def not_understood(line: str, asked: Asked) -> list[str]:
    """Why nothing happened; Enter alone needs no words."""
    keys = ", ".join({"allow": "a", "deny": "d", "always": "w"}[name] for name in choices(asked))
    return [f"  “{one_line(line, 40)}” is not an answer: type {keys} or v"] if line.strip() else []


def details(asked: Asked, whole: bool) -> list[str]:
    """The diff, its beginning or all of it; and all of the input where it was asked for. Safe to print."""
    rows = safe(asked.diff.replace("\r\n", "\n")).rstrip("\n").split("\n") if asked.diff else []
    if not whole:
        more = [f"… {len(rows) - BRIEF:,} more lines: [v]iew"] if len(rows) > BRIEF else []
        return [f"  {row}" for row in (*rows[:BRIEF], *more)]
    shown = json.format(json.encode(asked.input), indent=2).decode() if asked.input is not None else ""
    return [f"  {safe(row)}" for row in (*shown.split("\n"), *rows) if row]


class Questioner(Protocol):
    """Where a person is asked. `alone`: nothing else can be shown while a question stands there."""

    alone: bool

    def begin(self, view: TurnDisplay, line: Callable[[str], bool], withdrawn: Callable[[], None]) -> None: ...
    def ask(self, rows: list[str], question: str) -> None: ...
    def leave(self) -> None: ...
    def stop(self) -> None: ...


class AskingView:
    """A view at a terminal: asks are put to the person there, one after the other. All else is the view's inside.

    What was typed before a question stood there is never taken for its answer. A question that
    somebody else answers, or that is no longer open, goes away, and nothing else with it. `said` gets each answer.
    """

    def __init__(self, view: TurnDisplay, said: Callable[[AskAnswer], None], person: Questioner) -> None:
        self._view, self._said, self._person = view, said, person
        self._open: list[Asked] = []
        self._at: Asked | None = None  # the question that stands there
        self._held: list[AnyEvent] = []  # what came meanwhile
        self._soon: asyncio.TimerHandle | None = None

    # -- a view

    def begin(self, agent: str) -> None:
        self._view.begin(agent)
        self._person.begin(self._view, self.line, self.withdraw)

    def show(self, event: AnyEvent) -> None:
        match event:
            case Asked():
                self._open.append(event)
            case Answered(id=id):
                self._open = [asked for asked in self._open if asked.id != id]
            case Ended():
                self._open.clear()
        if self._at is not None and self._at not in self._open:
            self._leave()
        if self._at is not None and self._person.alone:
            self._held.append(event)
        else:
            self._view.show(event)
        self._ask_soon()

    def end(self, envelope: Envelope) -> None:
        self.stop()
        self._view.end(envelope)

    def stop(self) -> None:
        self._open.clear()
        if self._soon is not None:
            self._soon.cancel()
        self._leave()
        self._person.stop()
        self._view.stop()

    # -- asking

    def line(self, line: str) -> bool:
        """Takes a line that was typed; False: no question stood there."""
        asked = self._at
        if asked is None:
            return False
        said = understood(line, asked)
        if said.what == "again":
            self._person.ask(not_understood(line, asked), question(asked))
        elif said.what == "view":
            self._person.ask(details(asked, whole=True), question(asked))
        else:
            self._open.remove(asked)
            self._leave()
            self._said(AskAnswer(ask=asked.id, option=said.what, message=said.message))
            self._ask_soon()
        return True

    def withdraw(self) -> None:
        """It is not answered here; others may, until the limit."""
        self._open = [asked for asked in self._open if asked is not self._at]
        self._leave()

    def _ask_soon(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
        if self._open and self._at is None:
            self._soon = asyncio.get_running_loop().call_later(_SOON, self._ask)

    def _ask(self) -> None:
        self._at = asked = self._open[0]
        self._person.ask(details(asked, whole=False), question(asked))

    def _leave(self) -> None:
        """The question is over, whoever answered it."""
        if self._at is None:
            return
        self._at = None
        self._person.leave()
        held, self._held = self._held, []
        for event in held:
            self._view.show(event)


class PlainInput:
    """Lines of a terminal that is read as it is, between what is printed. `typed` gets those that answer nothing."""

    alone = True

    def __init__(self, typed: Callable[[str], None] | None = None) -> None:
        self._typed = typed
        self._view: TurnDisplay | None = None
        self._line: Callable[[str], bool] = lambda line: False
        self._withdrawn: Callable[[], None] = lambda: None
        self._asked = self._reading = False
        self._rest = b""

    def begin(self, view: TurnDisplay, line: Callable[[str], bool], withdrawn: Callable[[], None]) -> None:
        self._view, self._line, self._withdrawn = view, line, withdrawn
        if self._typed is not None:
            self._start_reading()

    def ask(self, rows: list[str], question: str) -> None:
        if not self._asked:  # else it has been answered by something that means nothing
            pause(self._view)
        _print(rows)
        if not self._asked:
            self._forget_what_was_typed()
        self._asked = True
        _print([], question)
        self._start_reading()

    def leave(self) -> None:
        """Erases the row of the question, if nobody has ended it by Enter."""
        self._asked = False
        if self._typed is None:
            self._stop_reading()
        _print([], "\r\x1b[K")
        resume(self._view)

    def stop(self) -> None:
        self._stop_reading()

    def _start_reading(self) -> None:
        if not self._reading:
            self._reading = True
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _read(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65536)
        except OSError:
            data = b""
        if not data:  # Ctrl-D
            self._withdrawn()
            self._stop_reading()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in (line.decode(errors="replace").strip() for line in lines):
            if not self._line(line) and self._typed is not None and line:
                self._typed(line)

    def _forget_what_was_typed(self) -> None:
        self._rest = b""
        try:
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        except termios.error:
            pass  # no terminal: nothing was typed ahead


def _print(lines: list[str], prompt: str = "") -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines) + prompt)
    sys.stderr.flush()


def pause(view: TurnDisplay | None) -> None:
    """Nothing moves while a question stands there."""
    live = _moving(view)
    if live is not None:
        live.stop()


def resume(view: TurnDisplay | None) -> None:
    live = _moving(view)
    if live is not None:
        live.go_on()


def _moving(view: Any) -> LiveView | None:
    if isinstance(view, ResultView):
        view = view.progress
    return view if isinstance(view, LiveView) else None
