import asyncio
import itertools
import os
import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.process import LineFramer, OutputLine, chunks
from ostler.process.lines import KEPT


def frame(pieces, cap=1 << 20):
    framer = LineFramer(cap)
    return [line for piece in pieces for line in framer.feed(piece)] + framer.close()


def pieces_of(data, cuts):
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def test_lines_end_with_newline_or_the_end():
    assert frame([b"one\ntwo\r\n\nthr", b"ee\r", b"\nfour"]) == [
        OutputLine(b"one", False),
        OutputLine(b"two", False),
        OutputLine(b"", False),
        OutputLine(b"three", False),
        OutputLine(b"four", False),
    ]


@pytest.mark.parametrize("data", [b"", b"a\n"])
def test_no_line_after_the_last_newline(data):
    framer = LineFramer()
    framer.feed(data)
    assert framer.close() == []


def test_only_one_carriage_return_belongs_to_the_line_end():
    assert frame([b"a\r\r\n\r\n"]) == [OutputLine(b"a\r", False), OutputLine(b"", False)]


def test_a_line_of_exactly_the_cap_is_whole_and_one_more_is_cut():
    assert frame([b"aaaa\nbbbbb\nc\n"], cap=4) == [
        OutputLine(b"aaaa", False),
        OutputLine(b"bbbb", True),
        OutputLine(b"c", False),
    ]


def test_a_cut_line_keeps_its_first_64_kib():
    long = bytes(range(32, 256)) * 1024
    assert frame([long, b"\nnext\n"], cap=100_000) == [OutputLine(long[:KEPT], True), OutputLine(b"next", False)]


def test_a_cut_line_without_an_end_is_still_told():
    assert frame([b"aaaaa"], cap=4) == [OutputLine(b"aaaa", True)]


@given(st.binary(max_size=400).map(lambda b: b.replace(b"0", b"\n")), st.lists(st.integers(0, 400)), st.integers(1, 50))
def test_any_chunking_gives_the_same_lines(data, cuts, cap):
    assert frame(pieces_of(data, cuts), cap) == frame([data], cap)


@given(
    st.lists(st.binary(max_size=30).filter(lambda b: b"\n" not in b and b[-1:] != b"\r")), st.lists(st.integers(0, 900))
)
def test_what_was_joined_comes_apart_again(lines, cuts):
    data = b"".join(line + b"\n" for line in lines)
    assert frame(pieces_of(data, cuts)) == [OutputLine(line, False) for line in lines]


def test_a_line_of_100_mb_keeps_memory_flat_and_the_next_intact():
    code = """
import resource
from ostler.process.lines import LineFramer
framer, chunk, lines = LineFramer(8 << 20), b"x" * 65536, []
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(1600):
    lines += framer.feed(chunk)
lines += framer.feed(b"\\nnext\\n")
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print([(len(line.data), line.cut) for line in lines], grown < 30_000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[(65536, True), (4, False)] True\n"


# -- reading descriptors ------------------------------------------------------------------------------


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    open_fds = {reading, writing}
    yield reading, writing, lambda fd: (os.close(fd), open_fds.discard(fd))
    for fd in open_fds:
        os.close(fd)


async def test_chunks_come_as_they_are_written(pipe):
    reading, writing, close = pipe
    stream = chunks(reading)
    os.write(writing, b"one")
    assert await anext(stream) == b"one"
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    os.write(writing, b"two")
    assert await waiting == b"two"
    close(writing)
    assert [chunk async for chunk in stream] == []


async def test_a_cancelled_reader_leaves_nothing_behind_and_loses_nothing(pipe):
    reading, writing, _ = pipe
    waiting = asyncio.ensure_future(anext(chunks(reading)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.get_running_loop().remove_reader(reading) is False
    os.write(writing, b"still here")
    assert await anext(chunks(reading)) == b"still here"


async def test_a_reader_that_stops_asking_watches_nothing(pipe):
    reading, writing, _ = pipe
    stream = chunks(reading)
    os.write(writing, b"x")
    await anext(stream)
    assert asyncio.get_running_loop().remove_reader(reading) is False
    await stream.aclose()


async def test_a_flood_does_not_keep_the_loop():
    zeros = os.open("/dev/zero", os.O_RDONLY | os.O_NONBLOCK)
    other = asyncio.create_task(asyncio.sleep(0))
    stream = chunks(zeros)
    for _ in range(100):
        await anext(stream)
        if other.done():
            break
    assert other.done()
    await stream.aclose()
    os.close(zeros)


async def test_the_end_of_a_terminal_is_an_end():
    master, slave = os.openpty()
    os.set_blocking(master, False)
    os.write(slave, b"last words")
    os.close(slave)
    assert b"".join([chunk async for chunk in chunks(master)]) == b"last words"
    os.close(master)


def test_a_hundred_thousand_lines_take_seconds_at_most():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    data = b'{"type": "text", "text": "some words of an agent"}\n' * 100_000
    assert len(frame(pieces_of(data, range(0, len(data), 65536)))) == 100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5
