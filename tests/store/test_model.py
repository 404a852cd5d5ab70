"""The store against a model in plain Python, whatever order things happen in."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from ostler.errors import OstlerError
from ostler.model import Envelope, Session, Text, Turn, TurnRow
from ostler.store import Store


@dataclass
class ModelTurn:
    id: str
    state: str


@dataclass
class ModelSession:
    turns: list[ModelTurn] = field(default_factory=list)
    begun: int = 0
    events: list[str] = field(default_factory=list)
    closed: bool = False

    def living(self) -> list[ModelTurn]:
        return [turn for turn in self.turns if turn.state != "ended"]

    def state(self) -> str:
        states = {turn.state for turn in self.living()}
        if "asking" in states:
            return "asking"
        if states - {"queued"}:
            return "busy"
        return "queued" if states else "closed" if self.closed else "idle"


class Stores(RuleBasedStateMachine):
    """Sessions and turns by their ids; every rule also tries what must be refused."""

    sessions: Bundle[str] = Bundle("sessions")
    turns: Bundle[tuple[str, str]] = Bundle("turns")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ostler-model-"))
        self.loop = asyncio.new_event_loop()
        self.store = Store.open(self.folder / "s")
        self.model: dict[str, ModelSession] = {}
        self.count = 0

    def teardown(self) -> None:
        self.store.close()
        self.loop.close()
        shutil.rmtree(self.folder)

    def call(self, write: Callable[[], Awaitable[Any]]) -> Any:
        """The result, or the kind of the error."""

        async def written() -> Any:
            return await write()

        try:
            return self.loop.run_until_complete(written())
        except OstlerError as error:
            return error.kind

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def row(self, id: str, session: str) -> TurnRow:
        turn = Turn(id=id, session=session, agent="script", prompt="p", folder="/w")
        return TurnRow(id=id, session=session, state="running", turn=turn, created_at=1.0)

    @rule(target=sessions)
    def add_session(self) -> str:
        id = self.fresh("s")
        new = Session(id=id, agent="script", folder="/w", created_at=0.0, used_at=0.0)
        assert self.call(lambda: self.store.add_session(new)) is None
        assert self.call(lambda: self.store.add_session(new)) == "exists"
        self.model[id] = ModelSession()
        return id

    @rule(target=turns, session=sessions)
    def begin(self, session: str) -> Any:
        id, model = self.fresh("t"), self.model[session]
        result = self.call(lambda: self.store.begin_turn(self.row(id, session)))
        if model.state() != "idle":
            assert result == ("bad_request" if model.closed else "busy")
            return multiple()
        assert result == len(model.events) + 1
        model.turns.append(ModelTurn(id, "starting"))
        model.begun += 1
        return session, id

    @rule(target=turns, session=sessions)
    def queue(self, session: str) -> Any:
        id, model = self.fresh("t"), self.model[session]
        result = self.call(lambda: self.store.queue_turn(self.row(id, session)))
        if model.closed:
            assert result == "bad_request"
            return multiple()
        assert result is None
        model.turns.append(ModelTurn(id, "queued"))
        return session, id

    @rule(turn=turns)
    def claim(self, turn: tuple[str, str]) -> None:
        session, id = turn
        result = self.call(lambda: self.store.claim_turn(id, "me"))
        model = self.model.get(session, ModelSession())
        living = model.living()
        if living and living[0].id == id and {each.state for each in living} == {"queued"}:
            assert result == len(model.events) + 1
            living[0].state = "starting"
            model.begun += 1
        else:
            assert result is None

    @rule(turn=turns, state=st.sampled_from(["queued", "starting", "running", "asking", "ended"]))
    def change(self, turn: tuple[str, str], state: Any) -> None:
        result = self.call(lambda: self.store.change_turn(turn[1], state))
        found = self.find(turn)
        if found is None:
            assert result == "not_found"
        elif state == found.state == "starting" or (
            state in ("running", "asking") and found.state in ("starting", "running", "asking")
        ):
            assert result is None
            found.state = state
        else:
            assert result == "bad_request"

    @rule(session=sessions, count=st.integers(1, 3), back=st.integers(0, 1))
    def append(self, session: str, count: int, back: int) -> None:
        """With `back` the first seq may be taken already: then nothing is added."""
        events = self.model[session].events
        first = len(events) + 1 - back
        new = [Text(seq=first + n, text=f"e{first + n}") for n in range(count)]
        result = self.call(lambda: self.store.append(session, new))
        if back:
            assert result == "store"
        else:
            assert result is None
            events += [event.text for event in new]

    @rule(turn=turns, with_event=st.booleans())
    def end(self, turn: tuple[str, str], with_event: bool) -> None:
        session, id = turn
        found = self.find(turn)
        events = self.model[session].events if found else []
        last = [Text(seq=len(events) + 1, text="end")] if with_event else []
        envelope = self.envelope(id, session)
        result = self.call(lambda: self.store.end_turn(id, last=last, envelope=envelope))
        if found is None:
            assert result == "not_found"
        elif found.state == "ended":
            assert result is None
        else:
            assert isinstance(result, Session)
            found.state = "ended"
            events += [event.text for event in last]

    @rule(session=sessions, state=st.sampled_from(["closed", "idle"]))
    def close_or_open(self, session: str, state: str) -> None:
        model = self.model[session]
        result = self.call(lambda: self.store.change_session(session, state=state))
        if state == "closed" and model.living():
            assert result == "busy"
        else:
            model.closed = state == "closed"
            assert result.state == model.state()

    @rule(session=sessions)
    def refuse_removal(self, session: str) -> None:
        if self.model[session].living():
            assert self.call(lambda: self.store.remove_session(session)) == "busy"

    @rule(session=consumes(sessions))
    def remove(self, session: str) -> None:
        for turn in self.model[session].living():
            ended = partial(self.store.end_turn, turn.id, last=(), envelope=self.envelope(turn.id, session))
            assert isinstance(self.call(ended), Session)
        assert self.call(lambda: self.store.remove_session(session)) is None
        del self.model[session]

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.folder / "s")

    @invariant()
    def the_same_as_the_model(self) -> None:
        stored = {session.id: session for session in self.store.sessions()}
        assert set(stored) == set(self.model)
        for id, model in self.model.items():
            assert (stored[id].state, stored[id].turns) == (model.state(), model.begun)
            assert [(turn.id, turn.state) for turn in self.store.turns(id)] == [(t.id, t.state) for t in model.turns]
            assert [event.text for event in self.store.events(id)] == model.events
        living = {turn.id for model in self.model.values() for turn in model.living()}
        assert {turn.id for turn in self.store.running_turns()} == living

    def find(self, turn: tuple[str, str]) -> ModelTurn | None:
        session = self.model.get(turn[0])
        return next((each for each in session.turns if each.id == turn[1]), None) if session else None

    def envelope(self, turn: str, session: str) -> Envelope:
        return Envelope(
            status="ok",
            outcome="done",
            summary="",
            text="",
            turn=turn,
            session=session,
            agent="script",
            served_by="script",
            started_at=1.0,
            duration_ms=1,
        )


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
