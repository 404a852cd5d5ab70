"""Hooks of an agent in a pane: as in every screen, and also when ostler was killed and another one took the turn up."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ostler.model import Answered, AnyEvent, Envelope, Hook, Notice
from ostler.work import LiveSession
from ostler.work.dialogs.asks import AskAnswer
from waiting import until
from work.panes.killed import asked, codes, hooked, hooks_in, kill_when, the_turn
from work.panes.own_tmux import own_tmux
from work.scripted import Stable, collect

KEEP = "printenv OSTLER_CALLBACK_URL OSTLER_CALLBACK_TOKEN > $HOME/callback.txt"


@pytest.fixture(autouse=True)
def server(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_tmux(stable.state, monkeypatch):
        yield


async def run(session: LiveSession, prompt: str, **options: Any) -> tuple[Envelope, list[AnyEvent]]:
    events = await collect(session, prompt, **{"transport": "tmux", **options})
    assert session.last is not None
    return session.last, events


def silent(stable: Stable, *steps: dict[str, Any]) -> None:
    """An agent of which nothing is known but by its hooks and its looks."""
    stable.script.plays(list(steps), tui={"status": False, "titles": False, "transcript": False})


def receipt(events: list[AnyEvent]) -> str:
    return [event.text for event in events if isinstance(event, Notice) and event.code == "receipt"][-1]


async def test_hooks_alone_tell_of_a_turn_in_a_pane(stable: Stable) -> None:
    silent(stable, {"run": "true"}, {"say": "Here\nin two lines."})
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        first, events = await run(session, "one")
        assert (first.outcome, first.text) == ("done", "Here\nin two lines."), first
        assert receipt(events) == "acknowledged by hook: submitted" and "text: from a hook" in first.evidence
        [start] = [event for event in events if isinstance(event, Hook) and event.name == "SessionStart"]
        assert start.payload["session_id"] == first.agent_session
        await o.close_session(session.id)
    assert list(stable.state.rglob("hook.py")) == []


async def test_they_call_whoever_runs_the_turn(stable: Stable) -> None:
    """Three processes have the same pane in turn; none of them has started it for the others."""
    stable.script.plays([{"run": "true"}, {"say": "Done."}])
    async with stable.ostler() as one, stable.ostler() as other:
        first = await one.session("script", folder=str(stable.folder), name="mine", access="full")
        for n, o in enumerate((one, other, one)):
            session = first if n == 0 else await o.session(session="mine")
            envelope, events = await run(session, f"prompt {n}")
            assert hooks_in(events)[-4:] == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
            assert {event.turn for event in events if isinstance(event, Hook)} == {envelope.turn}
        assert len({launch.pid for launch in stable.script.launches}) == 1


@pytest.mark.parametrize("shows", ["tui", "output"])
async def test_hooks_tell_whoever_takes_the_turn_up(stable: Stable, shows: str) -> None:
    go = stable.folder / "go"
    steps: list[dict[str, Any]] = [{"run": "true"}, {"wait_for": str(go)}, {"run": "true"}, {"say": "Two."}]
    stable.script.plays(steps, tui={"status": False, "titles": False, "transcript": False})
    flags = ("--access", "full", "--hooks", "on")
    happened = hooked("PostToolUse") if shows == "tui" else lambda events: "PostToolUse" in hooks_in(events)
    await kill_when(stable, happened, *flags, OSTLER_TMUX_SHOWS=shows)
    async with stable.ostler() as o:
        [session] = o.sessions()
        await until(lambda: "adopted" in codes(o.store.events(session.id)))
        await until(lambda: str(o.callbacks._listener.port) in _hook_file(stable).read_text())  # type: ignore[union-attr]
        go.touch()
        row = await the_turn(o)
        assert row.envelope is not None and (row.envelope.outcome, row.envelope.text) == ("done", "Two."), row.envelope
        told = hooks_in(o.store.events(session.id))
        ends = ["Stop"] if shows == "tui" else ["Stop", "SessionEnd"]
        use = ["PreToolUse", "PostToolUse"]
        assert told == ["SessionStart", "UserPromptSubmit", *use, *use, *ends]
        assert f"hooks: {', '.join(dict.fromkeys(told))}" in row.envelope.evidence


def _hook_file(stable: Stable) -> Path:
    [path] = stable.state.rglob("hook.py")
    return path


async def test_while_no_ostler_runs_they_call_nobody(stable: Stable) -> None:
    """Not even a stranger who has the port by then."""
    go, done = stable.folder / "go", stable.folder / "done"
    stable.script.plays([{"run": KEEP}, {"wait_for": str(go)}, {"run": f"touch {done}"}, {"say": "Two."}])
    await kill_when(stable, hooked("PostToolUse"), "--access", "full")
    url = urlsplit((stable.home / "callback.txt").read_text().split()[0])
    with socket.create_server(("127.0.0.1", url.port or 0)) as stranger:
        stranger.setblocking(False)
        go.touch()
        await until(done.exists)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    async with stable.ostler() as o:
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.text == "Two."


@pytest.mark.parametrize(("option", "made"), [("allow", True), ("deny", False)])
async def test_a_person_decides_about_each_tool_call(stable: Stable, option: str, made: bool) -> None:
    stable.script.plays([{"run": "touch made"}, {"say": "Over."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        running = asyncio.create_task(run(session, "go", hooks="ask"))
        [ask] = await until(lambda: o.store.open_asks(session.id))
        await o.answer(session.id, AskAnswer(ask=ask.id, option=option, by="Eve"))
        envelope, _ = await running
        assert (envelope.text, (stable.folder / "made").exists()) == ("Over.", made)


@pytest.mark.parametrize(("option", "made"), [("allow", True), ("deny", False)])
async def test_a_tool_call_that_somebody_was_asked_about_waits_for_the_next_ostler(
    stable: Stable, option: str, made: bool
) -> None:
    stable.script.plays([{"run": "touch made"}, {"say": "Over."}])
    await kill_when(stable, asked, "--access", "full", "--hooks", "ask")
    async with stable.ostler() as o:
        [session] = o.sessions()
        [ask] = await until(lambda: [ask for ask in o.store.open_asks(session.id) if ask.id == "hook-2"])
        assert not (stable.folder / "made").exists()
        await o.answer(session.id, AskAnswer(ask=ask.id, option=option))
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.text == "Over."
        assert (stable.folder / "made").exists() == made
        told = [(e.id, e.by) for e in o.store.events(session.id) if isinstance(e, Answered)]
        assert told == [("hook-1", "restart"), ("hook-2", "you")]


async def test_between_two_turns_nobody_waits_for_ostler(stable: Stable) -> None:
    """A person at the pane is asked by the agent alone."""
    stable.script.plays([{"say": "Over."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        await run(session, "go", hooks="ask")
        assert '"asks":""' in _hook_file(stable).read_text()
