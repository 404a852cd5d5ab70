"""A disk that is full for a moment, for tests."""

import asyncio

import pytest

from ostler.errors import OstlerError
from ostler.model import AnyEvent
from ostler.store import Store


def full_for_a_moment(monkeypatch: pytest.MonkeyPatch, unwritten: type) -> None:
    """The first event of this kind cannot be written; all later ones can."""
    append, full = Store.append, [True]

    def try_to_append(store: Store, session: str, events: list[AnyEvent]) -> "asyncio.Future[None]":
        if full and any(isinstance(event, unwritten) for event in events):
            full.clear()
            raise OstlerError("store", "the disk is full")
        return append(store, session, events)

    monkeypatch.setattr(Store, "append", try_to_append)
