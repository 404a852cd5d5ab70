"""What a path is about, so that the machine that has it can be found."""

from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

AddressKind = Literal["session", "turn", "terminal", "run"]
_KINDS: dict[str, AddressKind] = {"sessions": "session", "turns": "turn", "terminals": "terminal", "runs": "run"}
# What `?machine=` sends elsewhere. Logins, links and live views are always those of the machine that was asked.
_OF_MACHINE = ("agents", "folders", "pipelines", "queue", "runs", "sessions", "terminals", "uploads")


class Address(NamedTuple):
    """A session, turn, terminal or run in a path: `before` + `key` + `after`."""

    kind: AddressKind
    key: str
    before: str
    after: str

    def with_key(self, key: str) -> str:
        return f"{self.before}{key}{self.after}"


def address_of(path: str) -> Address | None:
    """None: it is about no single one of them."""
    parts = path.rstrip("/").split("/")
    if len(parts) < 4 or parts[1] != "api" or parts[2] not in _KINDS:
        return None
    before = "/".join(parts[:3]) + "/"
    return Address(_KINDS[parts[2]], parts[3], before, "".join(f"/{part}" for part in parts[4:]))


def named_machine(path: str, query: str) -> tuple[str, str]:
    """The machine that `?machine=` names, and the rest of the query; "" where it names none."""
    parts = path.split("/")
    if len(parts) < 3 or parts[1] != "api" or parts[2] not in _OF_MACHINE or "machine=" not in query:
        return "", query
    given = parse_qsl(query, keep_blank_values=True)
    name = next((value for key, value in given if key == "machine"), "")
    return name, urlencode([pair for pair in given if pair[0] != "machine"])


def session_in_query(path: str, query: str) -> str:
    """The session whose terminals are listed; "" if those of all are."""
    if path.rstrip("/") != "/api/terminals":
        return ""
    return dict(parse_qsl(query)).get("session", "")


def target_of(path: str, query: str) -> str:
    """As it is written in a request."""
    quoted = quote(path, safe="/:@!$&'()*+,;=-._~")
    return f"{quoted}?{query}" if query else quoted
