"""Real CLIs in panes of tmux (`transport="tmux"`), against the scripted model: the list of test_tui.py in one go."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.agents import AGENTS as KNOWN
from ostler.model import Answered, Notice, Started, Text
from ostler.store import Store
from ostler.work.dialogs.asks import AskAnswer
from real.test_tui import AGENTS, PROMPTS, of, open_asks, run, visible
from real.yard import Yard, each
from waiting import until
from work.panes.killed import hooks_in
from work.panes.own_tmux import own_tmux, panes

__all__ = ["visible"]
pytestmark = [pytest.mark.timeout(240)]
EVERYTHING = f"{PROMPTS['characters'].removesuffix('[[say:Read.]]')}\n{PROMPTS['100 KB']}"


@pytest.fixture(autouse=True)
def server(visible: Yard) -> Iterator[None]:
    with own_tmux(state(visible)):
        yield


def state(yard: Yard) -> Path:
    return Path(yard.env["OSTLER_HOME"])


@each(AGENTS, core=("claude", "codex", "gemini"))  # whose own screens people use most
async def test_a_pane_takes_prompts_asks_is_interrupted_and_resumes(visible: Yard) -> None:
    """Newlines, quotes, `;`, emoji and 100 KB; a dialog; an interrupt; another pane that goes on; its end."""
    async with visible.ostler() as o:
        live = await visible.session(o, access="full")
        envelope, events = await run(live, EVERYTHING, "tmux")
        assert (envelope.outcome, envelope.text) == ("done", "Read."), envelope
        assert any(" ".join(x.user.split()).endswith(" ".join(EVERYTHING.split())) for x in visible.model.asked)
        assert [text.partition(" by ")[0] for text in of(events, "receipt")][-1] == "acknowledged"
        face = KNOWN[visible.agent].hooks
        assert face is None or {face.start, face.submits, *face.ends[:1]} <= set(hooks_in(events)), hooks_in(events)
        turn = asyncio.create_task(run(live, visible.asking("touch yes.txt"), "tmux"))
        [ask] = await until(lambda: open_asks(o))
        await o.answer(live.id, AskAnswer(ask=ask.id, option="allow", by="Eve"))
        allowed, events = await turn
        assert allowed.ok and (visible.folder / "yes.txt").exists()
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("allow_once", "Eve")]
        turn = asyncio.create_task(run(live, "[[hold:one]] wait", "tmux"))
        await until(lambda: any(x.held for x in visible.model.asked))
        await o.cancel(live.id)
        envelope, events = await turn
        assert envelope.outcome == "cancelled" and not of(events, "not_interrupted")
        visible.model.release("one")
        assert len(o.terminals.list(live.id)) == 1  # all in one program
        await o.panes.close(live.id)
        assert panes(state(visible)) == []
        visible.model.requests.clear()
        then, _ = await run(live, "and then?", "tmux")
        assert then.ok and then.agent_session == allowed.agent_session
        assert any("touch yes.txt" in x.text and "and then?" in x.text for x in visible.model.asked)  # it went along
        await o.close_session(live.id)
    assert panes(state(visible)) == []


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
@pytest.mark.core
async def test_a_turn_goes_on_when_ostler_is_killed_and_ends_right(visible: Yard) -> None:
    process = visible.cli("run", visible.agent, "[[hold:one]] wait", "--transport", "tmux")
    try:
        await until(lambda: any(x.held for x in visible.model.asked))
        await until(lambda: _has_submitted(visible))
    finally:
        process.kill()
        process.communicate()
    async with visible.ostler() as o:
        [session] = o.sessions()
        await until(lambda: "adopted" in [e.code for e in o.store.events(session.id) if isinstance(e, Notice)])
        visible.model.release("one")
        [row] = await until(lambda: [row for row in o.store.turns(session.id) if row.envelope is not None])
        assert row.envelope.outcome == "done", row.envelope
        events = o.store.events(session.id)
        assert [event.text for event in events if isinstance(event, Text)] == [row.envelope.text]
        assert len([event for event in events if isinstance(event, Started)]) == 1
        face = KNOWN[visible.agent].hooks
        assert face is not None and hooks_in(events)[:2] == [face.start, face.submits]
        # The last goes to the new process, unless the file of the conversation tells the end before it.
        decided = " ".join(row.envelope.evidence)
        assert hooks_in(events)[2:] == [face.ends[0]] or "transcript: done" in decided, decided
        await o.close_session(session.id)
    assert panes(state(visible)) == []


@pytest.mark.parametrize("agent", ["codex"])
async def test_the_next_ostler_uses_the_pane_although_it_did_not_hear_that_it_is_ready(visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o)
        assert (await run(live, "[[say:One.]]", "tmux"))[0].text == "One."
        before = o.panes.notes.get(live.id)
    async with visible.ostler() as o:
        live = await o.session(session=live.id)
        assert (await run(live, "[[say:Two.]]", "tmux"))[0].text == "Two."
        after = o.panes.notes.get(live.id)
        assert before is not None and after is not None and after.pid == before.pid
        await o.close_session(live.id)


def _has_submitted(yard: Yard) -> bool:
    with Store.open(state(yard)) as store:
        return any("submitted" in of(store.events(session.id), "receipt") for session in store.sessions())
