"""The hooks of one attempt at a turn: journaled, put to rules and people, and evidence for whoever runs it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, structs

from ostler import clock
from ostler.agents import Agent
from ostler.agents.dialog import AnswerKind
from ostler.agents.hooks import HookFace, asked_by, session_of
from ostler.errors import OstlerError, quoted
from ostler.model import Answered, AnyEvent, Asked, Hook, Notice, Turn
from ostler.settings import Settings
from ostler.store import Redactor
from ostler.work.dialogs.ask_rules import decide
from ostler.work.dialogs.asks import AskAnswer, Asks
from ostler.work.hooks.intake import Intake, Refused, Repeated, Taken, shortened

ASK = "hook-"  # how the ids of its asks begin
_EVIDENCE = 1000  # hooks that wait for whoever runs the turn

_log = logging.getLogger(__name__)


class Journaling(Struct, frozen=True, kw_only=True):
    """What hooks need of the turn that they belong to."""

    add: Callable[[list[AnyEvent]], Awaitable[None]]
    confirm: Callable[[str, bool], Awaitable[None]]  # the agent's own session id; True: it has a new one by now
    set_asking: Callable[[bool], Awaitable[None]]
    settings: Settings


class HookReply(Struct, frozen=True, kw_only=True):
    """What the hook is told: with 200, what it prints."""

    status: int = 204
    body: bytes = b""


class Fired(Struct, frozen=True, kw_only=True):
    """A hook as evidence: what it says of the turn, by the agent's own rules."""

    name: str
    at: float
    payload: dict[str, Any]
    starts: bool = False
    submits: bool = False  # a prompt was taken up
    uses_tool: bool = False  # it calls a tool, or has called one
    ends: bool = False  # the turn is over
    proves: bool = False  # and the agent says that it went well
    leaves: bool = False  # the process is about to exit


def fired_hook(face: HookFace, name: str, payload: dict[str, Any], at: float) -> Fired:
    return Fired(
        name=name,
        at=at,
        payload=payload,
        starts=name == face.start,
        submits=name == face.submits,
        uses_tool=name in (face.before_tool, face.after_tool),
        ends=name in face.ends,
        proves=name in face.proves,
        leaves=name == face.leaves,
    )


class HookTurn:
    """Takes the hooks of one launch. After `close` they are late: `callbacks` keeps them, and nothing changes."""

    def __init__(
        self, turn: Turn, agent: Agent, redactor: Redactor, journaling: Journaling, before: tuple[AnyEvent, ...] = ()
    ) -> None:
        """`before`: what the journal has of a turn that is taken up again."""
        assert agent.hooks is not None
        self.turn, self.redactor = turn, redactor
        self.face: HookFace = agent.hooks
        self.fired = list(dict.fromkeys(e.name for e in before if isinstance(e, Hook)))  # names, each once, in order
        self.intake = Intake()
        self.closed_at: float | None = None
        self._to = journaling
        rules = partial(decide, rules=journaling.settings.asks, turn=turn, agent=agent)
        self._rules = rules
        self._asks = Asks(rules, self._give, journaling.settings.ask_limit)
        self._replies: dict[bytes, asyncio.Future[HookReply]] = {}  # to tool calls, by the digest of their hook
        self._answers: dict[str, asyncio.Future[tuple[AnswerKind, str]]] = {}
        self._count = sum(isinstance(event, Asked) and event.id.startswith(ASK) for event in before)
        self._evidence: asyncio.Queue[Fired | None] = asyncio.Queue(_EVIDENCE)

    @property
    def asking(self) -> bool:
        """Somebody is being asked: silence of the agent is no wonder."""
        return bool(self._answers)

    async def events(self) -> AsyncIterator[Fired]:
        """Hooks as they come, for one reader, until the turn is over."""
        while (fired := await self._evidence.get()) is not None:
            yield fired

    async def take(self, event: str, body: bytes) -> HookReply:
        """What to tell the hook; the same where it is told again. Raises OstlerError("store") where it could not be
        journaled.
        """
        taken = self.intake.take(event, body, clock.monotonic())
        if isinstance(taken, Refused):
            await self._refused(taken)
            return HookReply(status=taken.status, body=b"")
        if isinstance(taken, Repeated):
            first = self._replies.get(taken.digest)
            return await asyncio.shield(first) if first is not None else HookReply()
        if taken.name != self.face.before_tool:
            return await self._reply(taken)
        replied = self._replies[taken.digest] = asyncio.get_running_loop().create_future()
        reply = HookReply(status=503)  # for who tells it again, if this fails
        try:
            reply = await self._reply(taken)
        finally:
            replied.set_result(reply)
        return reply

    async def _reply(self, taken: Taken) -> HookReply:
        name, payload = taken.name, taken.payload
        await self._to.add([Hook(name=name, payload=shortened(payload), quiet=True)])
        self._add_evidence(taken)
        if name == self.face.start and (session := session_of(payload)):
            await self._to.confirm(session, payload.get("source") == "clear")
        if name != self.face.before_tool:
            return HookReply()
        said = await self._decided(payload)
        return HookReply(status=200, body=msgspec.json.encode(said)) if said is not None else HookReply()

    async def answer(self, answer: AskAnswer) -> None:
        """Raises not_found, bad_request."""
        await self._asks.answer(answer)

    async def add_late(self, hook: Hook) -> None:
        """A hook of an earlier turn of the session, which this one's journal keeps."""
        await self._to.add([hook])

    def close(self) -> None:
        """The turn is over: nobody can answer any more, and what still comes is late."""
        self.closed_at = clock.monotonic()
        self._asks.close()
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_result(("cancelled", ""))
        if self._evidence.full():
            self._evidence.get_nowait()
        self._evidence.put_nowait(None)

    def _add_evidence(self, taken: Taken) -> None:
        if taken.name not in self.fired:
            self.fired.append(taken.name)
        if self._evidence.full():
            self._evidence.get_nowait()  # nobody reads it, or not for long: the newest counts
        self._evidence.put_nowait(fired_hook(self.face, taken.name, taken.payload, clock.now()))

    async def _refused(self, refused: Refused) -> None:
        if refused.status == 429 and not self.intake.flooded:
            self.intake.flooded = True
            _log.warning("turn %s: too many hooks; some are left out", self.turn.id)
            await self._to.add([Notice(code="hooks_flood", text="too many hooks arrived; some were left out")])

    # -- before a tool call

    async def _decided(self, payload: dict[str, Any]) -> Any:
        """What rules or a person say of the call; None: nothing, and the agent's own rules decide."""
        self._count += 1
        asked = asked_by(payload, f"{ASK}{self._count}", self.turn.folder)
        if self.turn.hooks != "ask":
            ruling, by = self._rules(asked)
            return await self._by_rule(asked, by) if ruling == "deny" else None
        asked = structs.replace(asked, expires_at=self._asks.expires_at())
        ruled = self._asks.opened(asked)
        if ruled is not None:
            kind, by = ruled
            await self._to.add([asked, Answered(id=asked.id, option=kind, by=by)])
            return self._hook_answer(kind, f"denied by {by}")
        return await self._by_person(asked)

    async def _by_rule(self, asked: Asked, by: str) -> Any:
        await self._to.add([asked, Answered(id=asked.id, option="reject_once", by=by)])
        return self.face.denies(f"denied by {by}")

    async def _by_person(self, asked: Asked) -> Any:
        waiting = self._answers[asked.id] = asyncio.get_running_loop().create_future()
        try:
            await self._to.set_asking(True)
            await self._to.add([asked])
            kind, message = await waiting
        finally:
            del self._answers[asked.id]
        if self.closed_at is None and not self._answers:
            await self._to.set_asking(False)
        return self._hook_answer(kind, message or "denied in ostler")

    async def _give(self, ask: str, kind: AnswerKind, by: str, message: str) -> None:
        waiting = self._answers.get(ask)
        if waiting is None or waiting.done():
            raise OstlerError("not_found", f"the ask {quoted(ask)} is not open: its turn has ended")
        reason = message if kind.startswith("reject") else ""
        try:
            await self._to.add([Answered(id=ask, option=kind, by=by, message=reason)])
        except OstlerError as error:
            if not waiting.done():
                waiting.set_exception(error)  # nobody can answer again: the hook is told that it was not taken
            raise
        if not waiting.done():
            waiting.set_result((kind, reason))

    def _hook_answer(self, kind: AnswerKind, reason: str) -> Any:
        """A yes never widens the access: under `read`, what the agent was launched with decides."""
        if kind.startswith("allow"):
            return self.face.allows() if self.turn.access != "read" else None
        return self.face.denies(reason)
