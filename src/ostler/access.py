"""What turns and people may do. Imports nothing: the command line knows it before anything else is loaded."""

from collections.abc import Iterable
from typing import Literal

Access = Literal["read", "write", "full"]
ACCESS_ORDER: tuple[Access, ...] = ("read", "write", "full")  # each includes those before it
Rights = Literal["view", "type", "admin"]  # of whoever has come in by a link or a token
RIGHTS_ORDER: tuple[Rights, ...] = ("view", "type", "admin")


def suffices(access: Access, needed: Access) -> bool:
    """Whether what needs the one may be done under the other."""
    return ACCESS_ORDER.index(access) >= ACCESS_ORDER.index(needed)


def narrowest(levels: Iterable[Access]) -> Access:
    return min(levels, key=ACCESS_ORDER.index)


def widest(levels: Iterable[Access]) -> Access:
    """Of none: full, since nobody knows what less would do."""
    return max(levels, key=ACCESS_ORDER.index, default="full")
