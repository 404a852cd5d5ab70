"""One interface for terminals of this process, of another one, and ended ones; and signals to what runs in them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Exit, SignalName
from ostler.process import tree
from ostler.terminal.cast import CastEvent, read_cast
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import (
    Ack,
    Gone,
    Hello,
    Refresh,
    RefusedMessage,
    ScreenRows,
    Type,
    Want,
    encode_message,
    read_terminal_message,
)
from ostler.work import Ostler
from ostler.work.sessions.rows import new_session_row
from ostler.work.terminals.ended import EndedTerminal
from ostler.work.terminals.local import LocalTerminal
from ostler.work.terminals.remote import RemoteTerminal
from ostler.work.terminals.terminal import Terminal
from waiting import until
from work.far import Far, far
from work.scripted import Stable, collect

ANNA = Author("Anna", "person", "anna:1")
ASKS = ("sh", "-c", "echo name?; read x; echo hello $x; exit 3")
WHERE = {"here": LocalTerminal, "elsewhere": RemoteTerminal}


@pytest.fixture
async def ostler(stable: Stable) -> AsyncIterator[Ostler]:
    async with stable.ostler() as o:
        yield o


@pytest.fixture
async def run(stable: Stable, ostler: Ostler) -> AsyncIterator[Any]:
    """Runs a program in a terminal here or in another process; that terminal, located."""
    others: list[Far] = []

    async def begin(where: str, argv: Sequence[str]) -> Terminal:
        if where == "elsewhere":
            others.append(await far(stable, argv))
            return await ostler.terminals.locate(others[-1].terminal)
        row = new_session_row(ostler.store, ostler.settings, agent="script", folder=str(stable.folder))
        await ostler.store.add_session(row)
        return await ostler.terminals.locate((await ostler.terminals.open(row.id, argv)).row.id)

    yield begin
    for other in others:
        await other.close()


async def says(terminal: Terminal, text: str) -> None:
    async def look() -> bool:
        return text in await terminal.text()

    await until(look)


async def kind_of(awaitable: Any) -> str:
    with pytest.raises(OstlerError) as caught:
        await awaitable
    return caught.value.kind


@pytest.mark.parametrize("where", WHERE)
async def test_one_interface_wherever_it_lives(ostler: Ostler, run: Any, where: str) -> None:
    terminal = await run(where, ASKS)
    assert type(terminal) is WHERE[where]
    id = terminal.row.id
    assert repr(terminal) == f"<{WHERE[where].__name__} {id} 'sh': pty, live>"
    await says(terminal, "name?")
    assert (await terminal.snapshot()).text[0] == "name?"
    waiting = asyncio.create_task(terminal.wait())
    viewing = await terminal.view(ANNA)
    await terminal.lease(ANNA, "take")
    await terminal.input(ANNA, Type(text="ann\n"))
    told = [read_terminal_message(frame) async for frame in viewing.frames()]
    await viewing.close()
    assert isinstance(told[0], Hello) and isinstance(told[-1], Gone) and told[-1].exit == Exit(code=3)
    assert await waiting == Exit(code=3)
    ended = await ostler.terminals.locate(id)
    assert type(ended) is EndedTerminal and repr(ended) == f"<EndedTerminal {id} 'sh': pty, ended>"
    for each in (terminal, ended):  # what was located while it lived stays good
        assert (each.row.state, each.row.exit, await each.wait()) == ("ended", Exit(code=3), Exit(code=3))
        assert (await each.text()).splitlines() == ["name?", "ann", "hello ann"]
        assert (await each.snapshot()).text[2] == "hello ann"
        late = [read_terminal_message(frame) async for frame in (await each.view(ANNA)).frames()]
        assert late[-1] == Gone(exit=Exit(code=3), offset=told[-1].offset)
        assert await kind_of(each.input(ANNA, Type(text="x"))) == "not_found"
        assert await kind_of(each.lease(ANNA, "take")) == "not_found"
        await each.kill()
        await each.kill("INT")


async def test_what_is_not_there_is_not_found(ostler: Ostler) -> None:
    assert await kind_of(ostler.terminals.locate("t-none")) == "not_found"
    assert await kind_of(ostler.terminals.locate_primary("nobody")) == "not_found"
    stall = await ostler.session("script", name="stall")
    await stall.keep()
    with pytest.raises(OstlerError, match=r"^session stall has no terminal"):
        await stall.terminal()


async def test_a_turn_is_a_terminal_too_and_the_primary_one_of_its_session(stable: Stable) -> None:
    stable.script.plays([{"say": "here\n"}, {"never_end": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await session.keep()
        assert await kind_of(o.terminals.locate_primary(session.id)) == "not_found"
        turn = asyncio.create_task(collect(session, "go"))
        await until(lambda: o.terminals.primary(session.id))
        terminal = await o.terminals.locate_primary(session.id)
        await says(terminal, "here")
        assert await kind_of(terminal.kill("TERM")) == "unsupported"
        await o.cancel(session.id)
        assert await terminal.wait() == Exit(signal=signal.SIGINT)
        await turn
        assert "here" in await terminal.text() and terminal.row.state == "ended"
        assert any("here" in line for line in (await terminal.snapshot()).text)
        again = await o.terminals.locate_primary(session.id)
        assert (type(again), again.row.id) == (EndedTerminal, terminal.row.id)


# -- rows instead of bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize("where", WHERE)
async def test_rows_cursor_bell_and_title_without_an_emulator(ostler: Ostler, run: Any, where: str) -> None:
    script = "printf one; read x; printf '\\033]0;titled\\007\\007\\033[2;3H\\033[31mtwo\\033[0m'; read y"
    terminal = await run(where, ["sh", "-c", f"stty -echo; {script}"])
    await says(terminal, "one")
    rows = terminal.rows()
    screen = await anext(rows)
    assert isinstance(screen, ScreenRows)
    assert (screen.whole, screen.seq, len(screen.changed), screen.changed[0].text) == (True, 1, 30, "one")
    assert (screen.cursor.x, screen.cursor.y) == (3, 0)
    await terminal.input(ANNA, Type(text="x\n"), take=True)
    seen, lines, bells, title = [screen], {row.y: row for row in screen.changed}, 0, ""
    while not (lines[1].text == "  two" and bells and title):
        update = await anext(rows)
        assert isinstance(update, ScreenRows) and not update.whole and update.seq == seen[-1].seq + 1
        lines |= {row.y: row for row in update.changed}
        bells, title = bells + update.bells, update.title or title
        seen.append(update)
    assert (bells, title, (seen[-1].cursor.x, seen[-1].cursor.y)) == (1, "titled", (5, 1))
    assert "\x1b[" in lines[1].vt and lines[0].text == "one" and len(seen[-1].changed) < 24
    await terminal.kill()
    rest = [each async for each in rows]
    assert rest[-1] == Gone(exit=Exit(signal=signal.SIGHUP), offset=rest[-1].offset)
    late = [each async for each in ostler.terminals.rows(terminal.row.id)]
    assert [type(each) for each in late] == [ScreenRows, Gone]
    assert (late[0].whole, late[0].changed[1], late[0].title) == (True, lines[1], "titled")


async def test_a_dead_owner_of_rows_is_an_error(stable: Stable, ostler: Ostler) -> None:
    there = await far(stable, ["sh", "-c", "echo here; exec cat"])
    terminal = await ostler.terminals.locate(there.terminal)
    await says(terminal, "here")
    rows = terminal.rows()
    assert (await anext(rows)).changed[0].text == "here"
    there.process.kill()
    await asyncio.to_thread(there.process.communicate)
    with pytest.raises(OstlerError) as caught:
        async for _ in rows:
            pass
    assert caught.value.kind == "crashed"


async def test_who_types_by_rows_and_who_asks_for_the_whole_screen_again(run: Any) -> None:
    terminal = await run("here", ["cat"])
    viewing = await terminal.view(ANNA, "type", format="rows")
    for message in (Want(action="take"), Type(text="typed\n"), Ack(offset=0)):
        viewing.receive(encode_message(message))
    kinds: list[str] = []
    wholes = 0
    async for frame in viewing.frames():
        message = read_terminal_message(frame)
        assert not isinstance(message, tuple | RefusedMessage)
        kinds.append(type(message).__name__)
        if isinstance(message, ScreenRows) and any(row.text == "typed" for row in message.changed):
            wholes += message.whole
            if wholes:
                break
            viewing.receive(encode_message(Refresh()))
    assert kinds[0] == "Hello" and "Leased" in kinds
    await viewing.close()


# -- the screen at a time --------------------------------------------------------------------------------

STEPS = ("sh", "-c", "echo one; read x; seq 50; printf two; read y")


@pytest.mark.parametrize("where", [*WHERE, "ended"])
async def test_the_screen_as_it_was_at_a_time(ostler: Ostler, run: Any, where: str) -> None:
    terminal = await run("here" if where == "ended" else where, STEPS)
    await says(terminal, "one")
    await terminal.input(ANNA, Type(text="x\n"), take=True)
    await says(terminal, "two")
    if where == "ended":
        await terminal.kill()
        terminal = await ostler.terminals.locate(terminal.row.id)

    async def recorded() -> list[CastEvent]:
        events = list(read_cast(terminal.row.recording).events())
        return events if any("two" in event.data for event in events) else []

    events = [event for event in await until(recorded) if event.kind == "o"]
    first = next(event for event in events if "one" in event.data)
    second = next(event for event in events if "two" in event.data)
    before, then, after = [await terminal.snapshot(at=at) for at in (first.at / 2, first.at, second.at + 1000)]
    assert [seen.text[0] for seen in (before, then)] == ["", "one"]
    assert [line for line in after.text if line][-2:] == ["50", "two"] and b"one" not in after.vt
    assert b"one" in (await terminal.snapshot(history=True, at=second.at)).vt
    for wrong in (-1.0, float("nan")):
        assert await kind_of(terminal.snapshot(at=wrong)) == "bad_request"


async def test_without_a_recording_there_is_no_earlier_screen(ostler: Ostler, run: Any) -> None:
    terminal = await run("here", ["true"])
    await terminal.wait()
    os.unlink(terminal.row.recording)
    assert await kind_of(terminal.snapshot(at=0)) == "not_found"


# -- signals ------------------------------------------------------------------------------------------------

NAMES: tuple[SignalName, ...] = ("INT", "QUIT", "TERM", "HUP", "KILL")


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", NAMES)
async def test_a_program_gets_the_signal_and_nothing_more(run: Any, where: str, name: SignalName) -> None:
    terminal = await run(where, ["sh", "-c", "echo up; exec sleep 611"])
    await says(terminal, "up")
    await until(lambda: [tree.command(pid) for pid in tree.marked(terminal.row.id)] == ["sleep 611"])
    await terminal.kill(name)
    assert await terminal.wait() == Exit(signal=signal.Signals[f"SIG{name}"])


async def test_who_catches_a_signal_goes_on(run: Any) -> None:
    script = "trap 'echo hung up' HUP; trap 'echo interrupted' INT; echo up; while :; do sleep 0.05; done"
    terminal = await run("here", ["bash", "-c", script])
    await says(terminal, "up")
    await terminal.kill("HUP")
    await says(terminal, "hung up")
    await terminal.kill("INT")
    await says(terminal, "interrupted")
    assert terminal.row.state == "live"
    await terminal.kill("KILL")
    assert await terminal.wait() == Exit(signal=signal.SIGKILL)


async def test_an_interrupt_reaches_the_foreground_and_not_the_shell(run: Any) -> None:
    terminal = await run("here", ["bash", "--norc", "-i"])
    id = terminal.row.id
    await terminal.input(ANNA, Type(text="sleep 612\n"), take=True)
    # The shell puts it in front before it becomes `sleep`. Once is enough: a second one could empty the line below.
    await until(lambda: any("612" in tree.command(pid) for pid in tree.marked(id)))
    await terminal.kill("INT")
    await until(lambda: len(tree.marked(id)) == 1)
    await terminal.input(ANNA, Type(text="echo still $((40+2))\n"))
    await says(terminal, "still 42")
