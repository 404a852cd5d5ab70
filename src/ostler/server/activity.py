"""What a busy session is about, in one line: its last tool, or its last words."""

from ostler.model import (
    EVENT_DECODER,
    Answered,
    AnyEvent,
    Asked,
    Ended,
    Limited,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolStarted,
    event_heads,
)
from ostler.store.watch import StoreWatch

LONGEST = 200  # characters
_BACK = 200  # events that are looked at

_TELLING = event_heads(Answered, Asked, Ended, Limited, Text, TextDelta, Thought, ThoughtDelta, ToolStarted)


def doing(watch: StoreWatch, session: str) -> str:
    """One line; "" if nothing was said yet."""
    words = LastWords()
    watch.newest_events(session, _BACK, words.enough)
    return newest_line(words.text)


class LastWords:
    """Takes events, the newest first, until they tell what is going on."""

    def __init__(self) -> None:
        self.text = ""
        self._deltas: tuple[type[AnyEvent], str] | None = None
        self._answered: set[str] = set()

    def enough(self, body: bytes) -> bool:
        if not body.startswith(_TELLING):
            return False  # by its first bytes: most are not worth decoding
        match EVENT_DECODER.decode(body):
            case TextDelta(text=text, id=id) | ThoughtDelta(text=text, id=id) as delta:
                return self._delta(type(delta), id, text)
            case _ if self._deltas is not None:
                return True
            case Answered(id=id):
                self._answered.add(id)
                return False
            case Asked(id=id) if id in self._answered:
                return False  # what it asked for, or did before, goes on
            case Text(text=text) | Thought(text=text):
                self.text = text
            case ToolStarted(title=title, name=name):
                self.text = title or name
            case Asked(tool=tool):
                self.text = f"asks whether it may use {tool}"
            case Limited(message=message):
                self.text = message
        return True

    def _delta(self, kind: type[AnyEvent], id: str, text: str) -> bool:
        """Pieces of one text are put together, from its end."""
        if self._deltas not in (None, (kind, id)):
            return True
        self._deltas = kind, id
        self.text = text + self.text
        return len(self.text.strip()) > LONGEST or "\n" in self.text.strip()


def newest_line(text: str) -> str:
    """The last line that says something, its beginning cut off if it is long."""
    lines = [line for line in text.splitlines() if line.strip()]
    line = " ".join("".join(char if char.isprintable() else " " for char in lines[-1]).split()) if lines else ""
    return line if len(line) <= LONGEST else "…" + line[1 - LONGEST :]
