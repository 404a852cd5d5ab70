"""Asks at the terminal: a view that shows what an agent asks, and reads the answer of the person there."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from msgspec import json

from ostler.cli.live import LiveView, ResultView, View
from ostler.terminal.safe import safe
from ostler.words import Answered, AnyEvent, Asked, Ended, Envelope
from ostler.work.asks import Answer

BRIEF = 20  # rows of a diff that are shown without `view`
_SOON = 0.1  # a rule answers at once: then nobody is asked
_WORDS = {"a": "allow", "allow": "allow", "d": "deny", "deny": "deny", "w": "always", "always": "always"}


class Said(NamedTuple):
    """What a line typed at an ask means; `again`: it means nothing, and nothing is answered."""

    what: Literal["allow", "deny", "always", "view", "again"]
    message: str = ""


def understood(line: str, asked: Asked) -> Said:
    """`a`, `d [why]`, `w`, `v`, or the whole words. Enter alone is no answer, nor is what the ask does not offer."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower()
    if word in ("v", "view") and not rest:
        return Said("view")
    option = _WORDS.get(word, "")
    if option == "deny":
        return Said("deny", rest.strip())
    if rest or option not in choices(asked):
        return Said("again")
    return Said("allow" if option == "allow" else "always")


def choices(asked: Asked) -> list[str]:
    """What can be answered: every ask can be denied, what else it offers is told by the kinds of its options."""
    offered = {option.kind for option in asked.options}
    able = {"allow": "allow_once" in offered, "deny": True, "always": "allow_always" in offered}
    return [name for name, can in able.items() if can]


def question(asked: Asked) -> str:
    names = {"allow": "[a]llow", "deny": "[d]eny", "always": "al[w]ays"}
    return "  " + "  ".join([*(names[name] for name in choices(asked)), "[v]iew"]) + " ? "


def details(asked: Asked, whole: bool) -> list[str]:
    """The diff, its beginning or all of it; and all of the input where it was asked for. Safe to print."""
    rows = safe(asked.diff.replace("\r\n", "\n")).rstrip("\n").split("\n") if asked.diff else []
    if not whole:
        more = [f"… {len(rows) - BRIEF:,} more lines: [v]iew"] if len(rows) > BRIEF else []
        return [f"  {row}" for row in (*rows[:BRIEF], *more)]
    told = json.format(json.encode(asked.input), indent=2).decode() if asked.input is not None else ""
    return [f"  {safe(row)}" for row in (*told.split("\n"), *rows) if row]


class AskingView:
    """A view at a terminal: asks are put to the person there, one after the other. All else is the view's inside.

    What was typed before a question stood there is never taken for its answer. A question that
    somebody else answers, or that is no longer open, goes away. `said` gets each answer; `typed`
    each line that answers nothing, while a turn runs.
    """

    def __init__(self, view: View, said: Callable[[Answer], None], typed: Callable[[str], None] | None = None) -> None:
        self._view, self._said, self._typed = view, said, typed
        self._open: list[Asked] = []
        self._at: Asked | None = None  # the question that stands there
        self._held: list[AnyEvent] = []  # what came meanwhile
        self._soon: asyncio.TimerHandle | None = None
        self._listening = False
        self._rest = b""

    # -- a view

    def begin(self, agent: str) -> None:
        self._view.begin(agent)
        if self._typed is not None:
            self._listen()

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
        if self._at is not None:
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
        self._deafen()
        self._view.stop()

    # -- asking

    def _ask_soon(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
        if self._open and self._at is None:
            self._soon = asyncio.get_running_loop().call_later(_SOON, self._ask)

    def _ask(self) -> None:
        self._at = asked = self._open[0]
        pause(self._view)
        self._print(details(asked, whole=False))
        self._forget_what_was_typed()
        self._print([], question(asked))
        self._listen()

    def _leave(self) -> None:
        """The question is over, whoever answered it."""
        if self._at is None:
            return
        self._at = None
        if self._typed is None:
            self._deafen()
        self._print([""])
        resume(self._view)
        held, self._held = self._held, []
        for event in held:
            self._view.show(event)

    def _line(self, line: str) -> None:
        asked = self._at
        if asked is None:
            if self._typed is not None and line.strip():
                self._typed(line.strip())
            return
        said = understood(line, asked)
        if said.what == "again":
            self._print([], question(asked))
        elif said.what == "view":
            self._print(details(asked, whole=True), question(asked))
        else:
            self._open.remove(asked)
            self._leave()
            self._said(Answer(ask=asked.id, option=said.what, message=said.message))
            self._ask_soon()

    # -- the keyboard

    def _listen(self) -> None:
        if not self._listening:
            self._listening = True
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._hear)

    def _deafen(self) -> None:
        if self._listening:
            self._listening = False
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _hear(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65536)
        except OSError:
            data = b""
        if not data:  # Ctrl-D: not answered here; others may, until the limit
            self._open = [asked for asked in self._open if asked is not self._at]
            self._leave()
            self._deafen()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace"))

    def _forget_what_was_typed(self) -> None:
        self._rest = b""
        try:
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        except termios.error:
            pass

    def _print(self, lines: list[str], prompt: str = "") -> None:
        sys.stderr.write("".join(f"{line}\n" for line in lines) + prompt)
        sys.stderr.flush()


def pause(view: View) -> None:
    """Nothing moves while a question stands there."""
    live = _moving(view)
    if live is not None:
        live.stop()


def resume(view: View) -> None:
    live = _moving(view)
    if live is not None:
        live.go_on()


def _moving(view: Any) -> LiveView | None:
    if isinstance(view, ResultView):
        view = view.progress
    return view if isinstance(view, LiveView) else None


def at_a_terminal() -> bool:
    """Whether somebody sits here who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
