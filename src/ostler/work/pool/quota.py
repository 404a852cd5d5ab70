"""Quotas that are used up: whose, until when, and when a turn that did nothing yet is tried again."""

from collections.abc import Iterable

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.model import AnyEvent, Limited, Problem, Turn
from ostler.settings import Profile, Settings
from ostler.work.known_agents import find_agent

WORTH_PARKING = 60.0  # seconds: shorter pauses are the agent's own retries
RETRIED = ("overloaded", "limited")  # what may be over a moment later
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 120.0


class UsedUp(Struct, frozen=True):
    """The quota of an account is used up."""

    account: str
    until: float
    message: str


def account_of(turn: Turn, settings: Settings) -> str:
    """Whose quota a turn uses: its profile may name one, else it is the agent's."""
    profile = settings.profiles.get(turn.profile or "", Profile())
    return profile.account if profile.account and _runs_on(profile, turn.agent, settings) else turn.agent


def _runs_on(profile: Profile, agent: str, settings: Settings) -> bool:
    """Whether that is the agent of the profile, which it may name by a model."""
    named = profile.agent or profile.model
    try:
        return not named or find_agent(settings, named)[0].name == agent
    except OstlerError:  # it is there no longer
        return False


def used_up(account: str, events: Iterable[AnyEvent], now: float) -> UsedUp | None:
    """What these events say of the account's quota; None: nothing, or nothing that lasts."""
    for event in events:
        if isinstance(event, Limited) and event.error == "limited":
            until = event.retry_at or (now + event.retry_in if event.retry_in else 0.0)
            if until - now >= WORTH_PARKING:
                return UsedUp(account, until, event.message)
    return None


def used_up_at_end(account: str, error: Problem | None, now: float) -> UsedUp | None:
    """The same of how a turn ended."""
    if error is None or error.kind != "limited" or error.retry_at is None:
        return None
    return UsedUp(account, error.retry_at, error.message) if error.retry_at - now >= WORTH_PARKING else None


def is_retried(error: Problem | None, worked: bool) -> bool:
    """Whether a turn that ended so may simply be tried again: nothing was done, and no quota has to come back first."""
    return not worked and error is not None and error.kind in RETRIED and error.retry_at is None


def backoff(attempt: int, chance: float) -> float:
    """Seconds before attempt number `attempt` (from 1): twice as long each time, and never all at the same moment.

    `chance` is a random number from 0 to 1.
    """
    return float(min(_FIRST_PAUSE * 2 ** (attempt - 1), _LONGEST_PAUSE) * (0.5 + chance))
