"""Who owns what: each ostler process has a row and a private socket, and dead owners are found.

The process that runs a session's turn owns it. Others send it requests over its socket.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import msgspec

from ostler.errors import OstlerError
from ostler.process import tree
from ostler.store import Store
from ostler.store.files import private_folder
from ostler.words import AnyEvent, Ended, Outcome, Owner, Problem, TurnRow
from ostler.work.envelope import unwatched_envelope

Request = dict[str, Any]
Answer = Callable[[Request], Awaitable[dict[str, Any]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Stream = Callable[[Request, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_REQUEST_LIMIT = 4 << 20
_REPLY_LIMIT = 64 << 20  # a screen with all its scrollback
PATIENCE = 5.0
_FAREWELL = 1.0  # seconds in which viewers take what is left for them


class OwnerDesk:
    """This process as an owner: its row in the store, and the socket where others reach it."""

    def __init__(self, store: Store, role: str) -> None:
        self.store = store
        self.id = secrets.token_hex(8)
        self._role = role
        self._folder = Path(store.folder) / "run"
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, answer: Answer, stream: Stream) -> None:
        """`answer` replies to a request; one to `view` gets the connection itself, in `stream`."""
        private_folder(self._folder)
        path = self._folder / f"{self.id}.sock"
        listening = _listen(self._folder, path.name)

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_serve(reader, writer, answer, stream))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        self._server = await asyncio.start_unix_server(connected, sock=listening, limit=_REQUEST_LIMIT)
        await self.store.add_owner(
            Owner(
                id=self.id,
                pid=os.getpid(),
                start_time=tree.identity(os.getpid()) or 0,
                boot_id=tree.boot_id(),
                socket=str(path),
                role=self._role,
                started_at=time.time(),
            )
        )

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        (self._folder / f"{self.id}.sock").unlink(missing_ok=True)
        if self._connections:
            await asyncio.wait(self._connections, timeout=_FAREWELL)
        left = list(self._connections)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.store.remove_owner(self.id)


def _listen(folder: Path, name: str) -> socket.socket:
    """A listening socket, 0600. Bound through the folder's fd: a socket's path may have 107 bytes only."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"/proc/self/fd/{fd}/{name}")
        os.chmod(name, 0o600, dir_fd=fd)
    finally:
        os.close(fd)
    listening.setblocking(False)
    return listening


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, stream: Stream) -> None:
    try:
        reply = await _served(reader, writer, answer, stream)
        if reply is not None:
            await say(writer, reply)
    except (OSError, TimeoutError):
        pass  # whoever asked has left
    except BaseException:
        writer.transport.abort()
        raise
    finally:
        await hang_up(writer)


async def _served(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, stream: Stream
) -> dict[str, Any] | None:
    """The answer to one request; None when all was said on the way."""
    try:
        request = msgspec.json.decode(await asyncio.wait_for(reader.readline(), PATIENCE))
        if not isinstance(request, dict):
            raise OstlerError("bad_request", "unknown request")
        if request.get("op") != "view":
            return await answer(request)
        await stream(request, reader, writer)
        return None
    except OstlerError as error:
        return {"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}
    except (msgspec.MsgspecError, ValueError, TimeoutError, OSError) as error:
        return {"error": {"kind": "bad_request", "message": str(error) or type(error).__name__}}


async def say(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """One line of JSON."""
    writer.write(msgspec.json.encode(message) + b"\n")
    await asyncio.wait_for(writer.drain(), PATIENCE)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Closes once all was taken, or shortly after."""
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), PATIENCE)
    except (OSError, TimeoutError):
        writer.transport.abort()


async def ask_owner(owner: Owner, request: Request) -> dict[str, Any]:
    """Sends one request to another owner. Raises its error, or crashed when it does not answer."""
    reader, writer = await connected(owner, _REPLY_LIMIT)
    try:
        return await asked(owner, request, reader, writer)
    finally:
        writer.close()


async def connected(owner: Owner, limit: int) -> Streams:
    """A connection to another owner; whoever asked for it closes it. Raises crashed.

    `limit`: bytes that may come before they are read, and in one line.
    """
    try:
        folder = os.open(os.path.dirname(owner.socket), os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _silent(owner, error) from error
    try:
        path = f"/proc/self/fd/{folder}/{os.path.basename(owner.socket)}"
        return await asyncio.wait_for(asyncio.open_unix_connection(path, limit=limit), PATIENCE)
    except (OSError, TimeoutError) as error:
        raise _silent(owner, error) from error
    finally:
        os.close(folder)


async def asked(
    owner: Owner, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> dict[str, Any]:
    """The first answer on a connection. Raises the error that it is, or crashed."""
    try:
        await say(writer, request)
        reply: dict[str, Any] = msgspec.json.decode(await asyncio.wait_for(reader.readline(), PATIENCE * 4))
    except (OSError, TimeoutError, ValueError) as error:
        raise _silent(owner, error) from error
    if problem := reply.get("error"):
        raise OstlerError(problem["kind"], problem["message"], problem.get("hint", ""))
    return reply


def _silent(owner: Owner, error: Exception) -> OstlerError:
    return OstlerError("crashed", f"the ostler process {owner.pid} does not answer: {error}")


def alive(owner: Owner) -> bool:
    """Whether that very process still runs: a pid alone may have been given away, or the machine rebooted."""
    return owner.boot_id == tree.boot_id() and tree.identity(owner.pid) == owner.start_time


async def end_orphaned_turns(store: Store, abandoned: Collection[str] = ()) -> list[TurnRow]:
    """Ends the turns of dead owners as crashed and their terminals, with what is left of their processes.

    `abandoned` are turns of our own whose end could not be written when it came.
    """
    owners = {owner.id: owner for owner in store.owners()}
    dead = {id for id, owner in owners.items() if not alive(owner)}
    orphaned = [
        row for row in store.running_turns() if row.owner in dead or row.owner not in owners or row.id in abandoned
    ]
    terminals = [row for row in store.terminals(live=True) if row.owner in dead or row.owner not in owners]
    if orphaned or terminals:
        marks = {row.id for row in orphaned} | {row.id for row in terminals}
        await asyncio.to_thread(tree.end_marked, marks)
    gone = Problem(
        kind="crashed",
        message="the ostler process that ran this turn is gone",
        hint="Run again with --session to go on",
    )
    for row in orphaned:
        await end_unwatched(store, row, "crashed", gone)
    for terminal in terminals:
        await store.end_terminal(terminal.id, ended_at=time.time(), pid=None)
    for id in dead:
        Path(owners[id].socket).unlink(missing_ok=True)
        await store.remove_owner(id)
    return orphaned


async def end_unwatched(store: Store, row: TurnRow, outcome: Outcome, problem: Problem) -> None:
    """Ends a turn that nobody carries: its owner is gone, or it never left the queue."""
    session = store.session(row.session)
    envelope = unwatched_envelope(row, outcome, problem, session.agent_session if session else None)
    last: list[AnyEvent] = []
    if row.state != "queued":  # one that never began has no events, and the journal may be another's just now
        seq = store.last_seq(row.session) + 1
        last.append(Ended(seq=seq, at=time.time(), turn=row.id, outcome=outcome, error=problem))
    await store.end_turn(row.id, last=last, envelope=envelope, counters=None, session_changes={})
