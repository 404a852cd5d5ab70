"""What others are told, and how it looks."""

from typing import Any

import msgspec
import pytest

from ostler.model import Asked, Envelope, Forwarded, Hook, Session, Text
from ostler.settings import Forward, Notify, Settings
from ostler.store.outbox import OutboxRow
from ostler.work.forward.shapes import (
    JOURNAL,
    answer_row,
    batch,
    notice,
    parts_of,
    rows_of_end,
    rows_of_events,
    target_of,
    webhook,
)

SESSION = Session(id="k3", agent="claude", folder="/yard", created_at=0, used_at=0, name="stall")
HOOK = Hook(seq=1, at=5.0, turn="k3-1", name="Stop")
ASKED = Asked(seq=2, at=6.0, turn="k3-1", id="q", tool="shell", title="rm  hay\n")
EVENTS = [HOOK, ASKED, Text(seq=3, at=7.0, turn="k3-1", text="hi"), Forwarded(to="x", ok=True, turn="k3-1")]


def envelope(**more: Any) -> Envelope:
    known: dict[str, Any] = {"status": "ok", "outcome": "done", "summary": "fed", "text": "fed", "turn": "k3-1"}
    known |= {"session": "k3", "agent": "claude", "served_by": "claude", "started_at": 0.0, "duration_ms": 1}
    return Envelope(**{**known, **more})


@pytest.mark.parametrize(
    ("what", "kinds"),
    [(("hooks",), ["hook"]), (("results",), []), (("journal",), ["hook", "asked", "text"])],
)
def test_what_a_backend_is_told(what: Any, kinds: list[str]) -> None:
    rows = rows_of_events(Settings(forward=Forward(url="https://b", what=what)), SESSION, EVENTS)
    assert [msgspec.json.decode(row.body)["kind"] for row in rows] == kinds
    assert all((row.target, row.turn, row.folder) == ("forward", "k3-1", "/yard") for row in rows)
    assert rows_of_events(Settings(), SESSION, EVENTS) == []


def test_the_end_is_a_result_and_a_notice() -> None:
    entry = Notify(command=("beep",), on=("failed",))
    settings = Settings(forward=Forward(url="https://b"), notify=(entry,))
    (result,) = rows_of_end(settings, SESSION, envelope(), 9.0)
    told = msgspec.json.decode(result.body)
    assert (result.what, told["kind"], told["envelope"]["text"]) == ("result", "result", "fed")
    failed = rows_of_end(settings, SESSION, envelope(status="error", outcome="failed"), 9.0)[1]
    assert (failed.target, failed.what) == (target_of(entry), "failed")
    assert msgspec.json.decode(failed.body)["title"] == "claude failed in stall"
    assert rows_of_end(Settings(forward=Forward(url="https://b", what=("hooks",))), SESSION, envelope(), 9.0) == []


def test_a_command_and_a_webhook_of_one_entry_are_told_each_by_itself() -> None:
    both = Notify(command=("beep",), url="https://n", shape="ntfy")
    assert parts_of(both) == [Notify(command=("beep",), shape="ntfy"), Notify(url="https://n", shape="ntfy")]
    rows = rows_of_events(Settings(notify=(both,)), SESSION, EVENTS)
    assert [row.target for row in rows] == [target_of(part) for part in parts_of(both)]
    assert parts_of(Notify(url="https://n")) == [Notify(url="https://n")]


def test_an_ask_is_a_notice() -> None:
    (row,) = rows_of_events(
        Settings(notify=(Notify(url="https://n"), Notify(url="https://m", on=("ended",)))), SESSION, EVENTS
    )
    assert msgspec.json.decode(row.body) == notice(SESSION, "asked", "k3-1", "rm hay")


def row(body: Any, n: int = 1) -> OutboxRow:
    given = {"target": "t", "folder": "/yard", "session": "k3", "turn": "k3-1", "what": "event", "created_at": 0.0}
    return OutboxRow(**given, n=n, body=msgspec.json.encode(body))  # type: ignore[arg-type]


def test_a_batch_goes_to_the_events_of_the_session() -> None:
    made = batch(Forward(url="https://b/base/"), SESSION, [row({"a": 1}, 4), row({"b": 2}, 9)])
    assert made.url == "https://b/base/api/sessions/k3/events"
    assert made.headers["Idempotency-Key"] == "k3-4-9"
    told = msgspec.json.decode(made.body)
    assert told == {
        "session": "k3",
        "name": "stall",
        "agent": "claude",
        "folder": "/yard",
        "events": [{"a": 1}, {"b": 2}],
    }


def test_ntfy_and_slack() -> None:
    told = row(notice(SESSION, "asked", "k3-1", "rm <hay> & ü"))
    ntfy = webhook(Notify(url="https://ntfy/x", shape="ntfy"), told)
    assert (ntfy.headers["Title"], ntfy.headers["Tags"]) == ("claude asks in stall", "question")
    assert ntfy.body.decode() == "rm <hay> & ü"
    slack = webhook(Notify(url="https://slack/x", shape="slack"), told)
    assert msgspec.json.decode(slack.body) == {"text": "*claude asks in stall*\nrm &lt;hay&gt; &amp; ü"}
    assert webhook(Notify(url="https://x"), told).body == told.body


def test_the_answer_is_for_the_journal() -> None:
    made = answer_row(row({"a": 1}), Forwarded(to="https://b", ok=True, status=200, answer="thanks"))
    assert (made.target, made.turn) == (JOURNAL, "k3-1")
    assert msgspec.json.decode(made.body)["answer"] == "thanks"
