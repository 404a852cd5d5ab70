"""A secret that is streamed in pieces cannot be joined from the records."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ostler.store import Redactor
from ostler.store.records import HELD, LINE, Pieces, RecordMasker, texts

KEY = "correct-horse-battery"
ODD = 'pass"word\\with\nodd ü'
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
REDACTOR = Redactor([KEY, ODD])

# One record of each agent, with the piece of a text as it holds it, and the way to it.
RECORDS: dict[str, tuple[Any, list[str]]] = {
    "claude": (
        {
            "type": "stream_event",
            "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "@"}},
            "session_id": "s",
            "parent_tool_use_id": None,
            "uuid": "#",
        },
        ["event", "delta", "text"],
    ),
    "claude, the input of a tool": (
        {
            "type": "stream_event",
            "event": {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": "@"},
            },
            "uuid": "#",
        },
        ["event", "delta", "partial_json"],
    ),
    "codex": (
        {"method": "item/agentMessage/delta", "params": {"threadId": "t", "itemId": "i", "delta": "@"}},
        ["params", "delta"],
    ),
    "gemini": (
        {"type": "message", "timestamp": "#", "role": "assistant", "content": "@", "delta": True},
        ["content"],
    ),
    "copilot": (
        {
            "type": "assistant.message_delta",
            "data": {"messageId": "m", "deltaContent": "@"},
            "id": "#",
            "parentId": "#",
        },
        ["data", "deltaContent"],
    ),
    "acp": (
        {
            "method": "session/update",
            "params": {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "@"}}},
        },
        ["params", "update", "content", "text"],
    ),
    "script": ({"kind": "text_delta", "text": "@", "id": "t1"}, ["text"]),
}


def record(agent: str, piece: str, number: int = 0, **changes: Any) -> bytes:
    text = json.dumps({**RECORDS[agent][0], **changes}, ensure_ascii=number % 2 == 0)
    return text.replace("@", json.dumps(piece)[1:-1]).replace("#", f"{number:08}").encode() + b"\n"


def joined(agent: str, data: bytes) -> str:
    found = ""
    for line in data.splitlines():
        value = json.loads(line)
        for name in RECORDS[agent][1]:
            value = value[name]
        found += value
    return found


def masked(data: bytes, size: int = 1 << 20) -> bytes:
    masker = REDACTOR.record_masker()
    parts = [masker.feed(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join([*parts, masker.close()])


@pytest.mark.parametrize("secret", [KEY, TOKEN])
@pytest.mark.parametrize("agent", RECORDS)
def test_pieces_of_a_secret_are_masked_in_the_records_of_every_agent(agent: str, secret: str) -> None:
    text = f"it is {secret}, they say"
    for size in (1, 4, 15):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        data = b"".join(record(agent, piece, number) for number, piece in enumerate(pieces))
        shown = masked(data)
        assert joined(agent, shown) == text.replace(secret, "*" * len(secret))
        assert len(shown) == len(data)


def test_an_odd_secret_is_masked_as_json_writes_it() -> None:
    for cut in range(1, len(ODD)):
        data = record("gemini", ODD[:cut], 0) + record("gemini", ODD[cut:], 0)
        assert set(joined("gemini", masked(data))) == {"*"}


@settings(max_examples=150, deadline=None)
@example([KEY[:9], KEY[9:]], 40)
@given(
    st.lists(
        st.sampled_from([KEY, TOKEN, KEY[:9], KEY[9:], "gh", "p_", "Bearer ", "c", " words ", "é", "\n", '"']),
        max_size=8,
    ),
    st.integers(1, 300),
)
def test_any_cutting_of_the_stream_gives_the_same(pieces: list[str], size: int) -> None:
    data = b"".join(record("acp", piece, number) for number, piece in enumerate(pieces))
    shown = masked(data, size)
    assert shown == masked(data)
    assert len(shown) == len(data)
    assert KEY not in joined("acp", shown)
    masker = REDACTOR.masker()
    whole = (masker.feed("".join(pieces).encode("latin-1")) + masker.close()).decode("latin-1")
    # More may be masked than in the whole text: a token that begins a piece stands apart there.
    assert all(one in (other, "*") for one, other in zip(joined("acp", shown), whole, strict=True))


def test_texts_that_go_on_beside_each_other_are_told_apart() -> None:
    halves = KEY[:8], KEY[8:]
    one = [record("codex", half, params={"itemId": "a", "delta": half}) for half in halves]
    other = [record("codex", half, params={"itemId": "b", "delta": half}) for half in ("plain ", "words")]
    thought = [record("acp", half).replace(b"message", b"thought") for half in halves]
    said = [record("acp", half) for half in halves]
    between = b'{"type":"ping"}\nno record at all\n'
    shown = masked(one[0] + other[0] + thought[0] + said[0] + between + said[1] + thought[1] + other[1] + one[1])
    lines = shown.splitlines(keepends=True)
    assert lines[1] + lines[-2] == other[0] + other[1]
    assert b"".join(lines[4:6]) == between
    for first, last in ((0, -1), (2, -3), (3, 6)):
        assert lines[first].count(b"*") == 8 and lines[last].count(b"*") == len(KEY) - 8


def test_what_is_decided_is_written_at_once() -> None:
    masker = REDACTOR.record_masker()
    plain, begun, rest = record("script", "plain words. "), record("script", "it is c"), record("script", "ertain")
    assert masker.feed(plain) == plain
    assert masker.feed(begun) == b""
    assert masker.feed(b'{"kind":"other"}\n') == b""
    assert masker.feed(rest) == begun + b'{"kind":"other"}\n' + rest
    assert masker.feed(b"not JSON, no line") == b"not JSON, no line"
    assert masker.feed(b" yet\n" + plain[:9]) == b" yet\n"
    assert masker.close() == plain[:9]


def test_what_waits_has_a_bound_and_a_secret_still_never_stands_whole() -> None:
    masker = REDACTOR.record_masker()
    assert masker.feed(record("script", KEY[:12])) == b""
    noise = b'{"kind":"noise"}\n' * (HELD // 17)
    out = masker.feed(noise) + masker.feed(b'{"kind":"noise"}\n')
    assert out == record("script", KEY[:7] + "*" * 5) + noise + b'{"kind":"noise"}\n'
    rest = masker.feed(record("script", KEY[12:] + ".")) + masker.close()
    assert rest == record("script", "*" * (len(KEY) - 12) + ".")


def test_long_lines_do_not_wait() -> None:
    masker = REDACTOR.record_masker()
    long = b'{"delta":"' + b"x" * LINE
    assert masker.feed(long[:1000]) == b""
    assert masker.feed(long[1000:]) == long
    assert masker.feed(b"y" * 1000) == b"y" * 1000
    assert masker.feed(b'"}\n') == b'"}\n'


def test_the_strings_of_a_record() -> None:
    line = b'{"type":"x","a":{"index": 1,"b":["one",{"c":"t\\"o"},"three"]},"d":"four","n":5,"id":"own"}\n'
    found = texts(line, bytes)
    assert found.common == (b"x", b"1")
    assert [(name, line[start:end]) for name, start, end in found.places] == [(b"c", b't\\"o'), (b"d", b"four")]
    assert texts(b'{"a":"\\"b\\":\\"c\\""}', bytes) == Pieces((), [(b"a", 6, 17)])


@given(st.binary(max_size=200))
def test_anything_that_is_no_json_passes(data: bytes) -> None:
    line = b'{"delta"' + data
    assert len(masked(line)) == len(line)
    assert isinstance(REDACTOR.record_masker(), RecordMasker)
