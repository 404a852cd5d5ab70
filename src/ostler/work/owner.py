"""Who owns what: each ostler process has a row and a private socket, and dead owners are found.

The process that runs a session's turn owns it. Others send it requests over its socket.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ostler import clock
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Ended, Outcome, Owner, Problem, TurnRow
from ostler.process import tree
from ostler.store import Store
from ostler.store.files import private_folder
from ostler.work import leftovers
from ostler.work.owner_requests import OwnerRequest, read_request
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.turns.envelope import unwatched_envelope

OwnerReply = dict[str, Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handle = Callable[[OwnerRequest, Streams], Awaitable[OwnerReply | None]]
_REQUEST_LIMIT = 4 << 20
_REPLY_LIMIT = 64 << 20  # a screen with all its scrollback
PATIENCE = 5.0
_DRAIN_LIMIT = 1.0  # seconds in which viewers take what is left for them
_log = logging.getLogger(__name__)
_CLOSED: set[str] = set()  # owners of this process that closed while the store could not be written


class OwnerDesk:
    """This process as an owner: its row in the store, and the socket where others reach it."""

    def __init__(self, store: Store, role: str) -> None:
        self.store = store
        self.id = os.urandom(8).hex()
        self._role = role
        self._folder = Path(store.folder) / "run"
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, handle: Handle) -> None:
        """`handle` replies to a request, or uses the connection itself and returns None."""
        private_folder(self._folder)
        path = self._folder / f"{self.id}.sock"
        listening = _listen(self._folder, path.name)

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_serve((reader, writer), handle))
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
                started_at=clock.now(),
            )
        )

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        (self._folder / f"{self.id}.sock").unlink(missing_ok=True)
        if self._connections:
            await asyncio.wait(self._connections, timeout=_DRAIN_LIMIT)
        left = list(self._connections)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        _CLOSED.add(self.id)
        await self.store.remove_owner(self.id)
        _CLOSED.discard(self.id)


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


async def _serve(streams: Streams, handle: Handle) -> None:
    writer = streams[1]
    try:
        reply = await _reply_to(streams, handle)
        if reply is not None:
            await send_line(writer, reply)
    except (OSError, TimeoutError) as error:
        _log.debug("another ostler asked something and left: %s", error)
    except BaseException:
        writer.transport.abort()
        raise
    finally:
        await close_writer(writer)


async def _reply_to(streams: Streams, handle: Handle) -> OwnerReply | None:
    """The reply to one request; None when the connection was used for more than that."""
    try:
        request = read_request(await asyncio.wait_for(streams[0].readline(), PATIENCE))
        _log.debug("another ostler asks for %s", type(request).__name__)
        return await handle(request, streams)
    except OstlerError as error:
        _log.debug("it was refused: %s", error)
        return {"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}
    except (msgspec.MsgspecError, ValueError, TimeoutError, OSError) as error:
        return {"error": {"kind": "bad_request", "message": str(error) or type(error).__name__}}


async def send_line(writer: asyncio.StreamWriter, message: OwnerRequest | OwnerReply) -> None:
    """One line of JSON."""
    writer.write(msgspec.json.encode(message) + b"\n")
    await asyncio.wait_for(writer.drain(), PATIENCE)


async def close_writer(writer: asyncio.StreamWriter) -> None:
    """Closes once all was taken, or shortly after."""
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), PATIENCE)
    except (OSError, TimeoutError):
        writer.transport.abort()


async def ask_owner(owner: Owner, request: OwnerRequest) -> OwnerReply:
    """Sends one request to another owner. Raises its error, or crashed when it does not answer."""
    _log.debug("asking the ostler process %d for %s", owner.pid, type(request).__name__)
    streams = await connect(owner, _REPLY_LIMIT)
    try:
        return await send_request(owner, request, streams)
    finally:
        streams[1].close()


async def connect(owner: Owner, limit: int) -> Streams:
    """A connection to another owner; whoever asked for it closes it. Raises crashed.

    `limit`: bytes that may come before they are read, and in one line.
    """
    try:
        folder = os.open(os.path.dirname(owner.socket), os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _no_answer(owner, error) from error
    try:
        path = f"/proc/self/fd/{folder}/{os.path.basename(owner.socket)}"
        return await asyncio.wait_for(asyncio.open_unix_connection(path, limit=limit), PATIENCE)
    except (OSError, TimeoutError) as error:
        raise _no_answer(owner, error) from error
    finally:
        os.close(folder)


async def send_request(owner: Owner, request: OwnerRequest, streams: Streams) -> OwnerReply:
    """The reply to the first request on a connection. Raises the error that it is, or crashed."""
    reader, writer = streams
    try:
        await send_line(writer, request)
        reply: OwnerReply = msgspec.json.decode(await asyncio.wait_for(reader.readline(), PATIENCE * 4))
    except (OSError, TimeoutError, ValueError) as error:
        raise _no_answer(owner, error) from error
    if problem := reply.get("error"):
        raise OstlerError(problem["kind"], problem["message"], problem.get("hint", ""))
    return reply


def _no_answer(owner: Owner, error: Exception) -> OstlerError:
    return OstlerError("crashed", f"the ostler process {owner.pid} does not answer: {error}")


def alive(owner: Owner) -> bool:
    """Whether that very process still runs: a pid alone may have been given away, or the machine rebooted."""
    if owner.id in _CLOSED:
        return False
    return owner.boot_id == tree.boot_id() and tree.identity(owner.pid) == owner.start_time


class Orphans(Struct, frozen=True):
    """Turns of dead owners: those that were found, and those of them that nobody else ended first."""

    found: list[TurnRow]
    ended: list[TurnRow]


Adopt = Callable[[TurnRow], Awaitable[bool]]  # whether the turn goes on


async def end_orphaned_turns(store: Store, adopt: Adopt | None = None) -> Orphans:
    """Ends the turns of dead owners as crashed and their terminals, with what is left of their processes.

    One that runs in a pane may be carried on instead: `adopt` says so.
    """
    running, live = store.running_turns(), store.terminals(live=True)
    owners = {owner.id: owner for owner in store.owners()}  # after them: one may register and begin a turn meanwhile
    dead = {id for id, owner in owners.items() if not alive(owner)}
    orphaned = [row for row in running if row.owner in dead or row.owner not in owners]
    if adopt is not None:
        orphaned = [row for row in orphaned if not TRANSPORT_FACTS[row.turn.transport].survives or not await adopt(row)]
    terminals = [row for row in live if row.owner in dead or row.owner not in owners]
    if orphaned or terminals:
        _log.info("ending %d turns and %d terminals of processes that are gone", len(orphaned), len(terminals))
        marks = {_mark_of(row) for row in orphaned} | {row.id for row in terminals}
        await asyncio.to_thread(tree.end_marked, marks)
    if orphaned or leftovers.something_left(store.folder, owners.keys() - dead):
        await asyncio.to_thread(_clean_up, store, orphaned, owners.keys() - dead)
    gone = Problem(
        kind="crashed",
        message="the ostler process that ran this turn is gone, and did not write how it ended",
        hint="Run again with --session to continue",
    )
    ended = [row for row in orphaned if await end_unwatched(store, row, "crashed", gone)]
    for terminal in terminals:
        await store.end_terminal(terminal.id, ended_at=clock.now(), pid=None)
    for id in dead:
        Path(owners[id].socket).unlink(missing_ok=True)
        await store.remove_owner(id)
    return Orphans(orphaned, ended)


def _mark_of(row: TurnRow) -> str:
    """What its processes carry: those of a dialog, which are for many turns, that of the session."""
    return row.session if TRANSPORT_FACTS[row.turn.transport].is_dialog else row.id


def _clean_up(store: Store, orphaned: list[TurnRow], living: Collection[str]) -> None:
    leftovers.remove_leftovers(store.folder)
    leftovers.remove_scratch(store.folder, orphaned)
    leftovers.remove_sockets(store.folder / "run", living)


async def end_unwatched(store: Store, row: TurnRow, outcome: Outcome, problem: Problem) -> bool:
    """Ends a turn that nobody carries: its owner is gone, or it never left the queue. False: it had ended."""
    session = store.session(row.session)
    envelope = unwatched_envelope(row, outcome, problem, session.agent_session if session else None)
    last: list[AnyEvent] = []
    if row.state != "queued":  # one that never began has no events, and the journal may be another's just now
        seq = store.last_seq(row.session) + 1
        last.append(Ended(seq=seq, at=clock.now(), turn=row.id, outcome=outcome, error=problem))
    return await store.end_turn(row.id, last=last, envelope=envelope, counters=None, session_changes={}) is not None
