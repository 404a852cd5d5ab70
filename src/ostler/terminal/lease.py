"""Who may type: the input lease of a terminal. It decides and tells; it waits for nothing."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from ostler.errors import OstlerError

IDLE = 60.0  # seconds without a key after which a person's lease goes back to automation


class Author(Struct, frozen=True):
    """Who types. Each input carries one. `id` tells two windows of one person apart."""

    name: str
    kind: Literal["person", "automation"] = "person"
    id: str = ""


class LeaseChange(Struct, frozen=True, kw_only=True):
    """For all viewers: the keyboard went from one to another (None: nobody)."""

    before: Author | None
    holder: Author | None
    reason: Literal["taken", "released", "idle"]


class Lease:
    """One holder. A person who takes it gets it; automation that had it waits, and gets it back on
    release or after `idle` seconds without a key. A call returns the change that is to be told, if any.
    """

    def __init__(self, clock: Callable[[], float], idle: float = IDLE) -> None:
        self.holder: Author | None = None
        self.waiting: Author | None = None  # automation that yielded to the person who holds it
        self._clock = clock
        self._idle = idle
        self._used = clock()

    def take(self, author: Author) -> LeaseChange | None:
        """A person always gets it; automation only what nobody else holds, else `denied`.

        Refused automation does not wait, unless it says so (`wait`): only who yielded gets it back by itself.
        """
        if self.holder == author:
            self._used = self._clock()
            return None
        if author.kind == "automation":
            if self.holder is None:
                return self._pass_to(author, "taken")
            return self._reclaim(author)
        if self.holder and self.holder.kind == "automation":
            self.waiting = self.holder
        return self._pass_to(author, "taken")

    def wait(self, author: Author) -> None:
        """Automation that was refused gets it next, as if it had yielded: on release, or from an idle person."""
        if author.kind == "automation" and self.holder not in (None, author) and self.waiting is None:
            self.waiting = author

    def use(self, author: Author) -> LeaseChange | None:
        """To be called for each input; `denied` without the lease."""
        change = None if self.holder == author else self._reclaim(author)
        self._used = self._clock()
        return change

    def release(self, author: Author) -> LeaseChange | None:
        """Gives it back (also when the author has gone); nothing happens if it is not the author's."""
        if self.waiting == author:
            self.waiting = None
        return self._hand_back("released") if self.holder == author else None

    def expire(self) -> LeaseChange | None:
        """Hands an idle person's lease back to the automation that waits; to be called at `due`."""
        return self._hand_back("idle") if self._is_due() else None

    @property
    def due(self) -> float | None:
        """When `expire` will have something to do, unless the person types."""
        return self._used + self._idle if self.waiting else None

    def _is_due(self) -> bool:
        return self.due is not None and self._clock() >= self.due

    def _reclaim(self, author: Author) -> LeaseChange:
        """The lease of an idle person, for the automation that yielded."""
        if self.waiting == author and self._is_due():
            return self._hand_back("idle")
        if not self.holder:
            raise OstlerError("denied", f"{author.name} must take the keyboard before typing")
        hint = "Take it first" if author.kind == "person" else "Wait until it is released"
        raise OstlerError("denied", f"{author.name} may not type: {self.holder.name} has the keyboard", hint)

    def _hand_back(self, reason: Literal["released", "idle"]) -> LeaseChange:
        successor, self.waiting = self.waiting, None
        return self._pass_to(successor, reason)

    def _pass_to(self, author: Author | None, reason: Literal["taken", "released", "idle"]) -> LeaseChange:
        change = LeaseChange(before=self.holder, holder=author, reason=reason)
        self.holder = author
        self._used = self._clock()
        return change
