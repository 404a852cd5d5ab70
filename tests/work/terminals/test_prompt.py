"""A prompt for whatever program runs in a terminal, what came of it, and its end: each with a time limit."""

import asyncio

import pytest

from ostler.errors import OstlerError
from ostler.terminal.keys import Key
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import PressKey
from ostler.testing.clock import Clock
from ostler.work import Ostler
from waiting import until
from work.scripted import Stable, turn_until

SHELL = ["/bin/sh", "-c", "read -r name; echo hello $name; read -r more; exit 3"]


async def opened(o: Ostler, stable: Stable, argv: list[str]) -> str:
    session = await o.session("script", folder=str(stable.folder))
    await session.keep()
    return (await o.terminals.open(session.id, argv)).row.id


async def test_a_prompt_its_output_and_the_end(stable: Stable) -> None:
    async with stable.ostler() as o:
        id = await opened(o, stable, SHELL)
        assert (o.terminals.get(id).cols, o.terminals.get(id).rows) == (120, 30)
        first = await o.terminals.send(id, "Ana")
        assert first.stages == ("accepted", "echoed", "submitted")
        await until(lambda: _said(o, id, first.offset, "hello Ana"))
        second = await o.terminals.send(id, "Bea")
        assert second.offset > first.offset
        exit = await o.terminals.wait(id, limit=60)
        assert exit is not None and exit.code == 3
        # What it said since, without control characters; from its recording, now that it has ended.
        assert (await o.terminals.text(id, since=second.offset)).split() == ["Bea"]
        assert (await o.terminals.text(id, since=first.offset)).split() == ["Ana", "hello", "Ana", "Bea"]
        assert await o.terminals.text(id, since=10_000) == ""


async def _said(o: Ostler, id: str, since: int, text: str) -> bool:
    return text in await o.terminals.text(id, since=since)


async def test_what_is_not_shown_is_not_sent(stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        silent = "stty -echo; echo ready; read -r word; echo got $word; sleep 600"
        id = await opened(o, stable, ["/bin/sh", "-c", silent])
        await until(lambda: _said(o, id, 0, "ready"))
        sending = asyncio.create_task(o.terminals.send(id, "secret", limit=5))
        with pytest.raises(OstlerError, match=f"terminal {id} did not show the prompt within 5 s") as raised:
            await turn_until(clock, 1, sending)
        assert raised.value.kind == "undelivered" and "got" not in await o.terminals.text(id)
        assert o.terminals._programs.get(id).live.lease.holder is None  # type: ignore[union-attr]
        await o.terminals.input(id, Author("eve"), PressKey(key=Key(name="u", mods=frozenset({"ctrl"}))), take=True)
        await o.terminals.lease(id, Author("eve"), "release")
        receipt = await o.terminals.send(id, "hay", echo=False)
        assert receipt.stages == ("accepted", "submitted")
        await until(lambda: _said(o, id, receipt.offset, "got hay"))


async def test_somebody_at_the_keyboard_is_waited_for_and_not_for_ever(stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        id = await opened(o, stable, ["cat"])
        await o.terminals.lease(id, Author("eve"), "take")
        with pytest.raises(OstlerError, match="eve"):
            await turn_until(clock, 1, asyncio.create_task(o.terminals.send(id, "hay", limit=5)))
        sending = asyncio.create_task(o.terminals.send(id, "hay", limit=500))
        await o.terminals.lease(id, Author("eve"), "release")
        assert (await sending).stages[-1] == "submitted"


async def test_errors(stable: Stable) -> None:
    async with stable.ostler() as o:
        id = await opened(o, stable, ["cat"])
        with pytest.raises(OstlerError, match="the prompt is empty"):
            await o.terminals.send(id, "  ")
        with pytest.raises(OstlerError, match=r"has not ended within 0\.01 s") as raised:
            await o.terminals.wait(id, limit=0.01)
        assert raised.value.kind == "timed_out"
        await o.terminals.kill(id, "TERM")
        exit = await o.terminals.wait(id, limit=60)
        assert exit is not None and exit.signal == 15
        with pytest.raises(OstlerError, match="has ended"):
            await o.terminals.send(id, "hay")
