"""An agent whose quota ends in the middle of its work, and those who go on with it."""

import json

from ostler import clock
from ostler.model import Ended, Envelope, Limits, Notice, Started, Text
from ostler.process import tree
from ostler.store import Store
from ostler.work import Ostler
from waiting import until
from work.scripted import Stable

HALF = [
    {"plan": [{"text": "write it", "status": "done"}, {"text": "test it", "status": "pending"}]},
    {"write": "notes.txt"},
    {"say": "half done"},
    {"fail": {"kind": "limited", "message": "quota"}},
]
HEIR = {"match": "You take over", "steps": [{"say": "finished"}]}


def linked(o: Ostler, envelope: Envelope) -> tuple[str | None, str | None]:
    """Whose work the envelope's session goes on with, by the envelope itself and by the store."""
    row = o.store.session(envelope.session)
    return envelope.handed_from, row.handed_from if row else None


async def test_another_agent_goes_on_in_a_session_of_its_own(stable: Stable) -> None:
    stable.script.plays(HEIR, HALF)
    async with stable.ostler() as o:
        old = await o.session("claude", folder=str(stable.folder), access="write")
        handle = old.run("write the notes", fallback=("codex",), tools_denied=("web",), system="Be brief.")
        events = [event async for event in handle]
        envelope = await handle
        assert (envelope.ok, envelope.agent, envelope.text) == (True, "codex", "finished")
        assert envelope.session != old.id and linked(o, envelope) == (old.id, old.id)
        assert old.last == envelope
        # One piece of work for whoever reads it: what both did, and one end.
        assert [e.text for e in events if isinstance(e, Text)] == ["half done", "finished"]
        assert [e.turn for e in events if isinstance(e, Ended)] == [envelope.turn] and isinstance(events[-1], Ended)
        (ended,) = o.store.turns(old.id)
        before = ended.envelope
        assert before is not None and before.error is not None
        assert (before.outcome, before.error.kind, before.handed_to) == ("failed", "limited", envelope.session)
        *_, notice, last = o.store.events(old.id)
        assert isinstance(notice, Notice) and isinstance(last, Ended)
        assert (notice.code, notice.text) == ("handed", f"claude: quota; codex goes on in session {envelope.session}")
        (successor,) = o.store.turns(envelope.session)
        for part in ("another agent (claude)", "write the notes", "half done", "- [x] write it", "+++ b/notes.txt"):
            assert part in successor.turn.prompt, part
        turn = successor.turn
        assert (turn.access, turn.system) == ("write", "Be brief.") and "web" in turn.tools_denied


async def test_whoever_cannot_go_on_is_passed_over_and_the_next_one_does(stable: Stable) -> None:
    """gemini's quota is used up; codex goes on until its own ends, too; then qwen does."""
    stable.script.plays({"match": r"\(codex\)", "steps": [{"say": "finished"}]}, HALF)
    async with stable.ostler() as o:
        await o.store.park("gemini", clock.now() + 3600, "")
        old = await o.session("claude", folder=str(stable.folder), access="write")
        envelope = await old.run("write it", fallback=("gemini", "codex", "qwen"))
        assert (envelope.ok, envelope.agent, envelope.text) == (True, "qwen", "finished")
        chain = [row.handed_from for row in reversed(o.sessions())]
        assert chain[0] is None and chain[1] == old.id and linked(o, envelope)[0] not in (None, old.id)
        notices = [e.text for e in o.store.events(old.id) if isinstance(e, Notice)]
        assert notices[0].startswith("gemini: the quota of gemini is used up") and "codex goes on" in notices[1]


async def test_without_anybody_who_could_go_on_it_is_limited(stable: Stable) -> None:
    stable.script.plays(HALF)
    async with stable.ostler() as o:
        await o.store.park("codex", clock.now() + 3600, "")
        session = await o.session("claude", folder=str(stable.folder), access="write")
        envelope = await session.run("write it", fallback=("codex",))
        assert envelope.error is not None
        assert (envelope.agent, envelope.error.kind, envelope.handed_to) == ("claude", "limited", None)
        assert len(o.sessions()) == 1


async def test_money_that_was_spent_is_spent(stable: Stable) -> None:
    spent = {"usage": {"input_tokens": 5, "cost_usd": 0.4}}
    stable.script.plays(HEIR, [*HALF[:-1], spent, HALF[-1]])
    async with stable.ostler() as o:
        session = await o.session("claude", folder=str(stable.folder), access="write")
        successor = await session.run("go", limits=Limits(cost_usd=1.0), fallback=("codex",))
        row = o.store.turn(successor.turn)
        assert row is not None and successor.agent == "codex"
        assert row.turn.limits.cost_usd is not None and round(row.turn.limits.cost_usd, 2) == 0.6
        session = await o.session("claude", folder=str(stable.folder), access="write")
        alone = await session.run("go", limits=Limits(cost_usd=0.3), fallback=("codex",))
        assert (alone.agent, alone.handed_to) == ("claude", None)


async def test_a_cancel_reaches_whoever_is_at_work(stable: Stable) -> None:
    stable.script.plays({"match": "You take over", "steps": [{"say": "on it"}, {"never_end": True}]}, HALF)
    async with stable.ostler() as o:
        session = await o.session("claude", folder=str(stable.folder), access="write")
        handle = session.run("go", fallback=("codex",))
        async for event in handle:
            if isinstance(event, Text) and event.text == "on it":
                handle.cancel()
        envelope = await handle
        assert (envelope.agent, envelope.outcome) == ("codex", "cancelled")
        assert tree.marked(envelope.turn) == []


async def test_leaving_ends_whoever_is_at_work(stable: Stable) -> None:
    stable.script.plays({"match": "You take over", "steps": [{"never_end": True}]}, HALF)
    async with stable.ostler() as o:
        session = await o.session("claude", folder=str(stable.folder), access="write")
        handle, begun = session.run("go", fallback=("codex",)), 0
        async for event in handle:
            begun += isinstance(event, Started)
            if begun == 2:
                break
        await handle.aclose()
        (successor,) = [row for row in o.sessions() if row.handed_from == session.id]
        (turn,) = o.store.turns(successor.id)
        assert turn.envelope is not None and turn.envelope.outcome == "cancelled"


async def test_at_the_command_line_it_is_one_turn(stable: Stable) -> None:
    stable.script.plays(HEIR, HALF)
    run = stable.cli("run", "claude", "go", "--fallback", "codex", "--access", "write", "--json", OSTLER_ONLY="script")
    out, err = run.communicate(timeout=90)
    assert run.returncode == 0, err
    told = json.loads(out)
    assert (told["agent"], told["text"]) == ("codex", "finished") and told["handed_from"]


def flow(stable: Stable) -> str:
    """A pipeline of one node, whose agent has another behind it."""
    node = '[nodes.only]\nagent = "claude"\nprompt = "go"\naccess = "write"\nfallback = ["codex"]\n'
    (stable.folder / "flow.toml").write_text(node)
    return "flow.toml"


async def test_a_node_of_a_pipeline_goes_on_with_the_next_agent(stable: Stable) -> None:
    stable.script.plays(HEIR, HALF)
    run = stable.cli("pipeline", "run", flow(stable), "--json", OSTLER_ONLY="script")
    out, err = run.communicate(timeout=90)
    assert run.returncode == 0, err
    (row,) = json.loads(out)["nodes"]
    assert (row["result"]["agent"], row["result"]["text"]) == ("codex", "finished")
    assert row["result"]["notices"] == ["the quota of claude ran out, and codex took over"]


async def test_a_run_that_is_killed_goes_on_with_the_agent_that_took_over(stable: Stable) -> None:
    taken = {"match": "^You take over", "steps": [{"say": "on it"}, {"never_end": True}]}
    stable.script.plays({"match": "You were interrupted", "steps": [{"say": "finished"}]}, taken, HALF)
    run = stable.cli("pipeline", "run", flow(stable), OSTLER_ONLY="script")
    with Store.open(stable.state) as store:

        def at_work() -> bool:
            successors = [row for row in store.sessions() if row.handed_from]
            return any(isinstance(e, Text) and e.text == "on it" for row in successors for e in store.events(row.id))

        await until(at_work)
    run.kill()
    run.communicate()
    resumed = stable.cli("pipeline", "resume", "last", "--json", OSTLER_ONLY="script")
    out, err = resumed.communicate(timeout=90)
    assert resumed.returncode == 0, err
    (row,) = json.loads(out)["nodes"]
    assert (row["result"]["agent"], row["result"]["text"]) == ("codex", "finished")
    assert row["result"]["notices"] == [
        "the quota of claude ran out, and codex took over",
        "it was interrupted, and continued in the same conversation",
    ]
