"""Spending limits: what turns cost today, and whether the next one may begin."""

from ostler.errors import OstlerError
from ostler.settings import SharedSpending, Spending
from ostler.store import Store


def check_spending(store: Store, spending: Spending, who: str, now: float) -> None:
    """Raises over_budget if the turns of this day, or of this profile or agent on this day, reached their limit."""
    if spending == Spending():
        return
    spent = store.spent_since(midnight(now))
    problem = exceeded(spending, spent, who)
    if problem is None and (shared := store.shared_slots()) is not None:
        others = shared.spent if shared.day == day_of(now) else {}
        together = {name: spent.get(name, 0.0) + others.get(name, 0.0) for name in spent.keys() | others.keys()}
        problem = exceeded(spending.shared, together, who, " on all machines")
    if problem is not None:
        raise OstlerError("over_budget", problem, "Raise it in your settings ([spending]), or wait until tomorrow")


def exceeded(spending: SharedSpending, spent: dict[str, float], who: str, where: str = "") -> str | None:
    """Which limit is reached; None: none."""
    total, own = sum(spent.values()), spent.get(who, 0.0)
    if spending.day is not None and total >= spending.day:
        return f"the turns of today cost ${total:.2f}{where}, and the limit is ${spending.day:.2f}"
    most = spending.profiles.get(who)
    if most is not None and own >= most:
        return f"the turns of {who} cost ${own:.2f} today{where}, and the limit is ${most:.2f}"
    return None


def midnight(now: float) -> float:
    """When this day began, by the clock on the wall."""
    import datetime

    day = datetime.datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return day.timestamp()


def day_of(now: float) -> str:
    """This day, by the clock on the wall, as other machines call it."""
    import datetime

    return datetime.datetime.fromtimestamp(now).date().isoformat()
