"""Turns that run, in whichever process: cancelled, answered, steered. Their owner does it; others ask it to."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import SignalName, TurnRow
from ostler.store import Store
from ostler.work.owner import OwnerReply, alive, ask_owner
from ostler.work.owner_requests import AnswerAsk, CancelTurn, CloseSession, OwnerRequest, SteerTurn
from ostler.work.sessions.rows import find_session, find_turn
from ostler.work.transports.keepers import Keepers
from ostler.work.turns.live_turns import Turns

if TYPE_CHECKING:  # imported with the first turn that has hooks or asks: most have none
    from ostler.work.dialogs.asks import AskAnswer
    from ostler.work.dialogs.open_dialogs import Dialogs
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.tuis.open_tuis import Tuis


class TurnControl:
    """Reaches the turns of all processes on one store."""

    def __init__(
        self,
        store: Store,
        owner: str,
        turns: Turns,
        keepers: Keepers,
        callbacks: "Callable[[], Callbacks]",
    ) -> None:
        """`owner`: this process's id as one."""
        self._store, self._owner, self._turns = store, owner, turns
        self._keepers, self._callbacks = keepers, callbacks

    async def cancel_session(self, key: str, signal: SignalName | None = None) -> bool:
        """Cancels the turns of that session, queued ones too. False: there is none."""
        row = find_session(self._store, key)
        await self._turns.end_orphaned()
        waiting = [turn for turn in self._store.running_turns() if turn.session == row.id]
        for turn in waiting:
            await self._cancel(turn, signal)
        return bool(waiting)

    async def cancel_turn(self, id: str, signal: SignalName | None = None) -> TurnRow:
        """The turn as it is then. One that has ended is left alone."""
        await self._turns.end_orphaned()
        turn = find_turn(self._store, id)
        if turn.state != "ended":
            await self._cancel(turn, signal)
        return find_turn(self._store, id)

    async def answer(self, key: str, answer: "AskAnswer") -> None:
        """Answers an ask of that turn, or of that session's. `ask` may be empty if only one is open."""
        turn = self._store.turn(key) or self._running(key)
        if not answer.ask:
            answer = structs.replace(answer, ask=self._only_ask(turn))
        await self._ask_owner(turn, AnswerAsk(turn=turn.id, answer=answer))

    async def steer(self, key: str, text: str, by: str) -> None:
        turn = self._running(key)
        await self._ask_owner(turn, SteerTurn(turn=turn.id, text=text, by=by))

    async def handle(self, request: OwnerRequest) -> OwnerReply:
        """What is asked of a turn of this process."""
        match request:
            case CancelTurn(turn=turn, signal=signal):
                return {"ok": self._turns.cancel(turn, signal)}
            case AnswerAsk(turn=turn, answer=answer):
                await self._keeper(turn, answer).answer(turn, answer)
            case SteerTurn(turn=turn, text=text, by=by):
                await self._keepers.dialogs.steer(turn, text, by)
            case CloseSession(session=session):
                await self._keepers.close(session)
            case _:
                raise OstlerError("bad_request", "unknown request")
        return {"ok": True}

    def _keeper(self, turn: str, answer: "AskAnswer") -> "Callbacks | Tuis | Dialogs":
        """Who has put an ask of this turn."""
        callbacks = self._callbacks()
        if callbacks.holds(turn, answer.ask):
            return callbacks
        return self._keepers.of_turn(turn)

    def _running(self, key: str) -> TurnRow:
        row = find_session(self._store, key)
        running = [turn for turn in self._store.running_turns() if turn.session == row.id and turn.state != "queued"]
        if not running:
            raise OstlerError("not_found", f"no turn is running in session {row.label}")
        return running[0]

    def _only_ask(self, turn: TurnRow) -> str:
        asks = self._store.open_asks(turn.session, turn.id)
        if not asks:
            session = self._store.session(turn.session)
            label = session.label if session is not None else turn.session
            raise OstlerError("not_found", f"no ask is open in session {label}")
        if len(asks) > 1:
            raise OstlerError("bad_request", "several asks are open", f"Name one: {', '.join(a.id for a in asks)}")
        return asks[0].id

    async def _cancel(self, turn: TurnRow, signal: SignalName | None) -> None:
        owner = self._store.owner(turn.owner) if turn.owner else None
        if turn.owner == self._owner:
            self._turns.cancel(turn.id, signal)
        elif owner is not None and alive(owner):
            await ask_owner(owner, CancelTurn(turn=turn.id, signal=signal))

    async def _ask_owner(self, turn: TurnRow, request: OwnerRequest) -> None:
        owner = self._store.owner(turn.owner) if turn.owner else None
        if turn.owner == self._owner:
            await self.handle(request)
        elif owner is not None and alive(owner):
            await ask_owner(owner, request)
        else:
            raise OstlerError("crashed", "the ostler process that ran this turn is gone", "Run again to continue")
