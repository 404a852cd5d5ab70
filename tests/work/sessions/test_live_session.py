"""Sessions: found, continued, forked, queued, adopted."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import ostler
from ostler.errors import OstlerError
from ostler.model import Ended, Exit, Text, TurnRow
from ostler.process import tree
from ostler.store import Store
from waiting import until
from work.scripted import Stable, collect


async def test_a_session_resumes_in_another_process_with_the_agents_own_id(stable: Stable) -> None:
    stable.script.plays({"match": "remember", "steps": [{"say": "noted"}]}, {"steps": [{"history": True}]})
    async with stable.ostler() as o:
        first = await o.session("script", folder=str(stable.folder), name="barn")
        await collect(first, "remember hay")
    async with stable.ostler() as o:
        again = await o.session(session="barn")
        await collect(again, "what was it?")
        assert again.id == first.id
        assert again.last.ok and "remember hay" in again.last.text
        assert again.last.agent_session == first.last.agent_session == again.row.agent_session
        assert again.row.turns == 2 and again.row.title == "remember hay"
        assert [e.seq for e in o.events(again.id)] == list(range(1, len(o.events(again.id)) + 1))


async def test_a_crash_keeps_the_conversation(stable: Stable) -> None:
    stable.script.plays({"match": "one", "steps": [{"say": "hm"}, {"crash": "KILL"}]}, {"steps": [{"history": True}]})
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "one")
        assert session.last.outcome == "crashed" and session.row.agent_session
        await collect(session, "two")
        assert session.last.ok and "one" in session.last.text


async def test_a_stranger_who_answers_a_resume_is_not_taken_for_the_conversation(stable: Stable) -> None:
    stable.script.plays(
        {"turn": 1, "steps": [{"say": "hello"}]},
        {"turn": 2, "session": "11111111-2222-4333-8444-555555555555", "steps": [{"say": "who are you?"}]},
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "one")
        own = session.row.agent_session
        await collect(session, "two")
        assert (session.last.status, session.last.error.kind) == ("error", "not_found")
        assert session.row.agent_session == own


async def test_fork_begins_as_a_copy_and_goes_its_own_way(stable: Stable) -> None:
    stable.script.plays({"match": "root", "steps": [{"say": "ok"}]}, {"steps": [{"history": True}]})
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "root")
        fork = await session.fork(name="branch")
        await collect(fork, "leaf")
        assert fork.last.ok and "root" in fork.last.text
        assert fork.row.agent_session != session.row.agent_session
        await collect(session, "again")
        assert "leaf" not in session.last.text


async def test_a_busy_session_refuses_a_second_prompt_and_queues_it_when_asked(stable: Stable) -> None:
    gate = stable.folder / "gate"
    stable.script.plays({"match": "first", "steps": [{"wait_for": str(gate)}, {"say": "1"}]}, {"steps": [{"say": "2"}]})
    async with stable.ostler() as o, stable.ostler() as other:
        session = await o.session("script", folder=str(stable.folder))
        first = asyncio.create_task(collect(session, "first"))
        await until(lambda: o.store.session(session.id) and o.store.session(session.id).state == "busy")
        rival = await other.session(session=session.id)
        with pytest.raises(OstlerError) as caught:
            await collect(rival, "second")
        assert caught.value.kind == "busy"
        second = asyncio.create_task(collect(rival, "second", wait=True))
        await until(lambda: len(o.store.turns(session.id)) == 2)
        gate.touch()
        await asyncio.gather(first, second)
        assert (session.last.text, rival.last.text) == ("1", "2")
        turns = [e.turn for e in o.events(session.id)]
        assert turns == sorted(turns, key=turns.index), "the turns never interleave"
        assert o.store.session(session.id).state == "idle"


async def test_a_queued_turn_can_be_cancelled(stable: Stable) -> None:
    gate = stable.folder / "gate"
    stable.script.plays([{"wait_for": str(gate)}, {"say": "1"}])
    async with stable.ostler() as o, stable.ostler() as other:
        session = await o.session("script", folder=str(stable.folder))
        first = asyncio.create_task(collect(session, "first"))
        await until(lambda: o.store.session(session.id) and o.store.session(session.id).state == "busy")
        rival = await other.session(session=session.id)
        second = asyncio.create_task(collect(rival, "second", wait=True))
        await until(lambda: len(o.store.turns(session.id)) == 2)
        other.turns.cancel(o.store.turns(session.id)[1].id)
        with pytest.raises(OstlerError) as caught:
            await second
        assert caught.value.kind == "cancelled"
        gate.touch()
        await first
        assert session.last.ok
        assert [row.envelope.outcome for row in o.store.turns(session.id)] == ["done", "cancelled"]
        assert o.store.session(session.id).state == "idle"


async def test_a_turn_can_be_cancelled_while_it_is_prepared(stable: Stable, tmp_path: Path) -> None:
    """Its agent is just being asked for its version, and takes its time."""
    asked = tmp_path / "asked"
    slow = tmp_path / "slow.py"
    slow.write_text(f"import pathlib, time\npathlib.Path({str(asked)!r}).touch()\ntime.sleep(600)\n")
    config = stable.home / ".config" / "ostler"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"[commands]\nscript = {json.dumps([sys.executable, str(slow)])}\n")
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        task = asyncio.create_task(collect(session, "go"))
        await until(asked.exists)
        await session.cancel()
        with pytest.raises(OstlerError, match="cancelled") as raised:
            await task
        assert raised.value.kind == "cancelled"
        assert o.sessions() == [] and session.last is None
        await session.cancel()  # there is nothing to cancel any more
    assert [pid for pid in tree.processes() if str(slow) in tree.command(pid)] == []


async def test_a_turn_can_be_cancelled_from_the_moment_it_is_stored(stable: Stable) -> None:
    """Another process sees the row, and asks for a cancel before the turn has begun to run."""
    stable.script.plays([{"say": "working"}, {"wait_for": str(stable.folder / "never")}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        begin = o.store.begin_turn

        async def watched(row: TurnRow, *gate: object) -> int | None:
            seq = await begin(row, *gate)
            assert o.turns.cancel(row.id)
            return seq

        o.store.begin_turn = watched
        events = await collect(session, "go")
        assert session.last and (session.last.outcome, session.last.error and session.last.error.kind) == (
            "cancelled",
            "cancelled",
        )
        assert isinstance(events[-1], Ended) and stable.script.launches == []
        assert not o.turns.cancel(session.last.turn)


async def test_a_caller_that_is_cancelled_while_the_turn_is_stored_leaves_no_turn_running(stable: Stable) -> None:
    """What the writer was given is committed whoever waits for it."""
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        begin = o.store.begin_turn
        stored = asyncio.Event()

        async def slow(row: TurnRow, *gate: object) -> int | None:
            seq = await begin(row, *gate)
            stored.set()
            await asyncio.sleep(0.05)
            return seq

        o.store.begin_turn = slow
        task = asyncio.create_task(collect(session, "go"))
        await stored.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert o.store.running_turns() == [] and o.find(session.id).state == "idle"
        (turn,) = o.store.turns(session.id)
        assert turn.envelope and turn.envelope.outcome == "cancelled"
        assert [type(e) for e in o.events(session.id)] == [Ended]


async def test_continue_finds_the_latest_of_agent_and_folder(stable: Stable) -> None:
    async with stable.ostler() as o:
        with pytest.raises(OstlerError) as caught:
            await o.session(folder=str(stable.folder), resume_last=True)
        assert caught.value.kind == "not_found"
        old = await o.session("script", folder=str(stable.folder))
        await collect(old, "[[say:a]]")
        new = await o.session("claude", folder=str(stable.folder))
        await collect(new, "[[say:b]]")
        assert (await o.session(folder=str(stable.folder), resume_last=True)).id == new.id
        assert (await o.session("script", folder=str(stable.folder), resume_last=True)).id == old.id


async def test_which_session_is_meant(stable: Stable, tmp_path: Path) -> None:
    async with stable.ostler() as o:
        one = await o.session("script", folder=str(stable.folder), name="barn")
        await collect(one, "[[say:a]]")
        assert o.find("barn").id == o.find(one.id).id == o.find(one.id[:3]).id == one.id
        for key, kind in (("nobody", "not_found"), ("", "not_found")):
            with pytest.raises(OstlerError) as caught:
                o.find(key)
            assert caught.value.kind == kind
        with pytest.raises(OstlerError) as caught:
            await o.session("script", folder=str(stable.folder), name="barn")
        assert caught.value.kind == "exists"
        (tmp_path / "elsewhere").mkdir()
        with pytest.raises(OstlerError) as caught:
            await o.session(session="barn", folder=str(tmp_path / "elsewhere"))
        assert caught.value.kind == "bad_request" and str(stable.folder) in caught.value.message
        with pytest.raises(OstlerError) as caught:
            await o.session("claude", session="barn")
        assert caught.value.kind == "bad_request"


@pytest.mark.parametrize("what", ["missing", "a file"])
async def test_folders_that_are_none(stable: Stable, tmp_path: Path, what: str) -> None:
    path = tmp_path / "there"
    if what == "a file":
        path.write_text("")
    async with stable.ostler() as o:
        with pytest.raises(OstlerError) as caught:
            await o.session("script", folder=str(path))
    assert caught.value.kind == ("not_found" if what == "missing" else "bad_request")
    assert str(path) in caught.value.message


async def test_a_scripted_session_is_never_resumed_by_a_real_agent(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("claude", folder=str(stable.folder))
        await collect(session, "[[say:hi]]")
        assert session.last.served_by == "script" and session.last.agent == "claude"
        assert o.find(session.id).served_by == "script"
    async with stable.ostler(OSTLER_ONLY="") as o:
        with pytest.raises(OstlerError) as caught:
            await collect(await o.session(session=session.id), "more")
        assert caught.value.kind == "denied"
        assert caught.value.message == f"session {session.id} was served by script, not by claude"


async def test_a_conversation_of_the_cli_is_adopted(stable: Stable) -> None:
    stable.script.env["OSTLER_SCRIPT_HOME"] = str(stable.home / "where/the/variable/points")
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:hi]] the first words")
        await o.store.remove_session(session.id)
        adopted = await o.adopt("script")
        assert [(row.agent_session, row.folder) for row in adopted] == [
            (session.last.agent_session, str(stable.folder))
        ]
        assert await o.adopt("script") == []
        again = await o.session(session=adopted[0].id)
        await collect(again, "[[history]]")
        assert again.last.ok and "the first words" in again.last.text


async def test_an_agent_session_can_be_given_by_id(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:hi]] earlier")
        given = await o.session("script", folder=str(stable.folder), agent_session=session.last.agent_session)
        await collect(given, "[[history]]")
        assert given.id != session.id and "earlier" in given.last.text


async def test_a_session_costs_what_its_turns_cost_whoever_ran_them(stable: Stable) -> None:
    cost = '[[usage:{{"input_tokens": 1, "cost_usd": {}}}]] [[say:x]]'
    async with stable.ostler() as one, stable.ostler() as other:
        here = await one.session("script", folder=str(stable.folder))
        assert (await here.run(cost.format(0.5))).cost_usd == 0.5
        there = await other.session(session=here.id)
        spent = [(await live.run(cost.format(0.25))).cost_usd or 0.0 for live in (there, here)]
        assert one.find(here.id).cost_usd == here.row.cost_usd == 0.5 + sum(spent)


async def test_follow_from_another_ostler_sees_the_same_events(stable: Stable) -> None:
    gate = stable.folder / "gate"
    stable.script.plays([{"say": "1"}, {"wait_for": str(gate)}, {"say": "2"}])
    async with stable.ostler() as o, stable.ostler() as other:
        session = await o.session("script", folder=str(stable.folder))
        task = asyncio.create_task(collect(session, "go"))
        await until(lambda: o.events(session.id))
        seen = []
        async for event in other.follow(session.id):
            seen.append(event)
            if isinstance(event, Text) and event.text == "1":
                gate.touch()
        assert seen == await task
        assert isinstance(seen[-1], Ended)


async def test_a_command_is_a_turn_like_any_other(stable: Stable) -> None:
    async with stable.ostler() as o:
        command = o.exec(["sh", "-c", "echo out; echo err >&2; touch made"], folder=str(stable.folder))
        events = [event async for event in command]
        envelope = await command
        assert envelope.ok and envelope.text == "out\n"
        assert (envelope.stdout, envelope.stderr) == ("out\n", "err\n")
        assert [c.path for c in envelope.files] == ["made"]
        assert isinstance(events[-1], Ended)
        envelope = await o.exec(["sh", "-c", "exit 7"], folder=str(stable.folder))
        assert (envelope.status, envelope.exit) == ("error", Exit(code=7))
        with pytest.raises(OstlerError) as caught:
            await o.exec(["no-such-program-here"], folder=str(stable.folder))
        assert caught.value.kind == "missing"
        assert len(o.sessions()) == 2


async def test_the_empty_command_runs_nothing_and_succeeds(stable: Stable) -> None:
    async with stable.ostler() as o:
        for argv in ([], [""], [" ", "\n"]):
            command = o.exec(argv, folder=str(stable.folder))
            assert [type(event) async for event in command] == [Ended]
            envelope = await command
            assert (envelope.ok, envelope.exit, envelope.summary) == (True, Exit(code=0), "")


async def test_a_command_is_fed_and_shown_as_it_comes(stable: Stable) -> None:
    shown: list[tuple[str, bytes]] = []
    async with stable.ostler() as o:
        script = ["sh", "-c", "cat; echo err >&2"]
        async for _ in o.exec(script, folder=str(stable.folder), stdin=b"in", shown=lambda *each: shown.append(each)):
            pass
    assert sorted(shown) == [("stderr", b"err\n"), ("stdout", b"in")]


async def test_tools_of_the_first_turn_may_differ(stable: Stable) -> None:
    stable.script.plays([{"echo": "argv"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        for expected in ("first", "later"):
            await collect(session, "go", tools_allowed=("later",), first_tools_allowed=("first",))
            assert f"--allow-tool={expected}" in session.last.text


async def test_profiles_and_models_choose_the_agent(stable: Stable) -> None:
    config = stable.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'default_agent = "reviewer"\n[profiles.reviewer]\nagent = "claude"\nmodel = "opus"\nsystem = "Be strict"\n'
        '[models]\n"gpt-*" = "cursor"\n'
    )
    stable.script.plays([{"echo": "system"}])
    async with stable.ostler() as o:
        session = await o.session(folder=str(stable.folder))
        await collect(session, "go")
        assert "Be strict" in session.last.text and session.row.profile == "reviewer"


async def test_state_project_keeps_state_in_the_project(stable: Stable) -> None:
    async with stable.ostler(OSTLER_HOME="", OSTLER_STATE="project") as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:hi]]")
        assert (stable.folder / ".ostler" / "ostler.db").exists()
        assert (stable.folder / ".ostler" / ".gitignore").read_text() == "*\n"


async def test_a_cassette_stands_in_for_the_agent_it_was_made_of(stable: Stable, tmp_path: Path) -> None:
    from ostler.testing import Recorder

    captured = Path(__file__).parents[2] / "captures" / "claude" / "turn-stream-json.ndjson"
    tape = tmp_path / "tape"
    recorder = Recorder(tape)
    recorder.begin(agent="claude", prompt="x")
    recorder.stdout(captured.read_bytes())
    recorder.close(Exit(code=0))
    stable.script.env["OSTLER_SCENARIO"] = str(tape)
    async with stable.ostler() as o:
        session = await o.session("claude", folder=str(stable.folder))
        await collect(session, "go")
    expected = json.loads((captured.parent.parent / "expected.json").read_text())["claude/turn-stream-json"]
    assert session.last.ok and session.last.text == expected["text"]
    assert (session.last.agent, session.last.served_by) == ("claude", "script")
    assert session.last.agent_session == expected["agent_session"]


async def test_a_recording_plays_again(stable: Stable, tmp_path: Path) -> None:
    from ostler.testing import Recorder

    stable.script.plays([{"say": "once upon a time"}, {"usage": {"output_tokens": 4}}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "tell", record=Recorder(tmp_path / "tape"))
    stable.script.env["OSTLER_SCENARIO"] = str(tmp_path / "tape")
    envelope, _ = await stable.turn("tell")
    assert envelope.ok and envelope.text == "once upon a time" and envelope.usage == session.last.usage


async def test_what_is_asked_of_a_session_that_exists_holds_for_its_turns(stable: Stable) -> None:
    async with stable.ostler() as o:
        made = await o.session("script", folder=str(stable.folder), model="usual", system="be kind")
        await collect(made, "[[say:a]]")
        again = await o.session(session=made.id, access="write", model="other", system="be brief")
        await collect(again, "[[say:b]]")
        await collect(again, "[[say:c]]", access="full", model="third", system="be quick")
        plain = await o.session(session=made.id)
        await collect(plain, "[[say:d]]")
        turns = [row.turn for row in o.store.turns(made.id)]
        assert [(turn.access, turn.model, turn.system) for turn in turns] == [
            ("read", "usual", "be kind"),
            ("write", "other", "be brief"),
            ("full", "third", "be quick"),
            ("read", "usual", "be kind"),
        ]
        # Agents that hear a system prompt with the first turn alone hear another one, too.
        assert [turn.first for turn in turns] == [True, True, True, False]


async def test_a_model_that_is_named_as_the_agent_holds_for_a_session_that_exists(stable: Stable) -> None:
    async with stable.ostler() as o:
        made = await o.session("script", folder=str(stable.folder))
        await collect(made, "[[say:a]]")
        await collect(await o.session("script-fast", session=made.id), "[[say:b]]")
        latest = await o.session("script-slow", folder=str(stable.folder), resume_last=True)
        await collect(latest, "[[say:c]]")
        assert [row.turn.model for row in o.store.turns(made.id)] == [None, "script-fast", "script-slow"]


async def test_what_an_existing_session_cannot_be_given_is_refused(stable: Stable) -> None:
    (stable.home / ".config" / "ostler").mkdir(parents=True)
    (stable.home / ".config" / "ostler" / "config.toml").write_text('[profiles.terse]\nagent = "script"\n')
    async with stable.ostler() as o:
        plain = await o.session("script", folder=str(stable.folder), name="barn")
        await collect(plain, "[[say:a]]")
        for given, said in (
            ({"name": "shed"}, "session barn already exists; its name"),
            ({"agent_session": "11111111-2222-4333-8444-555555555555"}, "its agent session cannot be set here"),
            ({"agent": "terse"}, "uses script, not terse"),
        ):
            with pytest.raises(OstlerError) as caught:
                await o.session(session="barn", **given)
            assert caught.value.kind == "bad_request" and said in caught.value.message
        assert (await o.session(session="barn", name="barn")).id == plain.id
        terse = await o.session("terse", folder=str(stable.folder))
        await collect(terse, "[[say:b]]")
        await collect(plain, "[[say:c]]")
        assert (await o.session("terse", folder=str(stable.folder), resume_last=True)).id == terse.id
        assert (await o.session("script", session=terse.id)).row.profile == "terse"


def test_run_holds_what_it_is_asked_for_with_a_session(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in stable.env.items():
        monkeypatch.setenv(name, value)
    first = ostler.run("[[say:a]]", "script", folder=str(stable.folder))
    again = ostler.run("[[say:b]]", session=first.session, access="write", model="other", system="be brief")
    assert again.model == "other"
    with Store.open(str(stable.state)) as store:
        turn = store.turn(again.turn)
        assert turn is not None
        assert (turn.turn.access, turn.turn.model, turn.turn.system) == ("write", "other", "be brief")
    with pytest.raises(OstlerError) as caught:
        ostler.run("[[say:c]]", session=first.session, name="another")
    assert caught.value.kind == "bad_request"
