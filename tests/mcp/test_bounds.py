"""What a delegated turn may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.access import ACCESS_ORDER, suffices
from ostler.errors import OstlerError
from ostler.mcp.bounds import (
    DelegationBounds,
    access_within,
    bounds_of,
    check_depth,
    check_folder_within,
    cost_within,
    reaches,
)
from ostler.model import Turn

ACCESSES = st.sampled_from(ACCESS_ORDER)


def turn(access: str = "full", depth: int = 0, folder: str = "/a", **fields: object) -> Turn:
    return Turn(id="t", session="s", agent="script", prompt="x", folder=folder, access=access, depth=depth, **fields)


def test_without_a_turn_that_asks_what_the_server_was_started_with_holds() -> None:
    assert bounds_of([], "write", "/here") == DelegationBounds(access="write", folders=("/here",), depth=1)
    assert bounds_of([], "full", "/here") == DelegationBounds(access="full", folders=(), depth=1)


def test_the_narrowest_and_the_deepest_hold() -> None:
    around = [turn("full", 0, "/a"), turn("write", 1, "/b")]
    assert bounds_of(around, "full", "/here") == DelegationBounds(access="write", folders=("/b",), depth=2)
    assert bounds_of([turn("full", 3, "/a")], "read", "/here") == DelegationBounds(
        access="read", folders=("/a",), depth=4
    )


def test_tools_that_the_asking_turn_lacks_are_lacking() -> None:
    around = [turn(tools_allowed=("read", "shell", "Bash"), tools_denied=("web",)), turn(tools_allowed=("read",))]
    found = bounds_of(around, "full", "/")
    assert (found.tools_allowed, found.tools_denied) == (("read",), ("web",))


@given(most=ACCESSES, around=st.lists(ACCESSES), wanted=st.none() | ACCESSES, usual=ACCESSES)
def test_no_access_is_ever_wider(most: str, around: list[str], wanted: str | None, usual: str) -> None:
    bounds = bounds_of([turn(access) for access in around], most, "/")  # type: ignore[arg-type]
    try:
        granted = access_within(bounds, wanted, usual)  # type: ignore[arg-type]
    except OstlerError as error:
        assert error.kind == "denied" and wanted is not None
    else:
        assert all(suffices(each, granted) for each in (most, *around))  # type: ignore[arg-type]


def test_folders() -> None:
    bounds = DelegationBounds(access="write", folders=("/a/b",))
    assert reaches(bounds, "/a/b") and reaches(bounds, "/a/b/c")
    assert not reaches(bounds, "/a/bc") and not reaches(bounds, "/a")
    assert reaches(DelegationBounds(access="full"), "/anywhere")
    with pytest.raises(OstlerError, match="/a is outside of /a/b"):
        check_folder_within(bounds, "/a")


def test_depth() -> None:
    check_depth(DelegationBounds(access="read", depth=2), 2)
    with pytest.raises(OstlerError, match="3 levels deep here, and delegation_depth is 2"):
        check_depth(DelegationBounds(access="read", depth=3), 2)


def test_cost() -> None:
    assert cost_within(None, []) is None
    assert cost_within(2.0, [5.0, 1.0]) == 1.0
    assert cost_within(0.5, [5.0]) == 0.5
    assert cost_within(None, [3.0]) == 3.0
    with pytest.raises(OstlerError, match="used up its cost limit"):
        cost_within(None, [2.0, 0.0])
