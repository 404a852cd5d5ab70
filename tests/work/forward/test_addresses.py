"""Which addresses may be posted to."""

import pytest

from ostler.work.forward.addresses import refusal


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"])
def test_addresses_of_the_world_may(address: str) -> None:
    assert refusal([address], False) == ""


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "fc00::1", "::ffff:10.0.0.1"]
)
def test_private_ones_may_where_that_is_said(address: str) -> None:
    assert refusal([address], False) != ""
    assert refusal([address], True) == ""


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "::ffff:169.254.169.254", "fe80::1%eth0", "fd00:ec2::254", "0.0.0.0", "::", "224.0.0.1"),
        *("ff02::1", "255.255.255.255", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "nonsense"),
    ],
)
def test_some_never_may(address: str) -> None:
    assert refusal([address], True) != ""


def test_one_that_may_not_is_enough() -> None:
    assert refusal(["93.184.216.34", "10.0.0.1"], False) == "10.0.0.1 is a private address"
    assert refusal([], True) == "it has no address"
