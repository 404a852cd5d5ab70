"""What a turn that an agent asks for may have: never more than the turn that asks. Pure."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from ostler.access import Access, narrowest, suffices
from ostler.errors import OstlerError
from ostler.model import TOOL_WORDS, Turn


class DelegationBounds(Struct, frozen=True, kw_only=True):
    """The most that a delegated turn may have."""

    access: Access
    folders: tuple[str, ...] = ()  # it works in one of these, or below; none: anywhere
    depth: int = 1  # that it has
    tools_allowed: tuple[str, ...] | None = None  # None: all
    tools_denied: tuple[str, ...] = ()


def bounds_of(parents: Sequence[Turn], most: Access, folder: str) -> DelegationBounds:
    """`parents`: the turns that whoever asks descends from. `most`, `folder`: what the server was started with."""
    access = narrowest((most, *(turn.access for turn in parents)))
    deepest = max(parents, key=lambda turn: turn.depth, default=None)
    kept = tuple(turn.folder for turn in parents if turn.access != "full")
    usual = deepest.folder if deepest is not None else folder
    return DelegationBounds(
        access=access,
        folders=() if access == "full" else kept or (usual,),
        depth=deepest.depth + 1 if deepest is not None else 1,
        tools_allowed=_common([_words(turn.tools_allowed) for turn in parents if turn.tools_allowed]),
        tools_denied=tuple(dict.fromkeys(word for turn in parents for word in _words(turn.tools_denied))),
    )


def _words(tools: Sequence[str]) -> tuple[str, ...]:
    """Those in words of ostler, which mean the same for every agent; other names are those of one agent alone."""
    return tuple(tool for tool in tools if tool in TOOL_WORDS)


def _common(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    if not lists:
        return None
    return tuple(word for word in lists[0] if all(word in other for other in lists[1:]))


def check_depth(bounds: DelegationBounds, limit: int) -> None:
    """Raises denied where turns would be nested too deeply."""
    if bounds.depth > limit:
        raise OstlerError(
            "denied",
            f"turns would be delegated {bounds.depth} levels deep here, and delegation_depth is {limit}",
            "Do the work yourself, or raise delegation_depth in the settings",
        )


def access_within(bounds: DelegationBounds, wanted: Access | None, usual: Access) -> Access:
    """The access of a delegated turn: what was asked for, else what is usual as far as it is allowed. Raises denied."""
    if wanted is None:
        return narrowest((usual, bounds.access))
    if not suffices(bounds.access, wanted):
        what = f"a delegated turn may have at most access {bounds.access} here, not {wanted}"
        raise OstlerError("denied", what, f'Ask for access "{bounds.access}"')
    return wanted


def reaches(bounds: DelegationBounds, folder: str) -> bool:
    """Whether the folder, which is absolute and resolved, may be worked in or looked at."""
    return not bounds.folders or any(PurePosixPath(folder).is_relative_to(kept) for kept in bounds.folders)


def check_folder_within(bounds: DelegationBounds, folder: str) -> None:
    """Raises denied."""
    if not reaches(bounds, folder):
        what = f"{folder} is outside of {' and '.join(bounds.folders)}"
        raise OstlerError("denied", what, "A delegated turn works in the folder of the calling turn, or below it")


def cost_within(wanted: float | None, left: Sequence[float]) -> float | None:
    """The cost limit of a delegated turn; `left` is what each turn above it may still spend. Raises over_budget."""
    if left and min(left) <= 0:
        raise OstlerError("over_budget", "the calling turn has used up its cost limit")
    return min((*left, *(() if wanted is None else (wanted,))), default=None)
