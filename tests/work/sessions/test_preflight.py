"""Before a resume: the conversation, the folder, who is at it, the access."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import Text, TurnOptions
from ostler.work import LiveSession, Ostler
from ostler.work.sessions.preflight import check_resume, preflight
from ostler.work.turns.options import resolve_turn
from waiting import until
from work.scripted import Stable, collect


@pytest.fixture
def kept(stable: Stable) -> Path:
    """Where the scripted agent keeps its conversations: in its usual place, that can be looked at."""
    stable.script.env.pop("OSTLER_SCRIPT_HOME", None)
    return stable.home / ".local/state/ostler-script/sessions"


async def one_turn(o: Ostler, stable: Stable) -> LiveSession:
    live = await o.session("script", folder=str(stable.folder))
    await collect(live, "[[say:one]]")
    assert live.last is not None and live.last.ok
    return live


async def told(o: Ostler, live: LiveSession) -> dict[str, bool | None]:
    return {check.name: check.ok for check in await preflight(o.setup, live.row)}


ALL_WELL = {"folder": True, "conversation": True, "owner": True, "access": True}


async def test_all_is_well(stable: Stable, kept: Path) -> None:
    async with stable.ostler() as o:
        live = await one_turn(o, stable)
        assert await told(o, live) == ALL_WELL
        await collect(live, "[[say:two]]")
        assert live.last is not None and live.last.ok


async def test_a_conversation_that_is_gone(stable: Stable, kept: Path) -> None:
    async with stable.ostler() as o:
        live = await one_turn(o, stable)
        for file in kept.iterdir():
            file.unlink()
        assert await told(o, live) == {**ALL_WELL, "conversation": False}
        with pytest.raises(OstlerError) as gone:
            await collect(live, "[[say:two]]")
        assert gone.value.kind == "not_found"
        assert "no longer has the conversation" in gone.value.message
        assert o.store.session(live.id) == live.row and live.row.state == "idle"


async def test_a_dialog_that_lives_needs_no_file(stable: Stable, kept: Path) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        await collect(live, "[[say:one]]", transport="dialog")
        for file in kept.iterdir():
            file.unlink()
        await collect(live, "[[say:two]]", transport="dialog")
        assert live.last is not None and live.last.ok


async def test_a_conversation_is_looked_for_where_the_agent_keeps_it(stable: Stable, kept: Path) -> None:
    elsewhere = stable.home / "elsewhere"
    async with stable.ostler(OSTLER_SCRIPT_HOME=str(elsewhere)) as o:
        live = await one_turn(o, stable)
        assert await told(o, live) == ALL_WELL and not kept.exists()
        for file in (elsewhere / "sessions").iterdir():
            file.unlink()
        assert await told(o, live) == {**ALL_WELL, "conversation": False}


async def test_what_cannot_be_known_keeps_nobody_from_trying(stable: Stable, kept: Path) -> None:
    async with stable.ostler(OSTLER_CONFIG="private") as o:
        live = await one_turn(o, stable)
        assert await told(o, live) == {**ALL_WELL, "conversation": None}
        await collect(live, "[[say:two]]")
        assert live.last is not None and live.last.ok


async def test_a_folder_that_leads_elsewhere(stable: Stable, kept: Path) -> None:
    async with stable.ostler() as o:
        live = await one_turn(o, stable)
        stable.folder.rename(stable.home / "moved")
        assert (await told(o, live))["folder"] is False
        (stable.home / "other").mkdir()
        stable.folder.symlink_to(stable.home / "other")
        assert (await told(o, live))["folder"] is False
        with pytest.raises(OstlerError) as elsewhere:
            await collect(live, "[[say:two]]")
        assert elsewhere.value.kind == "denied"


async def test_somebody_else_is_at_the_conversation(stable: Stable, kept: Path) -> None:
    async with stable.ostler() as o:
        live = await one_turn(o, stable)
        twin = await o.session("script", folder=str(stable.folder), agent_session=live.row.agent_session, name="twin")
        await twin.keep()
        busy = asyncio.create_task(collect(live, "[[say:begun]] [[never_end]]"))
        await until(lambda: [e for e in o.events(live.id) if isinstance(e, Text) and e.text == "begun"])
        assert (await told(o, live))["owner"] is False
        assert (await told(o, twin))["owner"] is False
        for each in (live, twin):
            with pytest.raises(OstlerError) as refused:
                await collect(LiveSession(o.session_context, each.row, stored=True), "[[say:me too]]")
            assert refused.value.kind == "busy"
        await live.cancel()
        await busy
        assert (await told(o, live))["owner"] is True


async def test_an_access_is_wider_only_if_somebody_says_so(stable: Stable, kept: Path) -> None:
    async with stable.ostler() as o:
        live = await one_turn(o, stable)
        turn = resolve_turn("x", TurnOptions(access="write"), live.row, o.settings)
        await check_resume(o.setup, live.row, turn, explicit=True)
        with pytest.raises(OstlerError) as wider:
            await check_resume(o.setup, live.row, turn, explicit=False)
        assert (wider.value.kind, wider.value.hint) == ("denied", "Pass --access write to allow it")
        narrower = structs.replace(live.row, access="full")
        await check_resume(o.setup, narrower, turn, explicit=False)
