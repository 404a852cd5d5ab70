"""Sessions and turns as they are told, out of a real store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.model import Asked, Attachment, Envelope, Problem, Session, TerminalRow, Text, Turn, TurnRow, Usage
from ostler.server.views import AttachedView, Now, SessionView, TurnView, now_of, session_view, session_views, turn_view
from ostler.store import Store
from ostler.store.watch import StoreWatch

TURN = Turn(id="t1", session="k3", agent="script", prompt="do it", folder="/w", access="write", model="asked-for")


def session(id: str = "k3", **fields: Any) -> Session:
    return Session(**{"id": id, "agent": "script", "folder": "/w", "created_at": 1.0, "used_at": 1.0, **fields})


def row(id: str = "t1", session: str = "k3", **fields: Any) -> TurnRow:
    turn = structs.replace(TURN, id=id, session=session)
    return TurnRow(**{"id": id, "session": session, "state": "running", "turn": turn, "created_at": 2.0, **fields})


def envelope(**fields: Any) -> Envelope:
    plain = {"status": "error", "outcome": "failed", "summary": "s", "text": "t", "agent": "script"}
    about = {"served_by": "script", "turn": "t1", "session": "k3", "started_at": 2.0, "duration_ms": 5}
    return Envelope(**{**plain, **about, **fields})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state", timeout=5) as store:
        yield store


@pytest.fixture
def watch(store: Store) -> Iterator[StoreWatch]:
    watch = store.watch()
    yield watch
    watch.close()


# -- turns ------------------------------------------------------------------------------------------

RUNNING = TurnView(
    id="t1", session="k3", number=1, state="running", created_at=2.0, prompt="do it", access="write", model="asked-for"
)


def test_a_turn_that_runs() -> None:
    assert turn_view(row(), 1) == RUNNING


def test_a_turn_that_has_ended() -> None:
    problem, usage = Problem(kind="limited", message="slow down"), Usage(input_tokens=5)
    ended = envelope(
        error=problem, usage=usage, cost_usd=0.5, artifacts={"stdout": "/b", "diff": "/a"}, evidence=("e",), model="m"
    )
    assert turn_view(row(state="ended", ended_at=9.0, envelope=ended), 1) == structs.replace(
        RUNNING,
        state="ended",
        ended_at=9.0,
        outcome="failed",
        error=problem,
        summary="s",
        usage=usage,
        cost_usd=0.5,
        duration_ms=5,
        artifacts=("diff", "stdout"),  # names alone: paths are the server's
        evidence=("e",),
        model="m",
    )
    assert turn_view(row(envelope=envelope(model=None)), 1).model == "asked-for"


def test_what_went_with_a_prompt_is_told_by_name() -> None:
    files = (
        Attachment(path="/up/a.png", name="a.png", image=True),
        Attachment(path="/w/b.txt"),
        Attachment(name="c", content="x"),
    )
    view = turn_view(row(turn=structs.replace(TURN, attachments=files)), 1)
    assert view.attachments == (
        AttachedView(name="a.png", image=True),
        AttachedView(name="b.txt"),
        AttachedView(name="c"),
    )


@pytest.mark.parametrize(("longest", "prompt"), [(None, "do it"), (5, "do it"), (4, "do …"), (1, "…")])
def test_a_prompt_beside_something_else_is_cut(longest: int | None, prompt: str) -> None:
    assert turn_view(row(), 1, longest).prompt == prompt


# -- sessions ---------------------------------------------------------------------------------------


def terminal(id: str, at: float, **fields: Any) -> TerminalRow:
    about = {"session": "k3", "name": id, "source": "pty", "cols": 80, "rows": 24, "created_at": at}
    return TerminalRow(**{"id": id, **about, **fields})


async def test_a_session_without_anything(store: Store, watch: StoreWatch) -> None:
    await store.add_session(session())
    plain = structs.asdict(session())
    assert session_view(watch, session()) == SessionView(
        **plain, turn=None, doing="", queued=0, live_terminals=0, ask=None, asks=0, primary_terminal=None
    )


async def test_a_session_that_works_and_asks(store: Store, watch: StoreWatch) -> None:
    await store.add_session(session())
    await store.begin_turn(row())
    asked = Asked(seq=2, at=2.0, turn="t1", id="q", tool="Bash", input={"command": "ls"})
    await store.append("k3", [Text(seq=1, at=1.0, turn="t1", text="I look around"), asked])
    assert now_of(watch, session(state="busy")).doing == "asks whether it may use Bash"
    asking = session_view(watch, session(state="asking"))
    assert asking.ask is not None and (asking.ask.id, asking.ask.title, asking.asks) == ("q", "ls", 1)
    assert asking.turn == structs.replace(RUNNING, state="starting")
    for state in ("idle", "queued", "closed"):
        assert now_of(watch, session(state=state)) == Now()  # what an older turn said is over


async def test_the_terminal_to_follow(store: Store, watch: StoreWatch) -> None:
    await store.add_session(session())
    await store.add_terminal(terminal("old", 1.0))
    await store.add_terminal(terminal("new", 2.0))
    for primary, followed in ((None, "new"), ("old", "old"), ("gone", "new")):
        view = session_view(watch, session(primary=primary))
        assert (view.primary_terminal, view.live_terminals) == (followed, 2)
    await store.end_terminal("old")
    assert session_view(watch, session(primary="old")).primary_terminal == "new"


async def test_many_keep_their_order(store: Store, watch: StoreWatch) -> None:
    rows = [session(id) for id in ("b", "a", "c")]
    for each in rows:
        await store.add_session(each)
    await store.begin_turn(row("ta", "a"))
    await store.queue_turn(row("tq", "a", state="queued"))
    views = session_views(watch, rows)
    assert [(view.id, view.turn and view.turn.id, view.queued) for view in views] == [
        ("b", None, 0),
        ("a", "ta", 1),
        ("c", None, 0),
    ]
    assert session_views(watch, []) == []
