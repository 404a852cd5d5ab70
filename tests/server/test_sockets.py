"""Viewers over WebSocket: what they are told and may say, and what becomes of those who misbehave."""

import asyncio
import base64
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ostler.server import connection, sockets
from ostler.terminal.keyboard import GRACE
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import (
    FRAME_LIMIT,
    Ack,
    AnyViewerMessage,
    Control,
    Paste,
    Refresh,
    ResizeTerminal,
    Rights,
    SendBytes,
    Type,
    Want,
    encode_message,
)
from ostler.testing.clock import Clock
from ostler.work import Ostler
from server.conftest import Yard
from server.watching import Watcher, watching
from waiting import PATIENCE, until


@asynccontextmanager
async def watch(yard: Yard, terminal: str, rights: Rights = "admin", **options: Any) -> AsyncIterator[Watcher]:
    async with watching(f"{yard.ws}/api/terminals/{terminal}/ws", yard.bearer(rights), **options) as viewer:
        yield viewer


@asynccontextmanager
async def follow(yard: Yard, session: str) -> AsyncIterator[Watcher]:
    async with watching(f"{yard.ws}/api/sessions/{session}/terminal/ws", yard.bearer("type")) as viewer:
        yield viewer


async def session_of(yard: Yard) -> str:
    live = await yard.ostler.session("script", folder=str(yard.folder))
    return (await live.keep()).id


async def opened(yard: Yard, *argv: str, session: str | None = None, **fields: Any) -> str:
    terminal = await yard.ostler.terminals.open(session or await session_of(yard), argv, **fields)
    return terminal.row.id


# -- watching ---------------------------------------------------------------------------------------------


async def test_a_client_without_an_emulator_gets_rows_cursor_bell_and_title(yard: Yard) -> None:
    script = r"stty -echo; printf one; read x; printf '\033]0;titled\007\007\033[2;3Htwo'; read y; exit 3"
    terminal = await opened(yard, "sh", "-c", script)
    url, headers = f"{yard.ws}/api/terminals/{terminal}/ws", yard.bearer("type")
    lines: dict[int, str] = {}
    bells, title, cursor, message, typed = 0, "", {}, {}, []
    async with connect(f"{url}?format=rows", additional_headers=headers, proxy=None) as client:
        assert msgspec.json.decode(await client.recv())["format"] == "rows"
        await client.send('{"kind": "lease", "action": "take"}')
        async for frame in client:
            message = msgspec.json.decode(frame)
            if message["kind"] != "rows":
                continue
            lines |= {row["y"]: row["text"] for row in message["changed"]}
            bells, title, cursor = bells + message.get("bells", 0), message.get("title") or title, message["cursor"]
            for wanted, said in ((lines[0] == "one", "x\n"), (lines[1] == "  two" and bells and title, "y\n")):
                if wanted and said not in typed:
                    typed.append(said)
                    await client.send(msgspec.json.encode({"kind": "text", "text": said}).decode())
    assert (lines[0], lines[1], bells, title) == ("one", "  two", 1, "titled")
    assert (cursor["x"], cursor["y"], message["kind"], message["exit"]) == (5, 1, "exit", {"code": 3})
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{url}?format=dance", additional_headers=headers, proxy=None)
    assert refused.value.response.status_code == 400


async def test_a_viewer_is_greeted_shown_the_screen_and_told_the_end(yard: Yard) -> None:
    terminal = await opened(
        yard, "sh", "-c", r"printf '\033[31mred\033[0m\n'; read x; echo $x; exit 3", cols=100, rows=30
    )
    async with watch(yard, terminal) as viewer:
        await viewer.until(lambda viewer: viewer.shows("red"))
        assert viewer.hello is not None and viewer.hello.terminal is not None
        assert (viewer.hello.terminal.id, viewer.hello.rights, viewer.hello.resumed) == (terminal, "admin", False)
        assert viewer.size == (100, 30) and "\x1b[" in viewer.styled[0]
        await viewer.take()
        await viewer.type("done\n")
        await viewer.until(lambda viewer: viewer.gone)
        assert viewer.gone is not None and viewer.gone.exit is not None
        assert (viewer.gone.exit.code, viewer.gone.offset) == (3, viewer.offset)
        assert viewer.rows[:3] == ("red", "done", "done")
        assert (await viewer.until_closed())[0] == 1000


async def test_a_close_does_not_overtake_what_the_viewer_still_says(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "LAST_WORD", 600.0)
    go = yard.folder / "go"
    terminal = await opened(yard, "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; echo the end")
    async with watch(yard, terminal, acknowledges=False) as viewer:
        await viewer.until(lambda viewer: viewer.snapshots)
        go.touch()
        await viewer.until(lambda viewer: viewer.gone)
        with pytest.raises(TimeoutError):  # it stays, until all that was shown is acknowledged
            await asyncio.wait_for(viewer.socket.wait_closed(), 0.3)
        await viewer.say(Ack(offset=viewer.offset))
        assert (await viewer.until_closed())[0] == 1000


async def test_who_comes_after_the_end_sees_how_it_ended(yard: Yard) -> None:
    terminal = await opened(yard, "printf", "all there was")
    async with watch(yard, terminal) as viewer:
        await viewer.until_closed()
    async with watch(yard, terminal, "view") as late:
        assert (await late.until_closed())[0] == 1000
        assert late.gone is not None and late.gone.exit is not None and late.gone.exit.code == 0
        assert late.rows == viewer_rows("all there was")
        assert late.hello is not None and late.hello.terminal is not None and late.hello.terminal.state == "ended"


def viewer_rows(*first: str) -> tuple[str, ...]:
    return (*first, *[""] * (30 - len(first)))


async def test_titles_bells_and_sizes_are_told_to_all(yard: Yard) -> None:
    terminal = await opened(yard, "sh", "-c", r"read x; printf '\033]2;busy\007\a'; read x")
    async with watch(yard, terminal) as first, watch(yard, terminal, "view") as second:
        await first.take()
        await first.type("\n")
        for viewer in (first, second):
            await viewer.until(lambda viewer: viewer.title == "busy" and viewer.bells == 1)
        await first.say(ResizeTerminal(cols=90, rows=31))
        for viewer in (first, second):
            await viewer.until(lambda viewer: viewer.size == (90, 31))
        before = second.snapshots
        await second.say(Refresh())
        await second.until(lambda second: second.snapshots == before + 1)


async def test_a_follower_is_moved_to_the_primary_terminal(yard: Yard) -> None:
    session = await session_of(yard)
    async with follow(yard, session) as follower:
        await follower.until(lambda follower: follower.snapshots)
        assert follower.hello is not None and follower.hello.terminal is None and follower.size == (80, 24)
        first = await opened(yard, "sh", "-c", "echo first; cat", session=session)
        await follower.until(lambda follower: follower.shows("first"))
        assert follower.hello.terminal is not None and follower.hello.terminal.id == first
        second = await opened(yard, "sh", "-c", "echo second; cat", session=session, cols=70)
        await follower.until(lambda follower: follower.shows("second") and follower.size == (70, 30))
        await yard.ostler.terminals.set_primary(session, first)
        await follower.until(lambda follower: follower.shows("first") and follower.size == (120, 30))
        await follower.take()
        await follower.type("typed\n")
        await follower.until(lambda follower: follower.shows("typed"))
        assert "typed" not in await yard.ostler.terminals.text(second)


async def test_a_terminal_of_another_process_is_watched_and_typed_into(yard: Yard) -> None:
    async with Ostler(yard.ostler.settings, yard.ostler.setup.environ, "run") as other:
        session = await session_of(yard)
        terminal = (await other.terminals.open(session, ["sh", "-c", "read x; echo got $x; read y"])).row.id
        async with watch(yard, terminal) as viewer, follow(yard, session) as follower:
            await viewer.take()
            await viewer.type("it\n")
            await viewer.until(lambda viewer: viewer.shows("got it"))
            await follower.until(lambda follower: follower.shows("got it"))
            await viewer.socket.send("nonsense")
            await viewer.until(lambda viewer: viewer.errors)
            await other.terminals.kill(terminal)
            await viewer.until(lambda viewer: viewer.gone)
            assert (await viewer.until_closed())[0] == 1000


# -- typing -----------------------------------------------------------------------------------------------


async def test_everything_that_can_be_typed_arrives(yard: Yard) -> None:
    program = """
import os, tty
tty.setraw(0)
print("ready")
while data := os.read(0, 99): print(data, end="\\r\\n")
"""
    terminal = await opened(yard, "python3", "-uc", program, cols=120)
    async with watch(yard, terminal) as viewer:
        await viewer.until(lambda viewer: viewer.shows("ready"))
        await viewer.take()
        said_and_read: list[tuple[AnyViewerMessage, str]] = [
            (Type(text="Aé\n"), r"b'A\xc3\xa9\r'"),
            (Paste(text="pasted"), "b'pasted'"),
            (Control(name="interrupt"), r"b'\x03'"),
            (SendBytes(data=b"\x1b[M !!"), r"b'\x1b[M !!'"),
        ]
        for message, read in said_and_read:
            await viewer.say(message)
            await viewer.until(lambda viewer, read=read: viewer.shows(read))
        await viewer.press("ArrowUp")
        await viewer.until(lambda viewer: viewer.shows(r"b'\x1b[A'"))
        assert viewer.errors == []


async def test_the_keyboard_goes_from_hand_to_hand_and_all_are_told(yard: Yard) -> None:
    terminal = await opened(yard, "cat")
    async with watch(yard, terminal) as first, watch(yard, terminal, "type") as second:
        await first.say(Type(text="x", n=7))
        await first.until(lambda first: first.errors)
        assert (first.errors[0].problem.kind, first.errors[0].re) == ("denied", 7)
        await first.take()
        await second.until(lambda second: second.lease and second.lease.holder and not second.lease.yours)
        await second.take()
        await first.until(lambda first: first.lease and not first.lease.yours)
        await second.type("mine\n")
        await first.until(lambda first: first.shows("mine"))
        await second.say(Want(action="release"))
        await first.until(lambda first: first.lease and first.lease.holder is None)


async def test_who_may_only_look_cannot_type(yard: Yard) -> None:
    terminal = await opened(yard, "cat")
    async with watch(yard, terminal, "view") as viewer:
        for message in (Want(action="take", n=1), Type(text="x", n=2), ResizeTerminal(cols=90, rows=30, n=3)):
            await viewer.say(message)
        await viewer.until(lambda viewer: len(viewer.errors) == 3)
        assert [(error.problem.kind, error.re) for error in viewer.errors] == [("denied", n) for n in (1, 2, 3)]
        assert yard.ostler.terminals.get(terminal).cols == 120


async def test_a_window_that_is_loaded_again_still_has_the_keyboard(yard: Yard) -> None:
    terminal = await opened(yard, "cat")
    headers = yard.bearer("type")
    url = f"{yard.ws}/api/terminals/{terminal}/ws"
    async with watching(url, headers, viewer="samewindow") as viewer:
        await viewer.take()
    async with watching(url, headers, viewer="samewindow") as again:
        await again.until(lambda again: again.lease and again.lease.yours)
        assert again.lease is not None and again.lease.holder == Author("tester", "person", again.lease.holder.id)


async def test_a_window_whose_old_connection_nobody_knows_to_be_dead_has_the_keyboard(yard: Yard, clock: Clock) -> None:
    """As after a pulled cable: the server still counts the old one, which says nothing any more."""
    terminal = await opened(yard, "cat")
    url, headers = f"{yard.ws}/api/terminals/{terminal}/ws", yard.bearer("type")
    live = yard.ostler.terminals.live(terminal)
    assert live is not None
    async with watching(url, headers, viewer="samewindow") as old:
        await old.take()
        async with (
            watching(url, headers, viewer="samewindow") as again,
            watching(url, headers, viewer="otherwindow") as other,  # of the same person
        ):
            await again.until(lambda again: again.lease and again.lease.yours)
            await again.type("typed\n")
            await again.until(lambda again: again.shows("typed"))
            await other.until(lambda other: other.lease and other.lease.holder and not other.lease.yours)
            old.socket.transport.abort()
            await until(lambda: live.viewers == 2)
            await clock.turn(GRACE + 1)
            await again.type("still\n")
            await again.until(lambda again: again.shows("still"))
            assert again.errors == [] and other.lease is not None and not other.lease.yours


# -- not let in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/api/terminals/t-none/ws", 404, "not_found"),
        ("/api/terminals/{}/ws?offset=-1", 400, "bad_request"),
        ("/api/terminals/{}/ws?offset=x", 400, "bad_request"),
        ("/api/terminals/{}/ws?offset=99999999999999999999", 400, "bad_request"),
        ("/api/terminals/{}/ws?viewer=a%20b", 400, "bad_request"),
        ("/api/sessions/nobody/terminal/ws", 404, "not_found"),
        ("/api/nothing/ws", 404, "not_found"),
    ],
)
async def test_what_cannot_be_seen_is_a_problem_before_the_handshake(
    yard: Yard, path: str, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    terminal = await opened(yard, "cat")
    with pytest.raises(InvalidStatus) as refused:
        async with connect(yard.ws + path.format(terminal), additional_headers=yard.bearer(), proxy=None):
            pass
    response = refused.value.response
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert msgspec.json.decode(response.body or b"")["kind"] == kind
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_nobody_is_let_in_without_a_token(yard: Yard) -> None:
    terminal = await opened(yard, "cat")
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"{yard.ws}/api/terminals/{terminal}/ws", proxy=None):
            pass
    assert refused.value.response.status_code == 401


# -- misbehaving ------------------------------------------------------------------------------------------


async def let_go(yard: Yard, frame: str | bytes) -> tuple[Watcher, tuple[int | None, str | None]]:
    """Sends this frame until the connection ends; what that viewer was told. Another one notices nothing."""
    terminal = await opened(yard, "cat")
    async with watch(yard, terminal) as other, watch(yard, terminal) as viewer:
        await viewer.until(lambda viewer: viewer.snapshots)
        reading = asyncio.create_task(viewer.until_closed())
        try:
            while not reading.done():
                await viewer.socket.send(frame)
                await asyncio.sleep(0)
        except ConnectionClosed:
            pass
        closed = await reading
        await other.take()
        await other.type("still here\n")
        await other.until(lambda other: other.shows("still here"))
        assert other.errors == []
        return viewer, closed


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", 1007),
        ("", 1007),
        ("null", 1007),
        ('{"kind":"dance"}', 1007),
        ('{"kind":"text","text":"x","more":1}', 1007),
        ("[" * 100_000, 1007),
        (b"\0\1\2", 1003),
        (b"", 1003),
    ],
    ids=["half", "empty", "null", "unknown", "field", "deep", "bytes", "no-bytes"],
)
async def test_nonsense_is_answered_and_then_ends_the_connection(yard: Yard, frame: str | bytes, code: int) -> None:
    viewer, closed = await let_go(yard, frame)
    assert closed == (code, f"{sockets.NONSENSE} frames were not valid")
    assert [error.problem.kind for error in viewer.errors] == ["bad_request"] * sockets.NONSENSE


async def test_now_and_then_some_nonsense_is_only_answered(yard: Yard) -> None:
    terminal = await opened(yard, "cat")
    async with watch(yard, terminal) as viewer:
        for _ in range(3):
            for _ in range(sockets.NONSENSE - 1):
                await viewer.socket.send("?")
            await viewer.say(Refresh())
        await viewer.until(lambda viewer: len(viewer.errors) == 3 * (sockets.NONSENSE - 1))
        await viewer.take()


async def test_too_large_a_frame_ends_the_connection(yard: Yard) -> None:
    _, closed = await let_go(yard, "x" * (FRAME_LIMIT + 1))
    assert closed[0] == 1009


async def test_the_largest_frame_is_understood(yard: Yard) -> None:
    terminal = await opened(yard, "cat")
    async with watch(yard, terminal) as viewer:
        frame = encode_message(Paste(text=""))
        await viewer.take()
        await viewer.socket.send(frame.replace('""', f'"{"x" * (FRAME_LIMIT - len(frame))}"'))
        await viewer.until(lambda viewer: viewer.errors)  # a megabyte is more than a program's input holds
        assert viewer.errors[0].problem.kind in ("too_many", "bad_request")


async def test_too_many_frames_are_told_and_then_end_the_connection(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "BURST", 100)
    monkeypatch.setattr(sockets, "OVERDUE", 50)
    viewer, closed = await let_go(yard, encode_message(Ack(offset=0)))
    assert closed == (1008, "too many frames")
    assert {error.problem.kind for error in viewer.errors} == {"too_many"}


@pytest.mark.parametrize("follows", [False, True])
async def test_who_insists_on_what_is_denied_is_let_go(yard: Yard, follows: bool) -> None:
    session = await session_of(yard)
    terminal = await opened(yard, "cat", session=session)
    path = f"/api/sessions/{session}/terminal/ws" if follows else f"/api/terminals/{terminal}/ws"
    async with watching(yard.ws + path, yard.bearer("view")) as viewer:
        await viewer.until(lambda viewer: viewer.snapshots)
        for number in range(600):
            await viewer.say(Type(text="x", n=number))
        assert (await viewer.until_closed())[0] == 1008
        assert {error.problem.kind for error in viewer.errors} == {"denied", "too_many"}


def test_what_a_viewer_may_send_grows_with_time_and_with_what_it_is_sent() -> None:
    now = 0.0
    allowance = sockets.Allowance(lambda: now)
    assert [allowance.spend() for _ in range(sockets.BURST)] == [False] * sockets.BURST
    assert [allowance.spend() for _ in range(3)] == [True, False, False]
    for _ in range(sockets.OVERDUE - 3):
        allowance.spend()
    assert not allowance.overdue
    allowance.spend()
    assert allowance.overdue
    now = 1000.0
    allowance.spend()
    assert not allowance.overdue
    for _ in range(10 * sockets.BURST):  # every frame that it was sent may be acknowledged
        allowance.earn()
        assert not allowance.spend()


async def test_who_leaves_in_the_middle_leaves_nothing_behind(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    flood = ["sh", "-c", "while :; do echo flood flood flood; done"]
    terminal = await yard.ostler.terminals.open(await session_of(yard), flood)
    for _ in range(5):
        async with watch(yard, terminal.row.id) as viewer:
            await viewer.until(lambda viewer: viewer.output)
            assert terminal.live.viewers > 0
            viewer.socket.transport.abort()
    await until(lambda: terminal.live.viewers == 0 and yard.site.gateway.staying("websocket") == 0)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


# -- the connection itself --------------------------------------------------------------------------------


@asynccontextmanager
async def flooded(**options: Any) -> AsyncIterator[tuple[uvicorn.Server, int, asyncio.Event]]:
    """A server of this connection that sends all it can to whoever comes; the event: its viewer has gone."""
    gone = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        try:
            while True:
                await send({"type": "websocket.send", "bytes": bytes(65536)})
        except OSError:
            gone.set()

    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, lifespan="off", log_config=None, **{**connection.SETTINGS, **options})
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve([listening]))
    await until(lambda: server.started)
    try:
        yield server, listening.getsockname()[1], gone
    finally:
        server.should_exit = True
        await running


def by_hand(port: int) -> socket.socket:
    end = socket.create_connection(("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    end.sendall(
        f"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    return end


async def test_a_peer_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALLED", 0.5)
    async with flooded(ws_ping_interval=None) as (server, port, gone):
        with by_hand(port):
            async with asyncio.timeout(PATIENCE):
                await gone.wait()
                await until(lambda: not server.server_state.connections)


async def test_a_peer_that_takes_nothing_does_not_hold_up_the_end() -> None:
    async with flooded(timeout_graceful_shutdown=60) as (server, port, gone):
        with by_hand(port):
            await until(lambda: server.server_state.connections)
            server.should_exit = True
            async with asyncio.timeout(PATIENCE):
                await gone.wait()
