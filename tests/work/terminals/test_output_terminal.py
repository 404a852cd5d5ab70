"""Headless commands as terminals: their output as it is, recorded as it comes, without secrets."""

import asyncio
from pathlib import Path

from ostler.model import Exit
from waiting import until
from work.scripted import Stable
from work.terminals.test_turn_terminal import ANNA, of_turns, recorded, seen


async def test_the_output_of_a_command_is_shown_as_it_is(stable: Stable) -> None:
    go = stable.folder / "go"
    script = f"printf 'half '; printf '\\033[31mred\\033[0m\\n' >&2; while [ ! -e {go} ]; do sleep 0.05; done; echo end"
    async with stable.ostler() as o:
        turn = asyncio.ensure_future(o.exec(["sh", "-c", script], folder=str(stable.folder)))
        row = await until(lambda: of_turns(o) and of_turns(o)[0])
        viewer = await o.terminals.view(row.id, ANNA, "view")
        await seen(viewer, "red")
        go.touch()
        envelope = await turn
        await viewer.close()
        assert envelope.ok
        text = await o.terminals.text(row.id)
        assert sorted(text.replace("\n", " ").split()) == ["end", "half", "red"]
        screen = await o.terminals.snapshot(row.id)
        assert any("\x1b[" in line and "red" in line for line in screen.styled)
        assert all(not line.startswith(" " * 5) for line in screen.text)  # every line begins at the left


async def test_a_command_that_fails_and_its_secrets(stable: Stable) -> None:
    secret = "sk-hidden-0123456789abcdef"
    async with stable.ostler(MY_API_KEY=secret) as o:
        async for _ in o.exec(["sh", "-c", "printf $MY_API_KEY; exit 4"], folder=str(stable.folder)):
            pass
        (row,) = of_turns(o)
        assert row.exit == Exit(code=4)
        assert await o.terminals.text(row.id) == "*" * len(secret)


async def test_it_is_recorded_as_it_comes_and_one_that_is_gone_cannot_be_drawn(stable: Stable) -> None:
    async with stable.ostler() as o:
        await o.exec(["echo", "hello"], folder=str(stable.folder))
        (row,) = of_turns(o)
        assert recorded(row.recording) == "hello\r\n" and row.size == len("hello\r\n")
        Path(row.recording).unlink()
        assert await o.terminals.text(row.id) == ""
