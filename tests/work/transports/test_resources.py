"""Each transport is made in one place."""

from typing import get_args

from ostler.work.transports.facts import AnyTransport
from ostler.work.transports.resources import TRANSPORTS


def test_each_that_has_a_name_can_be_made() -> None:
    names = {name for each in get_args(AnyTransport) for name in (get_args(each) or (each,))}
    assert {*TRANSPORTS} == names
