"""What is known of a turn in a TUI, signal by signal: whether it was taken up, whether it has ended, and by what.

Decided by the signals and the time alone. A screen that looks ready is a hint: with a proof beside it, it helps to
end a turn soon; alone it never makes one `done`.
"""

from typing import Literal

from msgspec import Struct

from ostler.agents.tui import Status

SignalSource = Literal["OSC 7501", "title", "transcript", "hook", "pattern", "screen", "process"]
Says = Literal["ready", "busy", "asking", "submitted", "done", "failed", "interrupted", "ended"]

SETTLE = 1.5  # seconds that one source may be ahead of another
BEHIND = 4.0  # seconds that the file may be behind a hook, on a busy machine
STALE = 4.0  # seconds after which a state does not count that all others contradict
HINT = 15.0  # seconds after which a turn ends unproven that only looks ended
# Who can say how it ended; the first counts most.
END_SOURCES: tuple[SignalSource, ...] = ("transcript", "hook", "pattern")
STATES: dict[str, Says] = {"working": "busy", "blocked": "asking", "done": "done", "idle": "ready"}


class Signal(Struct, frozen=True):
    source: SignalSource
    says: Says
    at: float

    def __str__(self) -> str:
        return f"{self.source}: {self.says}"


class Ending(Struct, frozen=True):
    """How a turn ended; `by` are the signals that decided."""

    how: Literal["done", "failed", "interrupted", "ended", "unproven"]
    by: tuple[Signal, ...]


class Evidence:
    """Of one turn. What was said before the prompt was submitted says nothing of it."""

    def __init__(self) -> None:
        self.sent_at: float | None = None
        self._last: dict[SignalSource, Signal] = {}
        self._were_busy: set[SignalSource] = set()
        self._acknowledged: Signal | None = None

    def add(self, source: SignalSource, says: Says, at: float) -> Signal | None:
        """Takes a signal; None where that source said the same before."""
        before = self._last.get(source)
        if before is not None and before.says == says:
            return None
        self._last[source] = signal = Signal(source, says, at)
        if says == "busy":
            self._were_busy.add(source)
        self._acknowledged = self._acknowledged or self._acknowledging()
        return signal

    def sent(self, at: float) -> None:
        """The prompt goes off now."""
        self.sent_at = at
        self._last.clear()
        self._were_busy.clear()
        self._acknowledged = None

    @property
    def acknowledged(self) -> Signal | None:
        """What said first that the program took the prompt up: its own word, by whatever channel, never its looks."""
        return self._acknowledged

    def _acknowledging(self) -> Signal | None:
        if self.sent_at is None:
            return None
        for source, said in self._last.items():
            if source in ("transcript", "hook"):
                return said
            if source in ("OSC 7501", "title") and said.says in ("busy", "asking", "done"):
                return said
        return next((said for said in self._last.values() if said.source in self._were_busy - {"screen"}), None)

    @property
    def looks_taken(self) -> bool:
        """The screen says so: it was busy since."""
        return "screen" in self._were_busy or self._latest("screen") == "asking"

    @property
    def calm(self) -> tuple[Signal, ...]:
        """Who says that it waits for a prompt, if nobody says otherwise."""
        sources: tuple[SignalSource, ...] = ("OSC 7501", "title", "screen")
        known = [self._last[source] for source in sources if source in self._last]
        if self._latest("hook") == "ready":
            known.append(self._last["hook"])
        return tuple(known) if known and all(said.says in ("ready", "done") for said in known) else ()

    def ending(self, now: float) -> Ending | None:
        """How the turn has ended by now; None while it has not, or that is not sure yet."""
        if gone := self._last.get("process"):
            return Ending("ended", (gone,))
        if self.sent_at is None or "asking" in (
            self._latest("OSC 7501"),
            self._latest("screen"),
            self._latest("title"),
        ):
            return None
        return self._stopped(now) or self._reported(now) or self._by_state(now) or self._by_looks(now)

    def _stopped(self, now: float) -> Ending | None:
        for source in ("transcript", "screen"):
            said = self._last.get(source)
            if said is not None and said.says == "interrupted" and (self._is_calm() or self._settled(said, now)):
                return Ending("interrupted", (said,))
        return None

    def _reported(self, now: float) -> Ending | None:
        """The agent's own file, its hook, or the user's pattern says so, and nobody says that it still works.

        claude's state stays `working` after an error of the API: a state that its file and its screen contradict for
        some seconds does not count. A hook may be ahead of the file, which has the answer.
        """
        spoke = [s for source in END_SOURCES if (s := self._last.get(source)) and s.says in ("done", "failed")]
        if not spoke or (spoke[0].source == "hook" and now - spoke[0].at < BEHIND):
            return None
        said, by = spoke[0], tuple(spoke[:2])
        how: Literal["done", "failed"] = "done" if said.says == "done" else "failed"
        if self._latest("OSC 7501") == "busy":
            looks = self._last.get("screen")
            patience = SETTLE if len(by) > 1 else STALE
            if looks is None or looks.says != "ready" or now - max(said.at, looks.at) < patience:
                return None
            return Ending(how, (*by, looks))
        if calm := self.calm:
            return Ending(how, (*by, calm[0]))
        return Ending(how, by) if self._settled(said, now) and not self._is_busy() else None

    def _by_state(self, now: float) -> Ending | None:
        said = self._last.get("OSC 7501")
        if said is None or said.says != "done" or "OSC 7501" not in self._were_busy:
            return None
        return Ending("done", (said,)) if self._settled(said, now) else None

    def _by_looks(self, now: float) -> Ending | None:
        calm = self.calm
        if not calm or not self._were_busy:
            return None
        return Ending("unproven", calm) if all(now - said.at >= HINT for said in calm) else None

    def _is_calm(self) -> bool:
        return bool(self.calm)

    def _is_busy(self) -> bool:
        return "busy" in (self._latest("OSC 7501"), self._latest("title"), self._latest("screen"))

    def _latest(self, source: SignalSource) -> Says | None:
        said = self._last.get(source)
        return said.says if said is not None else None

    def _settled(self, said: Signal, now: float) -> bool:
        return now - said.at >= SETTLE


def state_says(state: str) -> Says | None:
    """What a state of OSC 7501 (`state=working:app=claude-code`) says; None for one that says nothing of turns."""
    fields = dict(part.partition("=")[::2] for part in state.split(":"))
    return STATES.get(fields.get("state", ""))


def status_says(status: Status | None) -> Says | None:
    """What a status by title or screen says."""
    return status if status in ("ready", "busy", "asking") else None
