"""What a client told of itself: only what it clearly said."""

from typing import Any

import pytest

from ostler.acp.client import AcpClient, client_of


@pytest.mark.parametrize("told", [None, [], {"_meta": None, "session": 3}, {"_meta": {"terminal_output": "yes"}}])
def test_a_client_that_tells_nothing_sensible_has_no_abilities(told: Any) -> None:
    assert client_of(told) == AcpClient()


def test_abilities_of_a_client() -> None:
    told = {"_meta": {"terminal_output": True}, "session": {"notices": {}}}
    assert client_of(told) == AcpClient(terminals=True, notices=True)


@pytest.mark.parametrize(
    ("told", "client"),
    [
        ({"_meta": {"terminal_output": True}}, AcpClient(terminals=True)),
        ({"session": {"notices": {"x": 1}}}, AcpClient(notices=True)),
        ({"session": {"notices": True}}, AcpClient()),
        ({"_meta": {"terminal_output": 1}}, AcpClient()),
        ({"terminal_output": True, "notices": {}}, AcpClient()),
    ],
)
def test_each_ability_stands_in_its_own_place(told: Any, client: AcpClient) -> None:
    assert client_of(told) == client
