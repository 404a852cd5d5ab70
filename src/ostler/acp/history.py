"""What happened in a session so far, as updates for a client that loads it."""

import os
from collections.abc import Iterator
from typing import Any

from ostler.acp.updates import SessionUpdate, UpdateContext, UpdateTranslator
from ostler.store import Store

PAGE = 500  # events that are read at a time


def pages(store: Store, session: str, look: UpdateContext) -> Iterator[list[SessionUpdate]]:
    """A turn at a time, long ones in pieces."""
    after, updates, turn = 0, UpdateTranslator(look, ""), ""
    while events := store.events(session, after=after, limit=PAGE):
        page: list[SessionUpdate] = []
        for event in events:
            if event.turn != turn:
                turn, updates = event.turn, UpdateTranslator(look, event.turn)
                page += _prompt_of(store, turn)
            page += updates.of(event)
        after = events[-1].seq
        yield page


def _prompt_of(store: Store, turn: str) -> list[SessionUpdate]:
    row = store.turn(turn)
    if row is None:
        return []
    message = f"{turn.rpartition('-')[2]}.0"
    blocks: list[dict[str, Any]] = [{"type": "text", "text": row.turn.prompt}]
    for attached in row.turn.attachments:
        if attached.path:
            name = attached.name or os.path.basename(attached.path)
            blocks.append({"type": "resource_link", "uri": f"file://{attached.path}", "name": name})
    return [{"sessionUpdate": "user_message_chunk", "content": each, "messageId": message} for each in blocks]
