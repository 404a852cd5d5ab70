"""What a path is about."""

import pytest

from ostler.server.addressing import Address, address_of, named_machine, session_in_query, target_of


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/api/sessions/k3pq", Address("session", "k3pq", "/api/sessions/", "")),
        ("/api/sessions/k3pq/", Address("session", "k3pq", "/api/sessions/", "")),
        ("/api/sessions/k3@hawk/turns", Address("session", "k3@hawk", "/api/sessions/", "/turns")),
        ("/api/turns/k3-1/artifacts/diff", Address("turn", "k3-1", "/api/turns/", "/artifacts/diff")),
        ("/api/terminals/t-1/ws", Address("terminal", "t-1", "/api/terminals/", "/ws")),
        ("/api/runs/r1/nodes/a", Address("run", "r1", "/api/runs/", "/nodes/a")),
        ("/api/sessions", None),
        ("/api/sessions/", None),
        ("/api/agents/x", None),
        ("/x/sessions/k3", None),
        ("/", None),
    ],
)
def test_address_of(path: str, address: Address | None) -> None:
    assert address_of(path) == address
    if address is not None:
        assert address.with_key(address.key) == path.rstrip("/")


def test_a_machine_is_named_in_the_query_where_that_is_meant() -> None:
    assert named_machine("/api/sessions", "machine=hawk&limit=5") == ("hawk", "limit=5")
    assert named_machine("/api/folders", "at=%2Fa+b&machine=h%20k") == ("h k", "at=%2Fa+b")
    assert named_machine("/api/agents", "") == ("", "")
    for path in ("/api/login", "/api/links", "/api/live", "/api/me", "/", "/healthz"):
        assert named_machine(path, "machine=hawk") == ("", "machine=hawk")


def test_the_session_whose_terminals_are_listed() -> None:
    assert session_in_query("/api/terminals", "live=true&session=k3") == "k3"
    assert session_in_query("/api/terminals", "") == session_in_query("/api/sessions", "session=k3") == ""


def test_target_of() -> None:
    assert target_of("/api/sessions/ä b?c", "x=1") == "/api/sessions/%C3%A4%20b%3Fc?x=1"
    assert target_of("/api/sessions/k3@hawk", "") == "/api/sessions/k3@hawk"
