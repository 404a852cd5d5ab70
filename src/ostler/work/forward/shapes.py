"""What others are told, and how it looks. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ostler.model import EVENT_ENCODER, AnyEvent, Asked, Envelope, Forwarded, Hook, Session
from ostler.settings import Forward, Notify, Settings
from ostler.store.outbox import OutboxRow

FORWARD = "forward"
JOURNAL = "journal"  # the target of what a backend said: the session's own journal
RESULT = "result"
_LINE = 300


class OutgoingPost(Struct, frozen=True, kw_only=True):
    """A POST but for its token."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def parts_of(entry: Notify) -> list[Notify]:
    """One for each way to tell: a command that was run is not run again because a POST fails."""
    if entry.command and entry.url:
        return [msgspec.structs.replace(entry, url=""), msgspec.structs.replace(entry, command=())]
    return [entry]


def target_of(entry: Notify) -> str:
    """A name that stays the same as long as the entry does."""
    return f"notify:{hashlib.sha256(msgspec.json.encode(entry)).hexdigest()[:16]}"


def rows_of_events(settings: Settings, session: Session, events: Sequence[AnyEvent]) -> list[OutboxRow]:
    """What these events are to whom: they are committed, and free of secrets."""
    rows = []
    for event in events:
        if _is_forwarded(settings.forward, event):
            rows.append(_row(FORWARD, session, event.turn, "event", EVENT_ENCODER.encode(event), event.at))
        if isinstance(event, Asked):
            note = notice(session, "asked", event.turn, event.title or event.tool)
            rows += _notices(settings, session, "asked", note, event.turn, event.at)
    return rows


def rows_of_end(settings: Settings, session: Session, envelope: Envelope, at: float) -> list[OutboxRow]:
    """What the end of a turn is to whom."""
    rows = []
    if settings.forward.url and "results" in settings.forward.what:
        body = msgspec.json.encode({"kind": RESULT, "turn": envelope.turn, "at": at, "envelope": envelope})
        rows.append(_row(FORWARD, session, envelope.turn, RESULT, body, at))
    on = "ended" if envelope.ok else "failed"
    note = {**notice(session, on, envelope.turn, envelope.summary), "outcome": envelope.outcome}
    return [*rows, *_notices(settings, session, on, note, envelope.turn, at)]


def notice(session: Session, on: str, turn: str, text: str) -> dict[str, Any]:
    """What somebody is told who is to look."""
    words = {"asked": "asks", "ended": "is done", "failed": "failed"}
    title = f"{session.agent} {words[on]} in {session.label}"
    line = " ".join(text.split())[:_LINE]
    known = {"on": on, "title": title, "text": line, "session": session.id, "name": session.name, "turn": turn}
    return {**known, "agent": session.agent, "folder": session.folder}


def batch(forward: Forward, session: Session, rows: Sequence[OutboxRow]) -> OutgoingPost:
    """A POST to `/api/sessions/ID/events` of the backend. The same batch again has the same key."""
    head = {"session": session.id, "name": session.name, "agent": session.agent, "folder": session.folder}
    events = [msgspec.Raw(row.body) for row in rows]
    key = f"{session.id}-{rows[0].n}-{rows[-1].n}"
    return OutgoingPost(
        url=f"{forward.url.rstrip('/')}/api/sessions/{session.id}/events",
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
        body=msgspec.json.encode({**head, "events": events}),
    )


def webhook(entry: Notify, row: OutboxRow) -> OutgoingPost:
    """A POST in the shape that the entry names."""
    note = msgspec.json.decode(row.body)
    title, text = str(note["title"]), str(note["text"])
    if entry.shape == "slack":
        body = msgspec.json.encode({"text": f"*{_escaped(title)}*\n{_escaped(text)}"})
        return OutgoingPost(url=entry.url, headers={"Content-Type": "application/json"}, body=body)
    if entry.shape == "ntfy":
        tags = {"asked": "question", "ended": "white_check_mark", "failed": "warning"}
        ascii_title = title.encode("ascii", "replace").decode()
        headers = {"Content-Type": "text/plain; charset=utf-8", "Title": ascii_title, "Tags": tags[note["on"]]}
        return OutgoingPost(url=entry.url, headers=headers, body=(text or title).encode())
    return OutgoingPost(url=entry.url, headers={"Content-Type": "application/json"}, body=row.body)


def answer_row(row: OutboxRow, event: Forwarded) -> OutboxRow:
    """What is left to do once a backend has answered: to write it down."""
    body = EVENT_ENCODER.encode(event)
    return msgspec.structs.replace(row, target=JOURNAL, what=JOURNAL, body=body, tries=0)


def _is_forwarded(forward: Forward, event: AnyEvent) -> bool:
    if not forward.url or isinstance(event, Forwarded):
        return False
    return "journal" in forward.what or ("hooks" in forward.what and isinstance(event, Hook))


def _notices(
    settings: Settings, session: Session, on: str, note: dict[str, Any], turn: str, at: float
) -> list[OutboxRow]:
    body = msgspec.json.encode(note)
    wanted = [part for entry in settings.notify if on in entry.on for part in parts_of(entry)]
    return [_row(target_of(part), session, turn, on, body, at) for part in wanted]


def _row(target: str, session: Session, turn: str, what: str, body: bytes, at: float) -> OutboxRow:
    return OutboxRow(
        target=target, folder=session.folder, session=session.id, turn=turn, what=what, body=body, created_at=at
    )


def _escaped(text: str) -> str:
    """What Slack would take for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
