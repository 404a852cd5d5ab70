"""What a turn may do. Imports nothing: the command line knows it before anything else is loaded."""

from typing import Literal

Access = Literal["read", "write", "full"]
ACCESS_ORDER: tuple[Access, ...] = ("read", "write", "full")  # each includes those before it


def suffices(access: Access, needed: Access) -> bool:
    """Whether what needs the one may be done under the other."""
    return ACCESS_ORDER.index(access) >= ACCESS_ORDER.index(needed)
