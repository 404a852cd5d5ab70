"""What agents offer, each in its own words, as offers of ostler's: once each, in short."""

from collections.abc import Iterable
from itertools import islice

from ostler.agents.values import Record, tables, text
from ostler.model import Offer

MOST = 300  # of a kind
LONGEST = 200  # characters; some describe a command in a page of text


def offers(records: object, id: str, name: str = "name") -> tuple[Offer, ...]:
    """Those of a list of records that have an id; `id` and `name` are the keys under which they say it."""
    return listed((each.get(id), each.get(name), each.get("description")) for each in tables(records))


def listed(found: Iterable[tuple[object, object, object]]) -> tuple[Offer, ...]:
    """Of (id, name, description); what is no text is none."""
    known: dict[str, Offer] = {}
    for id, name, description in islice(found, MOST):
        key, said = text(id), _line(text(name))
        if key and len(key) <= LONGEST:
            known.setdefault(key, Offer(id=key, name="" if said == key else said, description=_line(text(description))))
    return tuple(known.values())


def chosen(option: Record) -> tuple[Offer, ...]:
    """The values of an ACP config option, also those in groups."""
    found: list[Record] = []
    for each in tables(option.get("options")):
        found += tables(each.get("options")) or [each]
    return offers(found, "value")


def _line(said: str) -> str:
    line = " ".join(said.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
