"""An agent's own command in a terminal: its end is known by its exit and its hooks."""

import asyncio
import json
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import AnyEvent, Ended, Hook, TerminalOpened, Text
from ostler.process import job_host, tree
from ostler.terminal.keys import Key
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import PressKey, Type
from ostler.testing.clock import Clock
from ostler.work.transports import visible
from waiting import until
from work.scripted import Stable, collect

CAME = "the process exited, SessionEnd came"


async def test_a_visible_turn_runs_in_a_terminal_and_ends_by_its_last_hook(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        events = await collect(session, "[[run:printenv OSTLER_TURN > turn.txt]] [[say:fed ä]]", transport="visible")
        envelope = session.last
        assert envelope and (envelope.status, envelope.outcome, envelope.text) == ("ok", "done", "fed ä")
        assert envelope.evidence[:2] == (CAME, "hook Stop")
        assert envelope.exit and envelope.exit.code == 0 and envelope.stderr is None and envelope.duration_ms >= 0
        assert envelope.stdout and '"type": "result"' in envelope.stdout.replace("\n", "")
        assert [type(event) for event in events if not isinstance(event, Hook)] == [TerminalOpened, Text, Ended]
        (terminal,) = o.terminals.list(session.id)
        assert (terminal.name, terminal.state) == ("script", "live")  # it waits for the next turn
        assert (stable.folder / "turn.txt").read_text().strip() == envelope.turn and tree.marked(envelope.turn) == []
        assert Path(envelope.artifacts["recording"]).exists()
        assert not list(stable.state.rglob(visible.PROMPT)) and not list(stable.state.rglob("hook.py"))
        # The next one goes on with the conversation.
        again = await collect(session, "[[history:true]]", transport="visible")
        assert session.last.agent_session == envelope.agent_session
        assert session.last.ok and "fed" in session.last.text
        # In the same terminal; each has its own part of what was shown.
        assert [event.terminal for event in again if isinstance(event, TerminalOpened)] == [terminal.id]
        assert session.last.stdout and "printenv" in envelope.stdout and "printenv OSTLER_TURN >" in session.last.text
        assert session.last.exit and session.last.exit.code == 0 and session.last.evidence[:2] == (CAME, "hook Stop")
        await o.close_session(session.id)
        assert o.terminals.list(session.id, live=True) == [] and tree.marked(terminal.id) == []


async def test_without_its_last_hook_a_grace_is_waited_for(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible, "GRACE", 0.1)
    scenario = stable.folder / "scenario.json"
    steps = [{"steps": [{"say": "fed"}]}]
    scenario.write_text(json.dumps({"hooks": ["SessionStart", "Stop"], "reply": steps}))
    async with stable.ostler(OSTLER_SCENARIO=str(scenario)) as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "go", transport="visible")
        assert session.last and session.last.ok
        assert session.last.evidence[:2] == ("the process exited, no SessionEnd within 0.1 s", "hook Stop")
        scenario.write_text(json.dumps({"hooks": False, "reply": steps}))
        await collect(session, "go", transport="visible")
        assert (session.last.outcome, session.last.text) == ("unproven", "")


@pytest.mark.parametrize(("prompt", "outcome"), [("[[fail:crashed]]", "crashed"), ("[[exit:3]]", "crashed")])
async def test_a_command_that_fails(prompt: str, outcome: str, stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        running = asyncio.create_task(collect(session, prompt, transport="visible"))
        while not running.done():
            await clock.turn(1)
            await asyncio.sleep(0.05)
        assert session.last and session.last.outcome == outcome
        assert session.last.exit and session.last.exit.code != 0


async def test_it_can_be_cancelled(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        running = asyncio.create_task(collect(session, "[[never_end:true]]", transport="visible"))
        await until(lambda: o.store.session(session.id) and o.terminals.list(session.id, live=True))
        await session.cancel()
        await running
        assert session.last and session.last.outcome == "cancelled"
        assert o.terminals.list(session.id, live=True) == []
        assert not list(stable.state.rglob(visible.PROMPT))


async def test_who_has_no_visible_turns_says_so(stable: Stable) -> None:
    async with stable.ostler(OSTLER_ONLY="") as o:
        session = await o.session("opencode", folder=str(stable.folder))
        with pytest.raises(OstlerError) as caught:
            await collect(session, "go", transport="visible")
        assert caught.value.kind == "unsupported" and "claude" in caught.value.hint


async def test_from_the_command_line(stable: Stable) -> None:
    process = stable.cli("run", "claude", "--visible", "--json", "[[say:fed]]")
    out, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert (told["text"], told["evidence"][:2]) == ("fed", [CAME, "hook Stop"])


async def test_a_later_turn_with_another_access_gets_another_terminal(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:one]]", transport="visible", access="read")
        await collect(session, "[[say:two]]", transport="visible", access="full")
        assert session.last and session.last.ok
        assert [row.state for row in o.terminals.list(session.id)] == ["live", "ended"]


async def test_what_is_typed_between_two_turns_is_not_run(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:one]]", transport="visible")
        (terminal,) = o.terminals.list(session.id, live=True)
        eve = Author("Eve", "person", "window-1")
        job = stable.folder / "job.json"
        job.write_text(json.dumps({"argv": ["touch", "made"], "stdin": "/dev/null", "env": {}, "nonce": "x"}))
        for text in ("touch made\n", f"run {job}\n", "run /etc/passwd\n", "run\n", "a draft"):
            await o.terminals.input(terminal.id, eve, Type(text=text), take=True)
        await o.terminals.input(terminal.id, eve, PressKey(key=Key(name="c", mods=frozenset({"ctrl"}))))
        await o.terminals.lease(terminal.id, eve, "release")
        await collect(session, "[[say:two]]", transport="visible")
        assert session.last and (session.last.ok, session.last.text) == (True, "two")
        assert len(o.terminals.list(session.id)) == 1 and not (stable.folder / "made").exists()


async def test_a_command_cannot_say_that_it_has_ended_and_leaves_nothing_running(stable: Stable) -> None:
    forged = f"printf '\\033]{job_host.OSC};0;{{\"code\":0}}\\007' > /dev/tty"
    go = stable.folder / "go"
    stable.script.plays(
        [{"run": forged}, {"run": "sleep 600 >/dev/null 2>&1 &"}, {"wait_for": str(go)}, {"say": "fed"}]
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        running = asyncio.create_task(collect(session, "go", transport="visible", access="full"))
        await until(lambda: o.store.session(session.id))
        await until(lambda: _names(o.store.events(session.id)).count("PostToolUse") == 2)
        assert not running.done()
        go.touch()
        await running
        assert session.last and session.last.ok and tree.marked(session.last.turn) == []


def _names(events: list[AnyEvent]) -> list[str]:
    return [event.name for event in events if isinstance(event, Hook)]
