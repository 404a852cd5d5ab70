"""Asks of a running turn: answered by a rule, by a person, or by the time limit; each exactly once."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from ostler import clock
from ostler.agents.dialog import AnswerKind
from ostler.errors import OstlerError, quoted
from ostler.model import TIME_LIMIT, Asked

ALLOW: tuple[AnswerKind, ...] = ("allow_once", "allow_always")
REJECT: tuple[AnswerKind, ...] = ("reject_once", "reject_always")
_KINDS: dict[str, tuple[AnswerKind, ...]] = {
    "allow": ALLOW,
    "deny": REJECT,
    "always": ("allow_always",),
    "never": ("reject_always",),
    **{kind: (kind,) for kind in (*ALLOW, *REJECT)},
}

_log = logging.getLogger(__name__)

Decide = Callable[[Asked], tuple[str, str]]  # what a rule says ("allow", "deny", "ask"), and which rule
Give = Callable[[str, AnswerKind, str, str], Awaitable[None]]  # ask, kind, by, message


class AskAnswer(Struct, frozen=True, kw_only=True):
    """What somebody said to an ask. `option`: allow, deny, always, never, or the kind of an option."""

    ask: str
    option: str
    by: str = "you"
    message: str = ""


class Asks:
    """The open asks of one turn. Whoever answers first wins; the others are told so."""

    def __init__(self, decide: Decide, give: Give, limit: float | None) -> None:
        self._decide, self._give, self._limit = decide, give, limit
        self._open: dict[str, Asked] = {}
        self._closed: dict[str, str] = {}  # ask → who answered it
        self._timers: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def expires_at(self) -> float | None:
        """When an ask that comes now is denied."""
        return None if self._limit is None else clock.now() + self._limit

    def opened(self, asked: Asked) -> tuple[AnswerKind, str] | None:
        """Takes up an ask. The answer and its author where a rule has one; None: somebody has to answer."""
        ruling, by = self._decide(asked)
        _log.info("ask %s (%s): %s%s", asked.id, asked.tool, ruling, f", by {by}" if by else "")
        if ruling != "ask":
            with contextlib.suppress(OstlerError):  # it has no such option: a person chooses among those it has
                return kind_for(asked, ruling), by
        self._open[asked.id] = asked
        if self._limit is not None:
            self._timers[asked.id] = asyncio.create_task(self._deny_in_time(asked))
        return None

    async def answer(self, answer: AskAnswer) -> None:
        """Raises not_found for an ask that is not open, bad_request for an option that it does not have."""
        asked = self._open.get(answer.ask)
        if asked is None:
            by = self._closed.get(answer.ask)
            wrong = f"was already answered by {by}" if by else "is not open in this turn"
            raise OstlerError("not_found", f"the ask {quoted(answer.ask)} {wrong}", "Look at the session: ostler show")
        kind = kind_for(asked, answer.option)
        _log.info("ask %s: %s, by %s", asked.id, kind, answer.by)
        self.settled(asked.id, answer.by)
        await self._give(asked.id, kind, answer.by, answer.message)

    def settled(self, ask: str, by: str) -> bool:
        """It needs no answer any more. False: it was not open."""
        if (timer := self._timers.pop(ask, None)) and timer is not asyncio.current_task():
            timer.cancel()
        self._closed[ask] = by
        return self._open.pop(ask, None) is not None

    async def cancel(self, by: str) -> None:
        """Answers all that are open with `cancelled`: the turn ends."""
        for ask in list(self._open):
            if self.settled(ask, by):
                with contextlib.suppress(OstlerError):  # the agent has taken it back meanwhile
                    await self._give(ask, "cancelled", by, "")

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._open.clear()

    async def _deny_in_time(self, asked: Asked) -> None:
        assert self._limit is not None
        await asyncio.sleep(self._limit)
        denied = AskAnswer(ask=asked.id, option="deny", by=TIME_LIMIT, message="nobody answered in time")
        with contextlib.suppress(OstlerError):  # somebody did, or the turn is over
            await self.answer(denied)


def kind_for(asked: Asked, option: str) -> AnswerKind:
    """The kind of the option that this word means, among those offered: never by position or id.

    `allow` never becomes `allow_always`; raises bad_request if only that is offered.
    """
    wanted = _KINDS.get(option)
    if wanted is None:
        raise OstlerError("bad_request", f"{quoted(option)} is not an answer", "Answer allow, deny, always or never")
    offered = {each.kind for each in asked.options}
    if option == "allow":
        wanted = ("allow_once",)  # a single yes must not become a lasting one
    if option == "deny" and not offered & set(REJECT):
        return "reject_once"  # every ask can be refused
    for kind in wanted:
        if kind in offered:
            return kind
    names = ", ".join(sorted(offered)) or "none"
    raise OstlerError("bad_request", f"this ask has no option {quoted(option)}; it offers {names}")
