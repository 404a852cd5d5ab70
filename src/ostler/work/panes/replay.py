"""A turn that is taken up again reads its records from the beginning: what the journal has of them is left out."""

from collections import Counter, deque
from collections.abc import Iterable

from msgspec import structs

from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    Ended,
    Hook,
    Notice,
    TerminalClosed,
    TerminalOpened,
    TextDelta,
    ThoughtDelta,
)

# What others than the reader of records put into a journal.
_NOT_READ = (Notice, Asked, Answered, Ended, Hook, TerminalOpened, TerminalClosed)


class Replay:
    """Made of what stands in the journal; `new` gives what does not.

    Pieces of text may have been cut otherwise (a secret is held back until it is whole), so those are counted by
    characters; all else comes in the order in which it came before.
    """

    def __init__(self, kept: Iterable[AnyEvent]) -> None:
        kept = list(kept)
        self._read: deque[tuple[str, str]] = deque()
        self._notices = Counter((event.code, event.text) for event in kept if isinstance(event, Notice))
        self._pieces: Counter[tuple[str, str]] = Counter()
        for event in kept:
            if isinstance(event, TextDelta | ThoughtDelta):
                self._pieces[_key(event)] += len(event.text)
            elif not isinstance(event, _NOT_READ):
                self._read.append(_key(event))

    def new(self, events: Iterable[AnyEvent]) -> list[AnyEvent]:
        return [fresh for event in events if (fresh := self._new(event)) is not None]

    def _new(self, event: AnyEvent) -> AnyEvent | None:
        if isinstance(event, TextDelta | ThoughtDelta):
            known = min(self._pieces[_key(event)], len(event.text))
            self._pieces[_key(event)] -= known
            return structs.replace(event, text=event.text[known:]) if known < len(event.text) else None
        if isinstance(event, Notice):
            known = self._notices[event.code, event.text]
            self._notices[event.code, event.text] = max(0, known - 1)
            return None if known else event
        if self._read and self._read[0] == _key(event):
            self._read.popleft()
            return None
        return event


def _key(event: AnyEvent) -> tuple[str, str]:
    return type(event).__name__, str(getattr(event, "id", ""))
