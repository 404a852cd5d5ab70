from typing import get_args

from ostler.access import ACCESS_ORDER, Access, suffices


def test_each_access_includes_those_before_it() -> None:
    allowed = {access: [needed for needed in ACCESS_ORDER if suffices(access, needed)] for access in ACCESS_ORDER}
    assert allowed == {"read": ["read"], "write": ["read", "write"], "full": ["read", "write", "full"]}


def test_accesses_from_narrow_to_wide() -> None:
    assert ACCESS_ORDER == get_args(Access) == ("read", "write", "full")
