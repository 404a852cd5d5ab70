"""Turns of nodes that run on another machine, through the server of this one.

The process of a run may die while they go on there: with the same key the same turn is found again. Nothing is begun
elsewhere by itself while it may still run: a machine that stays away is the node's failure, and `retry` begins anew.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import structs

from ostler import clock
from ostler.errors import ErrorKind, OstlerError
from ostler.machines.event_stream import ServerEvent
from ostler.machines.on_option import check_known, placement_of
from ostler.machines.remotes import remote_of
from ostler.model import OF_SESSION, Attachment, Envelope, TurnOptions
from ostler.pipelines.local_turns import DIFF
from ostler.pipelines.model import Node, Pipeline
from ostler.work import Ostler

PATIENCE = 30.0  # seconds for which a machine, or the server of this one, may be away while a turn is waited for
_AGAIN = 0.25

Result = TypeVar("Result")


class PassedAnswer(Protocol):
    @property
    def body(self) -> bytes: ...
    @property
    def machine(self) -> str: ...


class OwnServer(Protocol):
    """The server of this machine: what is asked of it goes on to the machine that has it."""

    async def send(self, method: str, target: str, body: Any = None, key: str = "") -> PassedAnswer: ...
    def stream(self, target: str) -> AsyncIterator[ServerEvent]: ...


async def check_places(server: OwnServer, pipeline: Pipeline) -> None:
    """Raises unsupported for a node whose machine has not joined; not_found where no server runs here."""
    if not any(node.on for node in pipeline.nodes):
        return
    check_pipeline_places(pipeline, _there(await _asked(server, "GET", "/api/machines")))


def check_pipeline_places(pipeline: Pipeline, labels: dict[str, tuple[str, ...]]) -> None:
    """Raises unsupported. `labels`: those of each machine that has joined, by its name."""
    for node in pipeline.nodes:
        try:
            if node.on:
                check_known(node.on, labels)
        except OstlerError as error:
            raise OstlerError(error.kind, f"nodes.{node.name}.on: {error.message}", error.hint) from error


class FarTurns:
    """As `LocalTurns`. Errors are those that the other machine tells."""

    def __init__(self, ostler: Ostler, server: OwnServer, cancelled: asyncio.Event) -> None:
        self._o, self._server, self._cancelled = ostler, server, cancelled
        self._machines: dict[str, str] = {}  # of turns
        self._left = False

    def leave(self) -> None:
        """Nothing is cancelled any more: another machine waits for these turns."""
        self._left = True

    async def has(self, session: str, lost: bool) -> bool:
        """Only its machine knows, and says so when its next turn begins; unless that may be the one that was lost."""
        if not lost:
            return True
        try:
            await _asked(self._server, "GET", f"/api/sessions/{session}")
        except OstlerError:
            return False
        return True

    async def new_session(self, node: Node, folder: str) -> str:
        """Where `on` says: in the node's folder there, else in that of the same repository, else at the same path."""
        there = _there(await _asked(self._server, "GET", "/api/machines"))
        check_known(node.on, there)
        where: dict[str, Any] = placement_of(node.on, there)
        if node.folder:
            where["folder"] = node.folder
        elif remote := remote_of(folder):
            where["repo"] = remote
        else:
            where["folder"] = folder
        options = node.options
        given = {name: getattr(options, name) for name in OF_SESSION}
        given = {name: value for name, value in given.items() if value is not None}
        body = {"agent": node.agent, **given, **where}
        # One that fits may be away, or have just started and told of no agents yet.
        kinds: tuple[ErrorKind, ...] = ("crashed", "unsupported")
        made = await self._patiently(lambda: _asked(self._server, "POST", "/api/sessions", body), kinds)
        return str(made["id"])

    async def resumes(self, session: str) -> bool:
        row = await self._patiently(lambda: _asked(self._server, "GET", f"/api/sessions/{session}"))
        agent = self._o.setup.agents.get(row["served_by"] or row["agent"])
        return row["agent_session"] is not None and agent is not None and agent.resumes

    async def begin(self, session: str, prompt: str, node: Node, key: str) -> str:
        body = {"prompt": prompt, "wait": True, **_turn_body(node.options)}
        target = f"/api/sessions/{session}/turns"
        answer = await self._patiently(lambda: self._server.send("POST", target, body, key))
        turn = str(msgspec.json.decode(answer.body)["id"])
        self._machines[turn] = answer.machine
        return turn

    async def ended(self, turn: str) -> Envelope:
        """On a cancel of the run it is cancelled there; then its end is waited for."""
        waiting = asyncio.create_task(self._until_ended(turn))
        stop = asyncio.create_task(self._cancelled.wait())
        try:
            await asyncio.wait({waiting, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and self._left:
                raise OstlerError("cancelled", "another machine has taken over the run")
            if not waiting.done():
                await _asked(self._server, "POST", f"/api/turns/{turn}/cancel")
            return await waiting
        finally:
            for task in (waiting, stop):
                task.cancel()
            await asyncio.gather(waiting, stop, return_exceptions=True)

    async def _until_ended(self, turn: str) -> Envelope:
        target = f"/api/turns/{turn}"
        while (row := await self._patiently(lambda: _asked(self._server, "GET", target)))["state"] != "ended":
            with suppress(OstlerError):  # it broke off: what is wrong is told when the turn is looked at again
                await self._follow(turn, row["session"])
            await asyncio.sleep(_AGAIN)
        return msgspec.convert(
            await self._patiently(lambda: _asked(self._server, "GET", f"{target}/envelope")), Envelope
        )

    async def _follow(self, turn: str, session: str) -> None:
        """Waits until the journal has the end of the turn, or cannot be followed any more."""
        async for event in self._server.stream(f"/api/sessions/{session}/events"):
            if event.kind == "ended" and msgspec.json.decode(event.data)["turn"] == turn:
                return

    async def successor(self, envelope: Envelope) -> str | None:
        if envelope.handed_to is None:
            return None
        target = f"/api/sessions/{envelope.handed_to}/turns"
        turns = (await self._patiently(lambda: _asked(self._server, "GET", target)))["items"]
        return str(turns[0]["id"]) if turns else None

    async def diff(self, envelope: Envelope) -> str:
        if "diff" not in envelope.artifacts:
            return ""
        target = f"/api/turns/{envelope.turn}/artifacts/diff"
        answer = await self._patiently(lambda: self._server.send("GET", target))
        return answer.body.decode(errors="replace")[:DIFF]

    def machine(self, turn: str) -> str:
        return self._machines.get(turn, "")

    async def _patiently(
        self, ask: Callable[[], Awaitable[Result]], kinds: tuple[ErrorKind, ...] = ("crashed",)
    ) -> Result:
        """Asks again while the machine is away. Raises crashed when it stays so, or the run is cancelled."""
        deadline, away = None, OstlerError("crashed", "")
        while deadline is None or clock.monotonic() < deadline:
            try:
                return await ask()
            except OstlerError as error:
                if error.kind not in kinds or self._cancelled.is_set():
                    raise
                away, deadline = error, deadline or clock.monotonic() + PATIENCE
            await asyncio.sleep(_AGAIN)
        raise away


async def _asked(server: OwnServer, method: str, target: str, body: Any = None) -> Any:
    return msgspec.json.decode((await server.send(method, target, body)).body)


def _there(answer: Any) -> dict[str, tuple[str, ...]]:
    """The labels of the machines that have joined and not left, by name."""
    return {each["name"]: tuple(each["labels"]) for each in answer["items"] if each["state"] != "gone"}


def _turn_body(options: TurnOptions) -> dict[str, Any]:
    """What was said; `false`, 0 and an empty list are said, too: they stand against a profile or the settings there."""
    given: dict[str, Any] = msgspec.to_builtins(options)  # without defaults
    if options.limits is not None:
        given["limits"] = structs.asdict(options.limits)
    if options.attachments:
        given["attachments"] = [_attachment(each) for each in options.attachments]
    return given


def _attachment(attached: Attachment | str) -> dict[str, str]:
    """A file is one of the folder there."""
    if isinstance(attached, str):
        return {"path": attached}
    if attached.content is not None:
        return {"name": attached.name, "content": attached.content}
    return {"path": os.path.normpath(attached.path), **({"type": attached.type} if attached.type else {})}
