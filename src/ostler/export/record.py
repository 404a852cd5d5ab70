"""What is exported: a session with all that happened in it, or a run with the sessions of its nodes. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from ostler.model import AnyEvent, Session, TurnRow
from ostler.pipelines.model import NodeRow, RunRow


class TurnRecord(Struct, frozen=True, kw_only=True):
    """A turn and its journal."""

    row: TurnRow
    events: tuple[AnyEvent, ...] = ()


class SessionRecord(Struct, frozen=True, kw_only=True):
    """A session and its turns, in the order in which they came."""

    row: Session
    turns: tuple[TurnRecord, ...] = ()


class RunRecord(Struct, frozen=True, kw_only=True):
    """A run, its nodes, and the sessions in which they worked, by node."""

    row: RunRow
    nodes: tuple[NodeRow, ...] = ()
    sessions: dict[str, tuple[SessionRecord, ...]] = {}

    def all_sessions(self) -> tuple[SessionRecord, ...]:
        return tuple(each for node in self.nodes for each in self.sessions.get(node.node, ()))


def ndjson(record: SessionRecord | RunRecord) -> Iterator[bytes]:
    """One JSON object a line; its `record` says what it is: run, node, session, turn or event."""
    if isinstance(record, RunRecord):
        yield _line("run", record.row)
        yield from (_line("node", node) for node in record.nodes)
        for session in record.all_sessions():
            yield from ndjson(session)
        return
    yield _line("session", record.row)
    for turn in record.turns:
        yield _line("turn", turn.row)
        yield from (_line("event", event) for event in turn.events)


def _line(record: str, value: Any) -> bytes:
    return msgspec.json.encode({"record": record, **msgspec.to_builtins(value)}) + b"\n"
