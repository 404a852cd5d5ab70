"""A session that is loaded: its prompts and what came of them, turn by turn, out of a real store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.acp.history import PAGE, pages
from ostler.acp.updates import UpdateContext
from ostler.model import Attachment, Session, Text, Turn, TurnRow
from ostler.store import Store

LOOK = UpdateContext(folder="/w")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state", timeout=5) as store:
        yield store


async def begin(store: Store, id: str, prompt: str, *attached: Attachment) -> None:
    turn = Turn(id=id, session="k3", agent="script", prompt=prompt, folder="/w", attachments=attached)
    await store.begin_turn(TurnRow(id=id, session="k3", state="starting", turn=turn, created_at=1.0))


def prompt(text: str, turn: str) -> dict[str, Any]:
    return chunk({"type": "text", "text": text}, f"{turn}.0", "user")


def chunk(content: dict[str, Any], message: str, who: str = "agent") -> dict[str, Any]:
    return {"sessionUpdate": f"{who}_message_chunk", "content": content, "messageId": message}


async def test_each_turn_begins_with_its_prompt(store: Store) -> None:
    await store.add_session(Session(id="k3", agent="script", folder="/w", created_at=1.0, used_at=1.0))
    assert list(pages(store, "k3", LOOK)) == []
    files = (Attachment(path="/w/a b.txt"), Attachment(path="/w/c", name="C"), Attachment(name="n", content="hay"))
    await begin(store, "k3-aa", "first", *files)
    await store.append("k3", [Text(seq=1, at=1.0, turn="k3-aa", text="one")])
    await store.append("k3", [Text(seq=2, at=2.0, turn="k3-gone", text="two")])
    assert list(pages(store, "k3", LOOK)) == [
        [
            prompt("first", "aa"),
            chunk({"type": "resource_link", "uri": "file:///w/a b.txt", "name": "a b.txt"}, "aa.0", "user"),
            chunk({"type": "resource_link", "uri": "file:///w/c", "name": "C"}, "aa.0", "user"),
            chunk({"type": "text", "text": "one"}, "aa.1"),
            chunk({"type": "text", "text": "two"}, "gone.1"),  # of a turn that is not there its words are
        ]
    ]


async def test_a_long_turn_comes_in_pieces_and_its_prompt_once(store: Store) -> None:
    await store.add_session(Session(id="k3", agent="script", folder="/w", created_at=1.0, used_at=1.0))
    await begin(store, "k3-aa", "go")
    await store.append("k3", [Text(seq=n, at=1.0, turn="k3-aa", text=str(n)) for n in range(1, PAGE + 3)])
    first, second = pages(store, "k3", LOOK)
    assert (len(first), len(second)) == (PAGE + 1, 2)
    assert [update["content"]["text"] for update in second] == [str(PAGE + 1), str(PAGE + 2)]
    assert [update["messageId"] for update in (*first, *second)] == [f"aa.{n}" for n in range(PAGE + 3)]
