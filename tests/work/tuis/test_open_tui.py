"""An agent's own screen without a turn: started, looked at, and used by the turns that follow."""

import pytest

from ostler.errors import OstlerError
from waiting import until
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
