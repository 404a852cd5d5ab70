"""How machines share a limit that holds over all of them: a pure function of what each has and wants."""

from collections.abc import Mapping

from msgspec import Struct


class Share(Struct, frozen=True, kw_only=True):
    """What a machine has of a limit, and what it wants. `granted` grows with each time that it was given something."""

    held: int = 0
    wanted: int = 0
    granted: int = 0

    @property
    def waits(self) -> bool:
        return self.held < self.wanted


class Granted(Struct, frozen=True, kw_only=True):
    """`held`: what is taken of the limit for this machine. `start`: how many may run there before another may start."""

    held: int
    start: int


def grant(me: str, shares: Mapping[str, Share], most: int, kept: int) -> Granted:
    """What `me` has from now on: its fair share, as far as it is free, and never less than `kept`, which runs there.

    Nothing is taken from a machine: what it holds above its fair share comes back when its turns end.
    """
    fair = fair_share(shares, most).get(me, 0)
    others = sum(share.held for name, share in shares.items() if name != me)
    held = max(kept, min(fair, most - others))
    return Granted(held=held, start=min(held, fair))


def fair_share(shares: Mapping[str, Share], most: int) -> dict[str, int]:
    """In rounds, as much to each that wants more. What is left goes to those that were given something longest ago."""
    left, fair = most, dict.fromkeys(shares, 0)
    order = sorted(shares, key=lambda name: (shares[name].granted, name))
    while left > 0:
        hungry = [name for name in order if fair[name] < shares[name].wanted]
        if not hungry:
            break
        least = min(shares[name].wanted - fair[name] for name in hungry)
        each = max(1, min(left // len(hungry), least))
        for name in hungry[: left // each]:
            fair[name] += each
            left -= each
    return fair
