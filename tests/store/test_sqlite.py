"""What the store promises about sessions, turns, journals, owners and notes."""

import asyncio
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.model import EVENT_DECODER, EVENT_ENCODER, Exit, Owner, Raw, TerminalRow, Text, ToolStarted
from ostler.store import Store, schema
from ostler.store.files import turn_folder, write_private


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in [folder, *folder.iterdir()]}


# -- opening ----------------------------------------------------------------------------------------


async def test_everything_is_private_under_umask_000(tmp_path: Path, make: SimpleNamespace) -> None:
    before = os.umask(0)
    try:
        with Store.open(tmp_path / "a" / "state") as store:
            await store.add_session(make.session())
            turn_folder(store.folder, "k3", "t1")
            assert modes(store.folder) == {
                "state": "0o700",
                "ostler.db": "0o600",
                "ostler.db-wal": "0o600",
                "ostler.db-shm": "0o600",
                "sessions": "0o700",
            }
            assert modes(store.folder / "sessions" / "k3") == {"k3": "0o700", "t1": "0o700"}
        assert oct(stat.S_IMODE((tmp_path / "a").stat().st_mode)) == "0o700"
    finally:
        os.umask(before)


async def test_what_was_written_is_there_after_reopening(tmp_path: Path, make: SimpleNamespace) -> None:
    with Store.open(tmp_path / "s") as store:
        await store.add_session(make.session(name="mine"))
        await store.begin_turn(make.row("t1", owner="me"))
        await store.append("k3", make.texts(1, 3))
        written = store.sessions(), store.turns("k3"), store.events("k3")
    with Store.open(tmp_path / "s") as store:
        assert (store.sessions(), store.turns("k3"), store.events("k3")) == written
        assert written[2] == make.texts(1, 3)


def test_a_wide_folder_of_ours_is_tightened_and_another_is_left_alone(tmp_path: Path) -> None:
    Store.open(tmp_path / "ours").close()
    (tmp_path / "ours").chmod(0o755)
    (tmp_path / "ours" / "ostler.db").chmod(0o644)
    Store.open(tmp_path / "ours").close()
    assert modes(tmp_path / "ours") == {"ours": "0o700", "ostler.db": "0o600"}

    other = tmp_path / "other"
    other.mkdir()
    other.chmod(0o755)
    (other / "thesis.tex").write_text("")
    with pytest.raises(OstlerError, match="open to other users") as caught:
        Store.open(other)
    assert caught.value.kind == "store"
    assert modes(other)["other"] == "0o755"


async def test_closing_twice_is_fine_and_using_it_afterwards_is_a_typed_error(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(OstlerError, match="is closed") as read:
        store.sessions()
    with pytest.raises(OstlerError, match="is closed") as write:
        await store.set_note("a", 1)
    assert (read.value.kind, write.value.kind) == ("store", "store")


async def test_a_second_store_in_the_same_process_does_not_disturb_the_first(
    store: Store, make: SimpleNamespace
) -> None:
    await store.add_session(make.session())
    with Store.open(store.folder) as other:
        await asyncio.gather(*(make.bump(s, "n") for s in (store, other) for _ in range(20)))
    assert store.note("n") == 40


async def test_an_older_store_is_brought_to_this_version(
    tmp_path: Path, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "s") as store:
        await store.add_session(make.session())
    monkeypatch.setattr(schema, "VERSIONS", (*schema.VERSIONS, "CREATE TABLE more (x); broken"))
    with pytest.raises(OstlerError) as caught:
        Store.open(tmp_path / "s")
    assert caught.value.kind == "store"
    monkeypatch.setattr(schema, "VERSIONS", (*schema.VERSIONS[:-1], "CREATE TABLE more (x);"))
    with Store.open(tmp_path / "s") as store:  # the failed step has left nothing behind
        assert store.sessions() == [make.session()]
    monkeypatch.undo()
    with pytest.raises(OstlerError, match="newer ostler"):
        Store.open(tmp_path / "s")


# -- sessions ---------------------------------------------------------------------------------------


async def test_sessions_are_found_by_id_name_prefix_and_place(store: Store, make: SimpleNamespace) -> None:
    one = make.session("abc1", name="tidy", used_at=1.0)
    two = make.session("abc2", name="tidy", used_at=3.0, folder="/other")
    three = make.session("tidy", used_at=2.0)
    for each in (one, two, three):
        await store.add_session(each)
    assert store.session("abc1") == one
    assert store.session("abc") is None
    assert store.find("tidy") == [three]  # an id goes before a name
    await store.remove_session("tidy")
    assert store.find("tidy") == [two, one]
    assert store.find("abc") == [two, one]
    assert store.find("abc2") == [two]
    assert store.find("ABC") == store.find("%") == store.find("") == store.find("zzz") == []
    assert store.sessions() == [two, one]


async def test_a_closed_session_takes_no_turn_until_it_is_open_again(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session("b", used_at=2.0))
    closed = await store.change_session("b", state="closed")
    assert closed.state == "closed"
    with pytest.raises(OstlerError, match="closed"):
        await store.begin_turn(make.row("t1", "b"))
    assert (await store.change_session("b", state="idle")).state == "idle"
    assert await store.begin_turn(make.row("t1", "b")) == 1


async def test_names_that_are_not_unicode(store: Store, make: SimpleNamespace) -> None:
    odd = os.fsdecode(b"/w/\xff")
    with pytest.raises(OstlerError) as write:
        await store.add_session(make.session(folder=odd))
    with pytest.raises(OstlerError) as read:
        store.find(odd)
    assert (write.value.kind, read.value.kind) == ("bad_request", "bad_request")


async def test_changing_a_session(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    changed = await store.change_session("k3", name="new", agent_session="x-1", used_at=9.0)
    assert changed == make.session(name="new", agent_session="x-1", used_at=9.0)
    assert store.find("new") == [changed]


@pytest.mark.parametrize("fields", [{"id": "x"}, {"state": "busy"}, {"colour": "red"}])
async def test_what_cannot_be_changed_in_a_session(store: Store, make: SimpleNamespace, fields: dict[str, str]) -> None:
    await store.add_session(make.session())
    with pytest.raises(OstlerError) as caught:
        await store.change_session("k3", **fields)
    assert caught.value.kind == "bad_request"
    assert "colour" not in fields or caught.value.message == "a session has no field colour"
    assert store.sessions() == [make.session()]


async def test_unknown_and_known_ids(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    cases = [
        (store.add_session(make.session()), "exists"),
        (store.change_session("no", name="x"), "not_found"),
        (store.remove_session("no"), "not_found"),
        (store.begin_turn(make.row("t1", "no")), "not_found"),
        (store.queue_turn(make.row("t1", "no")), "not_found"),
        (store.change_turn("no", "running"), "not_found"),
        (store.end_turn("no", last=(), envelope=make.envelope("no")), "not_found"),
        (store.append("no", make.texts(1, 1)), "store"),
    ]
    for call, kind in cases:
        with pytest.raises(OstlerError) as caught:
            await call
        assert caught.value.kind == kind
    assert await store.claim_turn("no", "me") is None
    assert store.turn("no") is store.owner("no") is store.note("no") is None


async def test_a_removed_session_leaves_no_turn_event_or_file(store: Store, make: SimpleNamespace) -> None:
    for id in ("k3", "k4"):
        await store.add_session(make.session(id))
        await store.begin_turn(make.row(f"t-{id}", id))
        write_private(turn_folder(store.folder, id, f"t-{id}") / "prompt.txt", b"hello")
        await store.append(id, make.texts(1, 2, f"t-{id}"))
    with pytest.raises(OstlerError) as caught:
        await store.remove_session("k3")
    assert caught.value.kind == "busy"
    await store.end_turn("t-k3", last=[make.ended(3, "t-k3")], envelope=make.envelope("t-k3"))
    await store.remove_session("k3")
    assert store.session("k3") is store.turn("t-k3") is None
    assert store.events("k3") == store.turns("k3") == []
    assert [path.name for path in (store.folder / "sessions").iterdir()] == ["k4"]
    assert store.last_seq("k4") == 2


async def test_the_last_event_of_a_kind(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session("k3"))
    await store.begin_turn(make.row("t", "k3"))
    await store.append("k3", make.texts(1, 3, "t"))
    assert store.last_event("k3", "text", among=0) is None
    assert store.last_event("k3", "text", among=100) == store.last_event("k3", "text")
    last = store.last_event("k3", "text")
    assert last is not None and last.seq == 3 and last == store.events("k3")[-1]
    assert store.last_event("k3", "tex") is store.last_event("k4", "text") is store.last_event("k3", "ended") is None


# -- turns ------------------------------------------------------------------------------------------


async def test_the_way_of_a_turn(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    assert await store.begin_turn(make.row("t1", owner="me", created_at=7.0)) == 1
    assert store.session("k3") == make.session(state="busy", turns=1, used_at=7.0)
    assert store.turn("t1") == make.row("t1", owner="me", created_at=7.0)
    seen = []
    for state in ("running", "asking", "running"):
        await store.change_turn("t1", state)
        seen.append((store.turn("t1").state, store.session("k3").state))
    assert seen == [("running", "busy"), ("asking", "asking"), ("running", "busy")]

    await store.append("k3", make.texts(1, 2))
    done = await store.end_turn(
        "t1",
        last=[make.ended(3)],
        envelope=make.envelope("t1", structured={"a": [1, None]}),
        counters={"cost_usd": 0.25},
        session_changes={"agent_session": "x-9", "cost_usd": 0.25},
    )
    assert done == store.session("k3") == make.session(turns=1, used_at=7.0, agent_session="x-9", cost_usd=0.25)
    row = store.turn("t1")
    assert row == make.row(
        "t1",
        owner="me",
        created_at=7.0,
        state="ended",
        ended_at=row.ended_at,
        envelope=make.envelope("t1", structured={"a": [1, None]}),
        counters={"cost_usd": 0.25},
    )
    assert row.ended_at > 7.0
    assert store.events("k3") == [*make.texts(1, 2), make.ended(3)]
    assert store.running_turns() == []


async def test_a_turn_runs_with_its_first_events_or_neither(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1"))
    with pytest.raises(OstlerError):
        await store.append_first("t1", "k3", [*make.texts(1, 2), *make.texts(2, 1)])  # a seq that is taken
    assert (store.turn("t1").state, store.events("k3")) == ("starting", [])
    await store.append_first("t1", "k3", make.texts(1, 2))
    assert (store.turn("t1").state, store.events("k3")) == ("running", make.texts(1, 2))


async def test_a_turn_ends_once(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1"))
    ends = await asyncio.gather(
        *(store.end_turn("t1", last=[make.ended(1)], envelope=make.envelope("t1", text=f"by {n}")) for n in range(5))
    )
    assert ends == [make.session(turns=1, used_at=ends[0].used_at), None, None, None, None]
    assert store.turn("t1").envelope == make.envelope("t1", text="by 0")
    assert store.events("k3") == [make.ended(1)]
    with pytest.raises(OstlerError) as caught:
        await store.change_turn("t1", "running")
    assert caught.value.kind == "bad_request"


async def test_what_a_turn_cost_is_added_to_what_the_session_has_cost_by_then(
    store: Store, make: SimpleNamespace
) -> None:
    await store.add_session(make.session())
    costs = []
    for n, cost in enumerate((None, 0.0, 0.5, None, 0.25)):
        await store.begin_turn(make.row(f"t{n}"))
        after = await store.end_turn(f"t{n}", last=(), envelope=make.envelope(f"t{n}", cost_usd=cost))
        costs.append(after.cost_usd if after else -1)
    assert costs == [None, 0.0, 0.5, 0.5, 0.75]


async def test_an_end_that_fails_leaves_the_turn_as_it_was(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1"))
    await store.append("k3", make.texts(1, 1))
    with pytest.raises(OstlerError) as caught:
        await store.end_turn("t1", last=[make.ended(2), make.ended(1)], envelope=make.envelope("t1"))
    assert caught.value.kind == "store"
    assert (store.turn("t1").state, store.session("k3").state) == ("starting", "busy")
    assert store.events("k3") == make.texts(1, 1)
    assert await store.end_turn("t1", last=[make.ended(2)], envelope=make.envelope("t1"))


async def test_a_second_prompt_is_busy_or_queued(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1"))
    with pytest.raises(OstlerError) as caught:
        await store.begin_turn(make.row("t2"))
    assert (caught.value.kind, caught.value.message) == ("busy", "session k3 is busy")
    await store.rename_session("k3", "hay")
    with pytest.raises(OstlerError, match="session hay is busy"):
        await store.begin_turn(make.row("t2"))
    await store.queue_turn(make.row("t2", owner="waits"))
    await store.queue_turn(make.row("t3"))
    assert [(turn.id, turn.state) for turn in store.running_turns()] == [
        ("t1", "starting"),
        ("t2", "queued"),
        ("t3", "queued"),
    ]
    assert await store.claim_turn("t2", "me") is None  # t1 runs
    assert store.next_turn("k3") == "t1"
    await store.append("k3", make.texts(1, 4))
    await store.end_turn("t1", last=[make.ended(5)], envelope=make.envelope("t1"))
    assert store.session("k3").state == "queued"
    with pytest.raises(OstlerError) as caught:
        await store.begin_turn(make.row("t4"))  # nobody overtakes the queue
    assert caught.value.kind == "busy"
    assert await store.claim_turn("t3", "me") is None  # t2 is older
    assert (store.next_turn("k3"), store.next_turn("nobody")) == ("t2", None)
    assert await store.claim_turn("t2", "me") == 6
    assert await store.claim_turn("t2", "me") is None
    assert (store.turn("t2").state, store.turn("t2").owner) == ("starting", "me")
    assert (store.session("k3").state, store.session("k3").turns) == ("busy", 2)
    assert store.last_ended("k3").id == "t1"


async def test_a_queued_turn_is_kept_as_it_is_when_it_begins(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.queue_turn(make.row("t1"))
    now = replace(make.row("t1").turn, tools_denied=("web",))
    with pytest.raises(OstlerError) as caught:
        await store.renew_turn(now)
    assert caught.value.kind == "bad_request"
    assert await store.claim_turn("t1", "me") == 1
    await store.renew_turn(now)
    assert store.turn("t1").turn == now
    with pytest.raises(OstlerError) as caught:
        await store.renew_turn(replace(now, id="nobody"))
    assert caught.value.kind == "not_found"


async def test_a_queued_turn_can_be_given_up(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.queue_turn(make.row("t1"))
    await store.queue_turn(make.row("t2"))
    assert store.session("k3").state == "queued"
    gone = make.envelope("t1", status="error", outcome="cancelled")
    assert await store.end_turn("t1", last=(), envelope=gone)
    assert await store.claim_turn("t2", "me") == 1
    assert await store.claim_turn("t1", "me") is None


# -- journals ---------------------------------------------------------------------------------------


async def test_reading_a_journal_in_parts(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    assert (store.events("k3"), store.last_seq("k3")) == ([], 0)
    await store.begin_turn(make.row("t1"))
    await store.append("k3", make.texts(1, 5, "t1"))
    await store.end_turn("t1", last=[make.ended(6, "t1")], envelope=make.envelope("t1"))
    await store.begin_turn(make.row("t2"))
    await store.append("k3", make.texts(7, 3, "t2"))
    whole = [*make.texts(1, 5, "t1"), make.ended(6, "t1"), *make.texts(7, 3, "t2")]
    assert store.events("k3") == whole
    assert store.events("k3", after=4) == whole[4:]
    assert store.events("k3", after=4, limit=2) == whole[4:6]
    assert store.events("k3", limit=0) == []
    assert store.events("k3", turn="t2") == whole[6:]
    assert store.events("k3", turn="t1", after=5) == [make.ended(6, "t1")]
    assert store.events("k3", turn="none") == []
    assert store.last_seq("k3") == 9


async def test_events_are_stored_as_their_json_and_come_back_equal(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    events = [
        ToolStarted(seq=1, id="x", name="Bash", input={"command": "echo 'ü \U0001f40e \0'", "n": [1, 2.5, None]}),
        Raw(seq=2, line="\x1b[31m" + "x" * 300_000),
    ]
    await store.append("k3", events)
    assert store.events("k3") == events == [EVENT_DECODER.decode(EVENT_ENCODER.encode(event)) for event in events]


@pytest.mark.parametrize("seqs", [[1], [3, 2], [4, 4], [0], [-1]])
async def test_a_seq_that_is_taken_or_not_given_is_an_error_and_nothing_is_added(
    store: Store, make: SimpleNamespace, seqs: list[int]
) -> None:
    await store.add_session(make.session())
    await store.append("k3", make.texts(1, 2))
    with pytest.raises(OstlerError) as caught:
        await store.append("k3", [Text(seq=seq, text="again") for seq in seqs])
    assert caught.value.kind == "store"
    assert store.events("k3") == make.texts(1, 2)


@pytest.mark.parametrize("value", ["\ud800", object()])
async def test_what_cannot_be_encoded_is_a_typed_error(store: Store, make: SimpleNamespace, value: object) -> None:
    await store.add_session(make.session())
    with pytest.raises(OstlerError) as caught:
        await store.append("k3", [Raw(seq=1, record=value)])
    assert caught.value.kind == "store"


async def test_a_wrong_write_in_a_batch_hurts_no_other(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    good = [store.append("k3", make.texts(seq, 1)) for seq in range(1, 200)]
    bad = [store.append("k3", make.texts(1, 1)) for _ in range(50)]
    calls = [call for pair in zip(good, [*bad, *[None] * 149], strict=True) for call in pair if call]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [OstlerError] * 50
    assert store.events("k3") == make.texts(1, 199)


async def test_a_cancelled_write_is_committed_nevertheless(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    tasks = [asyncio.ensure_future(store.append("k3", make.texts(seq, 1))) for seq in range(1, 51)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.append("k3", make.texts(51, 1))
    assert store.events("k3") == make.texts(1, 51)


@pytest.mark.parametrize("early", [True, False])
async def test_who_waits_for_a_turns_write_hears_of_a_cancel_once_it_is_settled(
    store: Store, make: SimpleNamespace, early: bool
) -> None:
    """So that the canceller can tell whether the turn has begun. `early`: the cancel comes before the wait."""
    await store.add_session(make.session())
    seen: list[bool] = []

    async def begin() -> None:
        try:
            await store.begin_turn(make.row("t", "k3"))
        except asyncio.CancelledError:
            seen.append(store.turn("t") is not None)
            raise

    task = asyncio.create_task(begin())
    if not early:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ([] if early else [True])  # one that never began to run has written nothing
    assert (store.turn("t") is None) is early


async def test_a_cancelled_write_that_failed_says_so(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.append("k3", make.texts(1, 1))
    writing = store.append("k3", make.texts(1, 1))

    async def wait() -> None:
        await writing

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert writing.done() and isinstance(writing.exception(), OstlerError)


# -- owners, notes, changes -------------------------------------------------------------------------


async def test_owners(store: Store) -> None:
    one = Owner(id="a", pid=1, start_time=2, boot_id="b", socket="/s", role="run", started_at=3.0)
    two = replace(one, id="b", role="up")
    await store.add_owner(two)
    await store.add_owner(one)
    assert store.owners() == [one, two]
    await store.add_owner(replace(one, pid=9))
    assert store.owner("a") == replace(one, pid=9)
    await store.remove_owner("a")
    assert store.owners() == [two]


async def test_notes_and_counts(store: Store, make: SimpleNamespace) -> None:
    await store.set_note("probe", {"claude": ["2.1", None]})
    await store.set_note("trust", "abc")
    assert (store.note("probe"), store.note("trust"), store.note("none")) == ({"claude": ["2.1", None]}, "abc", None)
    assert await asyncio.gather(*(make.bump(store, "launches") for _ in range(10))) == list(range(1, 11))
    assert store.note("launches") == 10


async def test_data_version_tells_every_commit_and_nothing_else(store: Store, make: SimpleNamespace) -> None:
    before = store.data_version()
    assert store.data_version() == before
    await store.add_session(make.session())
    after = store.data_version()
    assert after != before
    assert (store.sessions(), store.data_version()) == ([make.session()], after)
    with Store.open(store.folder) as other:
        await other.append("k3", make.texts(1, 1))
    assert store.events("k3") == make.texts(1, 1)  # reading first does not hide the change
    assert store.data_version() != after


def test_one_store_serves_several_loops(store: Store, make: SimpleNamespace) -> None:
    assert [asyncio.run(make.bump(store, "n")) for _ in range(3)] == [1, 2, 3]


# -- what is written soon ---------------------------------------------------------------------------


def turn_terminal(id: str = "t-1") -> TerminalRow:
    return TerminalRow(id=id, session="k3", name="turn 1", source="turn", cols=80, rows=24, created_at=1.0)


async def test_the_terminal_of_a_turn_is_written_with_what_comes_next(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    adding = store.add_turn_terminal(turn_terminal())
    await store.append("k3", make.texts(1, 1))
    assert [row.id for row in store.terminals()] == ["t-1"]  # before what was written after it
    await adding
    await store.add_turn_terminal(turn_terminal("t-2"))  # with nothing after it, too
    assert {row.id for row in store.terminals()} == {"t-1", "t-2"}


async def test_what_is_to_be_written_soon_is_not_lost_by_a_close(tmp_path: Path, make: SimpleNamespace) -> None:
    store = Store.open(tmp_path / "other")
    await store.add_session(make.session())
    adding = store.add_turn_terminal(turn_terminal())
    store.close()
    await adding
    with Store.open(tmp_path / "other") as again:
        assert [row.id for row in again.terminals()] == ["t-1"]
    with pytest.raises(OstlerError, match="is closed"):
        store.add_turn_terminal(turn_terminal("t-2"))


async def test_a_terminal_that_cannot_be_added_fails_alone(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    refused = store.add_turn_terminal(replace(turn_terminal(), session="no"))
    await store.append("k3", make.texts(1, 1))
    with pytest.raises(OstlerError, match="no session"):
        await refused
    assert (store.terminals(), store.events("k3")) == ([], make.texts(1, 1))


async def test_a_turn_and_its_terminal_end_in_one_commit(store: Store, make: SimpleNamespace) -> None:
    await store.add_session(make.session())
    await store.begin_turn(make.row("t1"))
    await store.add_turn_terminal(turn_terminal())
    known = {"exit": Exit(code=0), "ended_at": 5.0, "size": 7}
    with pytest.raises(OstlerError):  # a seq that is taken twice: neither is written
        await store.end_turn(
            "t1", last=[make.ended(1), make.ended(1)], envelope=make.envelope("t1"), terminal=("t-1", known)
        )
    row = store.terminal("t-1")
    assert row is not None and row.state == "live"
    assert await store.end_turn("t1", last=[make.ended(1)], envelope=make.envelope("t1"), terminal=("t-1", known))
    assert store.terminal("t-1") == replace(row, state="ended", **known)
