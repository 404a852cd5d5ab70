"""Terminals of another ostler process: viewed, typed into and ended over its owner's socket; and when it dies."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Exit
from ostler.process import tree
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import (
    Ack,
    AnyTerminalMessage,
    Gone,
    Hello,
    Leased,
    RefusedMessage,
    ResizeTerminal,
    SnapshotMessage,
    Type,
    Viewing,
    Want,
    encode_message,
    read_terminal_message,
)
from ostler.work import Ostler
from waiting import stop, until
from work.far import Far, far
from work.scripted import Stable

ANNA = Author("Anna", "person", "anna:1")
BEN = Author("Ben", "person", "ben:1")
SHELL = ("bash", "--norc", "-i")

Told = AnyTerminalMessage | tuple[int, bytes]


@pytest.fixture
async def ostler(stable: Stable) -> AsyncIterator[Ostler]:
    async with stable.ostler() as o:
        yield o


@pytest.fixture
async def start(stable: Stable) -> AsyncIterator[Any]:
    started: list[Far] = []

    async def begin(argv: Sequence[str] = SHELL, **options: str) -> Far:
        started.append(await far(stable, argv, **options))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        await asyncio.to_thread(each.process.communicate)


async def text_with(o: Ostler, id: str, wanted: str) -> str:
    async def look() -> str:
        text = await o.terminals.text(id)
        return text if wanted in text else ""

    return str(await until(look))


async def heard(viewing: Viewing, wanted: bytes) -> tuple[bytes, list[Told]]:
    """Reads until these bytes have come, acknowledging everything; what was told on the way."""
    seen, told = b"", []
    async with aclosing(viewing.frames()) as frames:  # type: ignore[type-var]
        async for frame in frames:
            told.append(read_terminal_message(frame))
            match told[-1]:
                case SnapshotMessage() as shown:
                    seen += shown.vt.encode()
                case (int() as offset, bytes() as data):
                    seen += data
                    viewing.receive(encode_message(Ack(offset=offset + len(data))))
            if wanted in seen:
                return seen, told
    raise AssertionError(f"{wanted!r} never came: {seen!r}")


async def kind_of(awaitable: Any) -> str:
    with pytest.raises(OstlerError) as caught:
        await awaitable
    return caught.value.kind


async def test_it_is_listed_viewed_and_typed_into_from_elsewhere(ostler: Ostler, start: Any) -> None:
    there = await start()
    terminals = ostler.terminals
    row = terminals.get(there.terminal)
    assert (row.state, row.session) == ("live", there.session) and row.owner != ostler.desk.id
    assert [each.id for each in terminals.list(live=True)] == [there.terminal]
    assert terminals.primary(there.session).id == there.terminal
    viewing = await terminals.view(there.terminal, ANNA, "type")
    viewing.receive(encode_message(Want(action="take")))
    viewing.receive(encode_message(Type(text="echo $((6*7))\n")))
    _, told = await heard(viewing, b"42\r\n")
    assert isinstance(told[0], Hello) and told[0].terminal.id == there.terminal and told[0].viewer == "anna:1"
    assert isinstance(told[1], SnapshotMessage)
    assert any(isinstance(each, Leased) and each.yours for each in told)
    await viewing.close()


async def test_asked_without_viewing(ostler: Ostler, start: Any) -> None:
    there = await start()
    terminals, id = ostler.terminals, there.terminal
    assert await kind_of(terminals.input(id, ANNA, Type(text="x"))) == "denied"
    await terminals.input(id, ANNA, Type(text="echo a$((1+1))b\n"), take=True)
    await text_with(ostler, id, "a2b")
    assert await kind_of(terminals.input(id, BEN, ResizeTerminal(cols=99, rows=33))) == "denied"
    await terminals.lease(id, BEN, "take")
    assert await kind_of(terminals.input(id, ANNA, Type(text="x"))) == "denied"
    await terminals.input(id, BEN, ResizeTerminal(cols=99, rows=33))
    await terminals.input(id, BEN, Type(text="stty size; seq 100\n"))
    assert "33 99" in await text_with(ostler, id, "\n100\n")
    snapshot = await terminals.snapshot(id)
    assert (snapshot.cols, snapshot.rows, len(snapshot.text)) == (99, 33, 33)
    assert b"\n42\r" in (await terminals.snapshot(id, history=True)).vt
    await terminals.lease(id, BEN, "release")
    assert await kind_of(terminals.input(id, BEN, Type(text="x"))) == "denied"
    await terminals.kill(id)
    row = terminals.get(id)
    assert (row.state, row.exit) == ("ended", Exit(signal=signal.SIGHUP))
    assert "33 99" in await terminals.text(id)
    await terminals.release(id)
    assert terminals.list() == []


async def test_two_viewers_of_different_processes_see_the_same(stable: Stable, ostler: Ostler, start: Any) -> None:
    there = await start()
    async with stable.ostler() as other:
        first = await ostler.terminals.view(there.terminal, ANNA, "type")
        second = await other.terminals.view(there.terminal, BEN, "view")
        first.receive(encode_message(Want(action="take")))
        first.receive(encode_message(Type(text="echo to-$((1+2))-all\n")))
        await asyncio.gather(heard(first, b"to-3-all"), heard(second, b"to-3-all"))
        second.receive(encode_message(Type(text="x")))
        async for frame in second.frames():
            if isinstance(refused := read_terminal_message(frame), RefusedMessage):
                assert refused.problem.kind == "denied"
                break
        await first.close()
        await second.close()


async def test_a_flood_reaches_a_remote_viewer_whole(ostler: Ostler, start: Any) -> None:
    there = await start(("sh", "-c", "read x; seq 1 200000; read x"))
    viewing = await ostler.terminals.view(there.terminal, ANNA, "type")
    viewing.receive(encode_message(Want(action="take")))
    viewing.receive(encode_message(Type(text="\n")))
    await heard(viewing, b"200000")
    await viewing.close()
    assert (await ostler.terminals.snapshot(there.terminal)).text[28] == "200000"


async def test_a_killed_owner_ends_the_viewing_and_the_terminal(ostler: Ostler, start: Any) -> None:
    there = await start(("bash", "-c", "echo last words; sleep 611 & exec sleep 612"))
    viewing = await ostler.terminals.view(there.terminal, ANNA, "type")
    await heard(viewing, b"last words")
    marked = tree.marked(there.terminal)
    assert len(marked) == 2
    there.process.kill()
    rest = [read_terminal_message(frame) async for frame in viewing.frames()]
    assert isinstance(rest[-2], RefusedMessage) and rest[-2].problem.kind == "crashed"
    assert rest[-1] == Gone(exit=None, offset=len(b"last words\r\n"))
    await viewing.close()
    row = ostler.terminals.get(there.terminal)
    assert (row.state, row.exit, row.pid) == ("ended", None, None) and row.ended_at
    assert tree.marked(there.terminal) == []
    assert ostler.store.terminal(there.terminal) == row
    assert (await ostler.terminals.snapshot(there.terminal)).text[0] == "last words"
    assert await ostler.terminals.text(there.terminal) == "last words\n"
    again = [
        read_terminal_message(f) async for f in (await ostler.terminals.view(there.terminal, ANNA, "view")).frames()
    ]
    assert "last words" in again[1].vt and again[-1] == Gone(exit=None, offset=again[1].offset)


async def test_a_dead_owners_terminal_is_listed_as_ended_before_anybody_looks(ostler: Ostler, start: Any) -> None:
    there = await start(("sleep", "613"))
    there.process.kill()
    await asyncio.to_thread(there.process.wait)
    assert ostler.terminals.get(there.terminal).state == "ended"
    assert ostler.terminals.list(live=True) == [] and ostler.terminals.primary(there.session) is None
    assert await kind_of(ostler.terminals.input(there.terminal, ANNA, Type(text="x"), take=True)) == "not_found"
    await ostler.terminals.kill(there.terminal)
    assert ostler.store.terminal(there.terminal).state == "ended"


async def test_an_owner_that_closes_tells_its_viewers_how_it_ended(ostler: Ostler, start: Any) -> None:
    there = await start(("sh", "-c", "echo here; exec cat"))
    viewing = await ostler.terminals.view(there.terminal, ANNA, "view")
    await heard(viewing, b"here")
    closing = asyncio.create_task(there.close())
    rest = [read_terminal_message(frame) async for frame in viewing.frames()]
    assert rest[-1] == Gone(exit=Exit(signal=signal.SIGHUP), offset=len(b"here\r\n"))
    await viewing.close()
    await closing
    assert ostler.terminals.get(there.terminal).exit == Exit(signal=signal.SIGHUP)


async def test_a_viewer_that_does_not_read_costs_the_owner_nothing(ostler: Ostler, start: Any) -> None:
    there = await start(("sh", "-c", "read x; yes 'a line that fills memory' | head -c 60000000; echo over; read x"))
    lazy = await ostler.terminals.view(there.terminal, BEN, "view")
    viewing = await ostler.terminals.view(there.terminal, ANNA, "type")
    viewing.receive(encode_message(Want(action="take")))
    before = _resident(there.process.pid)
    viewing.receive(encode_message(Type(text="\n")))
    await heard(viewing, b"over")
    assert _resident(there.process.pid) - before < 24 << 20
    first = read_terminal_message(await anext(aiter(lazy.frames())))
    assert isinstance(first, Hello)
    await lazy.close()
    await viewing.close()


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_what_is_no_frame_costs_only_its_own_connection(ostler: Ostler, start: Any) -> None:
    there = await start()
    owner = next(each for each in ostler.store.owners() if each.pid == there.process.pid)
    author = b'"author":{"name":"x"},"rights":"view"'
    for request, wanted in (
        (b'{"op":"view","terminal":"%s",%s}\n' % (there.terminal.encode(), author), b'{"ok":true}'),
        (b'{"op":"view","terminal":"t-none",%s}\n' % author, b"not_found"),
        (b'{"op":"view","terminal":"%s","author":7,"rights":"view"}\n' % there.terminal.encode(), b"bad_request"),
        (b'{"op":"terminal_dance","terminal":"%s"}\n' % there.terminal.encode(), b"bad_request"),
        (b'{"op":"terminal_kill"}\n', b"bad_request"),
        (b'{"op":"terminal_kill","terminal":"t-none"}\n', b"not_found"),
        (b"[1]\n", b"bad_request"),
        (b"\xff\xff\n", b"bad_request"),
    ):
        reader, writer = await asyncio.open_unix_connection(owner.socket)
        writer.write(request)
        assert wanted in await reader.readline()
        with contextlib.suppress(OSError):  # it may have hung up already
            writer.write(b"\xff\xff\xff\xff\x01garbage")  # a frame of four gigabytes
            writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            await reader.read()
        writer.close()
    viewing = await ostler.terminals.view(there.terminal, ANNA, "type")
    viewing.receive("no message")
    viewing.receive(b"bytes")
    refused = []
    async for frame in viewing.frames():
        if isinstance(told := read_terminal_message(frame), RefusedMessage):
            refused.append(told.problem.kind)
        if len(refused) == 2:
            break
    assert refused == ["bad_request", "bad_request"]
    await viewing.close()


async def test_the_lease_is_kept_over_a_short_absence(ostler: Ostler, start: Any) -> None:
    there = await start()
    first = await ostler.terminals.view(there.terminal, ANNA, "type")
    first.receive(encode_message(Want(action="take")))
    async for frame in first.frames():
        if isinstance(told := read_terminal_message(frame), Leased) and told.yours:
            break
    await first.close()
    second = await ostler.terminals.view(there.terminal, ANNA, "type")
    async for frame in second.frames():
        if isinstance(told := read_terminal_message(frame), Leased):
            assert told.yours
            break
    second.receive(encode_message(Type(text="echo b$((2+2))k\n")))
    await heard(second, b"b4k")
    await second.close()


async def test_a_stopped_owner_is_an_error_for_the_one_who_asks(
    ostler: Ostler, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ostler.work.owner.PATIENCE", 0.2)
    there = await start()
    stop(there.process.pid)
    try:
        assert await kind_of(ostler.terminals.text(there.terminal)) == "crashed"
        assert await kind_of(ostler.terminals.view(there.terminal, ANNA, "view")) == "crashed"
        assert ostler.terminals.get(there.terminal).state == "live"
    finally:
        os.kill(there.process.pid, signal.SIGCONT)
    await until(lambda: ostler.terminals.get(there.terminal).state == "live")


async def test_one_that_stays_ends_what_a_killed_one_left_by_itself(stable: Stable, start: Any) -> None:
    from ostler.settings import load_settings

    settings = load_settings(folder=str(stable.folder), environ=stable.env).settings
    async with Ostler(settings, stable.env, "up") as server:
        there = await start(("sleep", "614"))
        there.process.kill()
        await asyncio.to_thread(there.process.wait)
        await until(lambda: server.store.terminal(there.terminal).state == "ended")
        await until(lambda: [owner.id for owner in server.store.owners()] == [server.desk.id])
        assert tree.marked(there.terminal) == []
