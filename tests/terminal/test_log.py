import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.errors import OstlerError
from ostler.terminal.log import LOOK, ByteLog, unfinished


def log_of(*pieces, limit=1 << 20):
    log = ByteLog(limit)
    for piece in pieces:
        log.append(piece)
    return log


def pieces_of(data, cuts):
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def test_offsets_count_from_the_first_byte():
    log = ByteLog()
    assert (log.start, log.end, log.read(0)) == (0, 0, (0, b""))
    assert log.append(b"hello ") == 6
    assert log.append(b"world") == 11
    assert log.read(0) == (0, b"hello world")
    assert log.read(6) == (6, b"world")
    assert log.read(6, 3) == (6, b"wor")
    assert log.read(11) == (11, b"")
    assert log.read(99) == (11, b"")
    assert log.read(-5, 1) == (0, b"h")
    assert log.read(3, -1) == (3, b"")


def test_a_log_that_keeps_nothing_is_refused():
    with pytest.raises(OstlerError) as raised:
        ByteLog(0)
    assert raised.value.kind == "bad_request"


@given(st.lists(st.binary(max_size=LOOK * 2)), st.integers(1, 5000), st.integers(0, 9000), st.integers(0, 5000))
def test_it_is_the_end_of_all_that_was_appended(pieces, limit, offset, length):
    log = log_of(*pieces, limit=limit)
    whole = b"".join(pieces)
    assert (log.start, log.end) == (max(0, len(whole) - limit), len(whole))
    begin, data = log.read(offset, length)
    assert data == whole[begin : begin + length]
    assert begin >= log.start
    if offset >= log.start:
        assert begin == min(offset, log.end)


CHARACTERS = st.sampled_from(["a", "é", "漢", "🚀", "\n", "\t"]).map(str.encode)
STRINGS = [b"\x1b]0;t\xc3\xa9tle\x07", b"\x1b]8;;http://x/\x1b\\", b"\x1bPq#0\x1b\\", b"\x1b_Gi=1;AAAA\x1b\\"]
SHORT = [b"\x1b[31m", b"\x1b[38;2;1;2;3m", b"\x1b[?1049h", b"\x1b[4 q", b"\x1b(B", b"\x1b7", b"\x1bM", b"\x1b#8"]
SEQUENCES = st.sampled_from([*STRINGS, *SHORT])
STREAMS = st.lists(CHARACTERS | SEQUENCES, max_size=60)


@given(STREAMS, st.integers(1, 120))
def test_a_reader_who_comes_too_late_begins_at_a_clean_cut(tokens, limit):
    log = log_of(*tokens, limit=limit)
    edges = {0, *itertools.accumulate(len(token) for token in tokens)}
    begin, data = log.read(-1)
    assert begin in edges
    assert begin == min(edge for edge in edges if edge >= log.start)
    assert data == b"".join(tokens)[begin:]


@given(STREAMS, st.integers(0, 400))
def test_any_offset_can_be_moved_to_a_clean_cut(tokens, offset):
    log = log_of(*tokens)
    edges = {0, *itertools.accumulate(len(token) for token in tokens)}
    assert log.cut(offset) == min((edge for edge in edges if edge >= offset), default=log.end)


def test_no_cut_is_looked_for_beyond_reason():
    log = log_of(b"\x1b]0;" + b"x" * 3 * LOOK + b"\x07after", limit=2 * LOOK)
    assert log.cut(log.start) == log.start
    assert log_of(b"\x80" * 50, limit=10).read(0) == (43, b"\x80" * 7)


@pytest.mark.parametrize(
    ("data", "limit", "told"),
    [
        (b"", None, ("", False)),
        (b"abc", None, ("abc", False)),
        (b"abc", 3, ("abc", False)),
        (b"abc", 2, ("bc", True)),
        (b"abc", 0, ("", True)),
        ("aé".encode(), 3, ("aé", False)),
        ("aé".encode(), 2, ("é", True)),
        ("aé".encode(), 1, ("", True)),
        ("x🚀y".encode(), 4, ("y", True)),
        ("x🚀y".encode(), 5, ("🚀y", True)),
        (b"one\r\ntwo\r\n", 8, ("one\ntwo\n", False)),
        (b"one\rtwo", 99, ("one\rtwo", False)),
        (b"a\xffb", 5, ("a\ufffdb", False)),
        (b"a\xffb", 4, ("\ufffdb", True)),
        (b"a\xffb", 3, ("b", True)),
    ],
)
def test_the_last_text_within_a_limit(data, limit, told):
    assert log_of(data).tail_text(limit) == told


def test_text_of_a_log_that_lost_its_beginning_is_truncated():
    assert log_of(b"0123456789", limit=4).tail_text() == ("6789", True)
    assert log_of("ééé".encode(), limit=3).tail_text(99) == ("é", True)


def test_half_a_character_waits_while_more_is_to_come():
    half = log_of(b"a\xf0\x9f")
    assert half.tail_text(more=True) == ("a", False)
    assert half.tail_text() == ("a\ufffd", False)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)), st.integers(0, 300))
def test_chunks_do_not_matter(data, cuts, limit):
    one, many = log_of(data, limit=100), log_of(*pieces_of(data, cuts), limit=100)
    assert many.read(0) == one.read(0)
    assert many.tail_text(limit) == one.tail_text(limit)
    text, truncated = one.tail_text(limit)
    assert len(text.encode()) <= limit
    assert truncated or one.start == 0


def test_a_flood_costs_no_more_memory_than_the_limit():
    chunk = bytes(range(256)) * 256
    tracemalloc.start()
    try:
        log = ByteLog(1 << 20)
        assert tracemalloc.get_traced_memory()[0] < 10_000
        log.append(b"little")
        assert tracemalloc.get_traced_memory()[0] < 20_000
        for _ in range(320):
            log.append(chunk)
        assert tracemalloc.get_traced_memory()[0] <= (1 << 20) + 2 * LOOK + 10_000
    finally:
        tracemalloc.stop()
    assert log.end == 6 + 320 * len(chunk)
    assert log.read(log.end - 256) == (log.end - 256, bytes(range(256)))


def test_forgetting_keeps_the_offsets():
    log = ByteLog(100)
    log.append(b"x" * 250)
    log.forget()
    assert (log.start, log.end, log.read(0), log.cut(10)) == (250, 250, (250, b""), 250)
    log.append(b"y\x1b[1m")
    assert (log.start, log.read(0), log.cut(252)) == (250, (250, b"y\x1b[1m"), 255)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"a", 0),
        ("ż".encode(), 0),
        ("🐢".encode(), 0),
        *(("a🐢".encode()[: 1 + cut], cut) for cut in (1, 2, 3)),
        ("漢".encode()[:2], 2),
        (b"\xc5", 1),
        (b"\xff", 0),
        (b"\xc0", 0),
        (b"\x80\x80\x80\x80", 0),
        (b"\xc5a", 0),
    ],
)
def test_half_a_character_at_the_end(data, count):
    assert unfinished(data) == count
