"""Which sessions of a list somebody wants."""

from typing import Any

from ostler.model import Session
from ostler.work.sessions.filters import chosen_sessions, is_within, mentions


def session(id: str, **fields: Any) -> Session:
    return Session(**{"id": id, "agent": "claude", "folder": "/w", "created_at": 0.0, "used_at": 0.0, **fields})


def test_folder_text_agent_and_state() -> None:
    rows = [
        session("a", title="Sort the Hay"),
        session("b", folder="/w/barn", agent="codex", profile="reviewer", state="busy"),
        session("c", folder="/wide", name="hayfork", state="closed"),
    ]

    def ids(**wanted: Any) -> str:
        return "".join(row.id for row in chosen_sessions(rows, **wanted))

    assert (ids(), ids(folder="/w"), ids(folder="/w/barn"), ids(folder="/")) == ("abc", "ab", "b", "abc")
    assert (ids(text="hay"), ids(text="BARN"), ids(text="c")) == ("ac", "b", "abc")
    assert (ids(agent="claude"), ids(agent="reviewer"), ids(agent="clau")) == ("ac", "b", "")
    assert (ids(states=["busy", "closed"]), ids(states=["idle"], text="hay", folder="/w")) == ("bc", "a")
    assert mentions(rows[0], "") and is_within(rows[0], None) and not is_within(rows[2], "/w")
