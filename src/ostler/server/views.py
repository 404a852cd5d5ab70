"""Sessions and turns as they are told to people and programs: the row, and what one wants to know beside it."""

from collections.abc import Sequence
from os.path import basename

from msgspec import Struct, structs

from ostler.access import Access
from ostler.model import Envelope, FileChange, Outcome, Problem, Session, TransportName, TurnRow, TurnState, Usage
from ostler.server.activity import doing
from ostler.server.open_asks import AskView, OpenAsks, open_asks
from ostler.store.watch import StoreWatch

_SHORT = 500  # characters of a prompt where it only stands beside something else


class AttachedView(Struct, frozen=True, kw_only=True):
    """A file that went with a prompt."""

    name: str
    image: bool = False


class TurnView(Struct, frozen=True, kw_only=True):
    """A turn. What is only known at its end is empty or null before."""

    id: str
    session: str
    number: int  # its place among the turns of its session, from 1
    state: TurnState
    created_at: float
    prompt: str
    access: Access
    model: str | None
    transport: TransportName = "pipe"
    attachments: tuple[AttachedView, ...] = ()
    ended_at: float | None = None
    outcome: Outcome | None = None
    error: Problem | None = None
    summary: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_ms: int | None = None
    artifacts: tuple[str, ...] = ()  # their names
    evidence: tuple[str, ...] = ()
    planted: tuple[FileChange, ...] = ()  # what could run programs later, or widen what agents may


class SessionView(Session, frozen=True, kw_only=True):
    """A session. `turn` is the one that runs, or else the last one; its prompt is cut short here."""

    turn: TurnView | None
    doing: str  # one line, while it is busy
    queued: int
    live_terminals: int
    ask: AskView | None  # the newest that is open
    asks: int  # that are open
    primary_terminal: str | None  # the one to follow: the chosen one while it lives, else the newest that lives
    machine: str = ""  # that has it; "": the one that was asked
    reachable: bool = True  # whether that machine answers; if not, this is what was last known


def turn_view(row: TurnRow, number: int, longest: int | None = None) -> TurnView:
    prompt = row.turn.prompt
    if longest is not None and len(prompt) > longest:
        prompt = prompt[: longest - 1] + "…"
    view = TurnView(
        id=row.id,
        session=row.session,
        number=number,
        state=row.state,
        created_at=row.created_at,
        prompt=prompt,
        access=row.turn.access,
        model=row.turn.model,
        transport=row.turn.transport,
        attachments=tuple(AttachedView(name=a.name or basename(a.path), image=a.image) for a in row.turn.attachments),
    )
    return _ended(view, row.envelope, row.ended_at) if row.envelope else view


def _ended(view: TurnView, envelope: Envelope, ended_at: float | None) -> TurnView:
    return structs.replace(
        view,
        model=envelope.model or view.model,
        ended_at=ended_at,
        outcome=envelope.outcome,
        error=envelope.error,
        summary=envelope.summary,
        usage=envelope.usage,
        cost_usd=envelope.cost_usd,
        duration_ms=envelope.duration_ms,
        artifacts=tuple(sorted(envelope.artifacts)),
        evidence=envelope.evidence,
        planted=envelope.planted,
    )


def session_views(watch: StoreWatch, sessions: Sequence[Session]) -> list[SessionView]:
    """In the same order. Few questions to the store, however many sessions there are."""
    ids = [row.id for row in sessions]
    turns, queued, live = watch.current_turns(ids), watch.queued(), watch.live_terminals(ids)
    numbers = watch.turn_numbers(turn.id for turn in turns.values())
    turn_views = {id: turn_view(turn, numbers.get(turn.id, 0), _SHORT) for id, turn in turns.items()}
    return [
        _view(row, turn_views.get(row.id), queued.get(row.id, 0), live.get(row.id, []), now_of(watch, row))
        for row in sessions
    ]


def session_view(watch: StoreWatch, session: Session) -> SessionView:
    return session_views(watch, [session])[0]


class Now(Struct, frozen=True, kw_only=True):
    """What the journal of a session that works tells of this moment."""

    doing: str = ""
    asks: OpenAsks = OpenAsks()


def now_of(watch: StoreWatch, session: Session) -> Now:
    if session.state not in ("busy", "asking"):
        return Now()
    return Now(doing=doing(watch, session.id), asks=open_asks(watch, session.id))


def _view(row: Session, turn: TurnView | None, queued: int, live: list[str], now: Now) -> SessionView:
    return SessionView(
        **structs.asdict(row),
        turn=turn,
        doing=now.doing,
        ask=now.asks.newest,
        asks=now.asks.count,
        queued=queued,
        live_terminals=len(live),
        primary_terminal=row.primary if row.primary in live else next(iter(live), None),
    )
