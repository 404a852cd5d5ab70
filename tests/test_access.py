from typing import get_args

from ostler.access import ACCESS_ORDER, Access, narrowest, suffices, widest
from ostler.testing.scenario import ACCESS_LEVELS


def test_each_access_includes_those_before_it() -> None:
    allowed = {access: [needed for needed in ACCESS_ORDER if suffices(access, needed)] for access in ACCESS_ORDER}
    assert allowed == {"read": ["read"], "write": ["read", "write"], "full": ["read", "write", "full"]}


def test_accesses_from_narrow_to_wide() -> None:
    assert ACCESS_ORDER == get_args(Access) == ACCESS_LEVELS == ("read", "write", "full")


def test_the_narrowest_and_the_widest() -> None:
    some: list[list[Access]] = [["read"], ["read", "full", "write"], ["write", "read"]]
    assert [narrowest(each) for each in some] == ["read", "read", "read"]
    assert [widest(each) for each in [*some, []]] == ["read", "full", "write", "full"]
