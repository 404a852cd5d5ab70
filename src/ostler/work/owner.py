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

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
_REQUEST_LIMIT = 1024 * 1024
_PATIENCE = 5.0


class OwnerDesk:
    """This process as an owner: its row in the store, and the socket where others reach it."""

    def __init__(self, store: Store, role: str) -> None:
        self.store = store
        self.id = secrets.token_hex(8)
        self._role = role
        self._folder = Path(store.folder) / "run"
        self._server: asyncio.Server | None = None

    async def open(self, answer: Answer) -> None:
        private_folder(self._folder)
        path = self._folder / f"{self.id}.sock"
        listening = _listen(self._folder, path.name)
        self._server = await asyncio.start_unix_server(
            lambda r, w: _serve(r, w, answer), sock=listening, limit=_REQUEST_LIMIT
        )
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


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    try:
        request = msgspec.json.decode(await asyncio.wait_for(reader.readline(), _PATIENCE))
        reply = await answer(request)
    except OstlerError as error:
        reply = {"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}
    except (msgspec.DecodeError, ValueError, TimeoutError, OSError) as error:
        reply = {"error": {"kind": "bad_request", "message": str(error) or type(error).__name__}}
    try:
        writer.write(msgspec.json.encode(reply) + b"\n")
        await asyncio.wait_for(writer.drain(), _PATIENCE)
    except (OSError, TimeoutError):
        pass
    finally:
        writer.close()


async def ask_owner(owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Sends one request to another owner. Raises its error, or crashed when it does not answer."""
    folder = os.open(os.path.dirname(owner.socket), os.O_RDONLY | os.O_DIRECTORY)
    try:
        path = f"/proc/self/fd/{folder}/{os.path.basename(owner.socket)}"
        reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(path), _PATIENCE)
        try:
            writer.write(msgspec.json.encode(request) + b"\n")
            reply: dict[str, Any] = msgspec.json.decode(await asyncio.wait_for(reader.readline(), _PATIENCE * 4))
        finally:
            writer.close()
    except (OSError, TimeoutError, msgspec.DecodeError) as error:
        raise OstlerError("crashed", f"the ostler process {owner.pid} does not answer: {error}") from error
    finally:
        os.close(folder)
    if problem := reply.get("error"):
        raise OstlerError(problem["kind"], problem["message"], problem.get("hint", ""))
    return reply


def alive(owner: Owner) -> bool:
    """Whether that very process still runs: a pid alone may have been given away, or the machine rebooted."""
    return owner.boot_id == tree.boot_id() and tree.identity(owner.pid) == owner.start_time


async def end_orphaned_turns(store: Store, abandoned: Collection[str] = ()) -> list[TurnRow]:
    """Ends the turns of dead owners as crashed, with what is left of their processes.

    `abandoned` are turns of our own whose end could not be written when it came.
    """
    owners = {owner.id: owner for owner in store.owners()}
    dead = {id for id, owner in owners.items() if not alive(owner)}
    orphaned = [
        row for row in store.running_turns() if row.owner in dead or row.owner not in owners or row.id in abandoned
    ]
    if orphaned:
        await asyncio.to_thread(tree.end_marked, [row.id for row in orphaned])
    gone = Problem(
        kind="crashed",
        message="the ostler process that ran this turn is gone",
        hint="Run again with --session to go on",
    )
    for row in orphaned:
        await end_unwatched(store, row, "crashed", gone)
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
