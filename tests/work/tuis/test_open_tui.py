"""An agent's own screen without a turn: started, looked at, and used by the turns that follow."""

import asyncio
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Answered, Asked, Text
from ostler.process import tree
from ostler.work.dialogs.asks import AskAnswer
from waiting import until
from work.full_disk import full_for_a_moment
from work.panes.own_tmux import own_tmux
from work.scripted import Stable, collect


async def test_turns_use_it(stable: Stable) -> None:
    stable.script.plays([{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        terminal = await session.open_tui(cols=100, rows=40)
        assert (terminal.row.cols, terminal.row.rows, terminal.row.name) == (100, 40, "script")
        await until(lambda: _shows(terminal, "Type your message"))
        assert o.store.turns(session.id) == [] and stable.script.launches == []
        assert (await session.open_tui()).row.id == terminal.row.id  # there is one
        for said in ("nothing", "one"):
            await collect(session, "one", transport="pty")
            assert session.last is not None and (session.last.outcome, session.last.text) == ("done", said)
            assert "result: ok" in session.last.evidence  # by its file
        assert (await session.open_tui()).row.id == terminal.row.id
        assert len({launch.pid for launch in stable.script.launches}) == 1
        await o.close_session(session.id)
        assert o.terminals.list(session.id, live=True) == []


async def _shows(terminal: object, text: str) -> bool:
    return text in "\n".join((await terminal.snapshot()).text)  # type: ignore[attr-defined]


async def test_an_agent_without_one(stable: Stable) -> None:
    async with stable.ostler(OSTLER_ONLY="") as o:
        session = await o.session("cursor", folder=str(stable.folder))
        with pytest.raises(OstlerError) as raised:
            await session.open_tui()
        assert raised.value.kind == "unsupported"


@pytest.mark.parametrize("transport", ["pty", "tmux"])
async def test_a_daemon_of_a_turn_is_found_named_and_ended_with_the_turn(
    stable: Stable, monkeypatch: pytest.MonkeyPatch, transport: Any
) -> None:
    """The program stays for the next turn, so nobody looked."""
    pid_file = stable.folder / "pid"
    left = {"match": "one", "steps": [{"double_fork": str(pid_file)}, {"say": "left something"}]}
    stable.script.plays(left, [{"say": "go on"}])
    with own_tmux(stable.state, monkeypatch):
        async with stable.ostler() as o:
            session = await o.session("script", folder=str(stable.folder), access="full")
            await collect(session, "one", transport=transport)
            daemon = int(pid_file.read_text())
            assert session.last and session.last.ok
            assert [int(each.split()[0]) for each in session.last.leaked] == [daemon]
            assert tree.identity(daemon) is None
            await collect(session, "two", transport=transport)
            assert session.last.ok and session.last.leaked == ()
            assert len({launch.pid for launch in stable.script.launches}) == 1


@pytest.mark.parametrize(("transport", "shows"), [("pty", "tui"), ("tmux", "tui"), ("tmux", "output")])
async def test_a_daemon_of_a_screen_that_ends_with_its_turn_is_named_too(
    stable: Stable, monkeypatch: pytest.MonkeyPatch, transport: Any, shows: str
) -> None:
    pid_file = stable.folder / "pid"
    stable.script.plays([{"double_fork": str(pid_file)}, {"exit": 3}])
    with own_tmux(stable.state, monkeypatch):
        async with stable.ostler(OSTLER_TMUX_SHOWS=shows) as o:
            session = await o.session("script", folder=str(stable.folder), access="full")
            await collect(session, "one", transport=transport)
            daemon = int(pid_file.read_text())
            assert session.last and session.last.outcome == "crashed"
            assert [int(each.split()[0]) for each in session.last.leaked] == [daemon]
            assert tree.identity(daemon) is None


@pytest.mark.parametrize("unwritten", [Text, Answered])
async def test_a_turn_that_cannot_be_written_takes_its_screen_along(
    stable: Stable, monkeypatch: pytest.MonkeyPatch, unwritten: type
) -> None:
    """The disk is full for a moment. The next prompt was typed into a program that still worked on the last one, and
    a dialog whose answer could not be kept stood there for ever.
    """
    ask = {"ask": {"tool": "shell", "input": {"command": "ls"}}}
    steps = [{"say": "one"}, {"never_end": True}] if unwritten is Text else [ask]
    stable.script.plays({"match": "one", "steps": steps}, [{"say": "two"}])
    full_for_a_moment(monkeypatch, unwritten)
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        answers: list[asyncio.Task[object]] = []
        async for event in session.run("one", transport="pty"):
            if isinstance(event, Asked):
                answer = AskAnswer(ask=event.id, option="allow")
                answers.append(asyncio.ensure_future(o.answer(session.id, answer)))
        await asyncio.gather(*answers, return_exceptions=True)
        assert session.last and session.last.error and session.last.error.kind == "store"
        await collect(session, "two", transport="pty")
        assert session.last.text == "two" and len({launch.pid for launch in stable.script.launches}) == 2
