import errno
import itertools
import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.errors import OstlerError
from ostler.process import Size
from ostler.terminal.cast import CastEvent, CastHeader, CastWriter, read_cast
from ostler.terminal.play import play
from still_clock import StillClock


class Clock(StillClock):
    """It is set ahead by who sleeps."""

    def __init__(self):
        super().__init__(100.0)
        self.slept = []

    async def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.now += seconds


def events_of(path):
    return list(read_cast(path).events())


def kind_of(call, *arguments, **named):
    with pytest.raises(OstlerError) as raised:
        call(*arguments, **named)
    return raised.value.kind


def test_a_recording_is_asciicast_v2(tmp_path):
    path, clock = tmp_path / "a.cast", Clock()
    writer = CastWriter(path, cols=80, rows=24, title="bash", clock=clock, timestamp=1700000000)
    writer.output(b"\x1b[31mhi\x1b[0m \xe6\xbc")
    clock.now += 0.5
    writer.input(b"ls\r")
    writer.output(b"\xa2")
    writer.resize(100, 30)
    clock.now += 1
    writer.marker("here")
    writer.close()
    writer.close()
    writer.output(b"too late")
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == [
        {"version": 2, "width": 80, "height": 24, "timestamp": 1700000000, "title": "bash"},
        [0.0, "o", "\x1b[31mhi\x1b[0m "],
        [0.5, "i", "ls\r"],
        [0.5, "o", "漢"],
        [0.5, "r", "100x30"],
        [1.5, "m", "here"],
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    cast = read_cast(path)
    assert cast.header == CastHeader(2, 80, 24, 1700000000, "bash")
    assert list(cast.events()) == list(cast.events())
    assert [event.size for event in cast.events()] == [None, None, None, Size(100, 30), None]


def test_a_recording_is_never_written_over(tmp_path):
    CastWriter(tmp_path / "a.cast", cols=80, rows=24).close()
    assert kind_of(CastWriter, tmp_path / "a.cast", cols=80, rows=24) == "exists"


def test_every_event_is_in_the_file_at_once(tmp_path):
    writer = CastWriter(tmp_path / "a.cast", cols=80, rows=24, clock=Clock(), title="\ud800")
    writer.output(b"one\xff\xf0\x9f")
    assert events_of(tmp_path / "a.cast") == [CastEvent(0, "o", "one\ufffd")]
    writer.close()
    assert events_of(tmp_path / "a.cast") == [CastEvent(0, "o", "one\ufffd"), CastEvent(0, "o", "\ufffd")]
    assert read_cast(tmp_path / "a.cast").header.title == "?"


def test_past_its_limit_a_recording_says_so_and_ends(tmp_path):
    path = tmp_path / "a.cast"
    writer = CastWriter(path, cols=80, rows=24, limit_bytes=1000, clock=Clock())
    for _ in range(100):
        writer.output(b"x" * 50)
    writer.close()
    *most, last = events_of(path)
    assert writer.full
    assert last == CastEvent(0, "m", "The recording ends here: its limit is 1000 bytes")
    assert set(most) == {CastEvent(0, "o", "x" * 50)}
    assert 700 < path.stat().st_size <= 1000


def test_a_full_disk_ends_the_recording_not_the_terminal(tmp_path, monkeypatch):
    writer = CastWriter(tmp_path / "a.cast", cols=80, rows=24)

    def fail(fd, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    assert kind_of(writer.output, b"x") == "store"
    writer.output(b"y")
    writer.close()


@given(data=st.binary(max_size=80), cuts=st.lists(st.integers(0, 80), max_size=10))
def test_characters_split_over_chunks_are_joined(tmp_path_factory, data, cuts):
    path = tmp_path_factory.mktemp("casts") / "a.cast"
    writer = CastWriter(path, cols=80, rows=24, clock=Clock())
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for a, b in itertools.pairwise(edges):
        writer.output(data[a:b])
    writer.close()
    assert "".join(event.data for event in events_of(path)) == data.decode(errors="replace")


# -- reading ----------------------------------------------------------------------------------------

MADE_BY_ASCIINEMA = (
    b'{"version": 2, "width": 143, "height": 31, "timestamp": 1504467315, "idle_time_limit": 2.5, '
    b'"env": {"TERM": "xterm-256color", "SHELL": "/bin/zsh"}, "theme": {"fg": "#ffffff"}}\n'
    b'[0.248848, "o", "\\u001b[1;31mHello \\u001b[32mWorld!\\u001b[0m\\n"]\n'
    b'[1.001376, "o", "That was ok\\rThis is better."]\n'
    b'[2, "x", "of the future"]\n'
)


def test_recordings_of_others_can_be_read(tmp_path):
    path = tmp_path / "a.cast"
    path.write_bytes(MADE_BY_ASCIINEMA)
    assert read_cast(path).header == CastHeader(2, 143, 31, 1504467315, None, 2.5)
    assert events_of(path) == [
        CastEvent(0.248848, "o", "\x1b[1;31mHello \x1b[32mWorld!\x1b[0m\n"),
        CastEvent(1.001376, "o", "That was ok\rThis is better."),
        CastEvent(2.0, "x", "of the future"),
    ]


def test_broken_lines_are_passed_over(tmp_path):
    path = tmp_path / "a.cast"
    header = MADE_BY_ASCIINEMA.splitlines(keepends=True)[0]
    broken = [b"", b"garbage", b"{}", b"[]", b'[1, "o"]', b'["1", "o", "x"]', b'[true, "o", "x"]', b'[-1, "o", "x"]']
    broken += [b'[1e400, "o", "x"]', b'[1, "o", "\\ud800"]', b'[1, 2, "x"]', b"\xff\xfe", b"[" * 100_000]
    lines = [b'[2, "o", "good"]', *broken, b'[1, "o", "earlier"]', b'[3, "o", "ha']
    path.write_bytes(header + b"\n".join(lines))
    assert events_of(path) == [CastEvent(2, "o", "good"), CastEvent(2, "o", "earlier")]


@given(st.integers(0, len(MADE_BY_ASCIINEMA)))
def test_a_recording_cut_anywhere_gives_what_is_whole(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("casts") / "a.cast"
    path.write_bytes(MADE_BY_ASCIINEMA)
    whole = events_of(path)
    path.write_bytes(MADE_BY_ASCIINEMA[:length])
    first, *others = (line.rstrip() for line in MADE_BY_ASCIINEMA.splitlines(keepends=True))
    if length < len(first):
        assert kind_of(read_cast, path) == "bad_request"
        return
    ends = itertools.accumulate((len(line) + 1 for line in others), initial=len(first) + 1)
    assert events_of(path) == whole[: sum(length >= end - 1 for end in list(ends)[1:])]


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b'{"version": 1}', b'{"version":2}', b'{"version":3,"term":{}}'])
def test_what_is_no_recording_is_refused(tmp_path, data):
    (tmp_path / "a.cast").write_bytes(data)
    assert kind_of(read_cast, tmp_path / "a.cast") == "bad_request"


def test_only_files_are_recordings(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert kind_of(read_cast, tmp_path / "fifo") == "bad_request"
    assert kind_of(read_cast, tmp_path) == "bad_request"
    assert kind_of(read_cast, tmp_path / "none") == "not_found"


# -- playing ----------------------------------------------------------------------------------------


@pytest.fixture
def cast(tmp_path):
    path = tmp_path / "played.cast"
    events = [[1, "o", "a"], [1.5, "i", "x"], [2, "r", "100x30"], [12, "o", "b"], [12, "o", "c"]]
    lines = [{"version": 2, "width": 80, "height": 24}, *events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_cast(path)


@pytest.mark.parametrize(
    ("options", "slept"),
    [
        ({}, [1, 0.5, 0.5, 10]),
        ({"speed": 2}, [0.5, 0.25, 0.25, 5]),
        ({"idle_limit": 0.75}, [0.75, 0.5, 0.5, 0.75]),
        ({"start": 1.75}, [0.25, 10]),
        ({"start": 11, "speed": 4}, [0.25]),
        ({"start": 99}, []),
        ({"speed": float("inf")}, []),
    ],
)
async def test_playing_takes_its_time(cast, options, slept):
    clock, written = Clock(), []

    async def write(data):
        written.append(data)

    async def resize(size):
        written.append(size)

    await play(cast, write, resize=resize, sleep=clock.sleep, clock=clock, **options)
    assert written == [b"a", Size(100, 30), b"b", b"c"]
    assert clock.slept == slept


async def test_a_slow_writer_does_not_delay_what_follows(cast):
    clock = Clock()

    async def write(data):
        clock.now += 4

    await play(cast, write, sleep=clock.sleep, clock=clock)
    assert clock.slept == [1, 7]


@pytest.mark.parametrize("speed", [0, -1, float("nan")])
async def test_a_speed_that_plays_nothing_is_refused(cast, speed):
    with pytest.raises(OstlerError) as raised:
        await play(cast, None, speed=speed)
    assert raised.value.kind == "bad_request"
