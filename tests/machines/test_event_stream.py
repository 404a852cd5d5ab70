from ostler.machines.event_stream import ServerEvent, events_of, whole_frames
from ostler.server.replies import HEARTBEAT, frame, journal_frame

SENT = frame("ready", b"{}") + HEARTBEAT + journal_frame((7, b'{"kind":"ended","text":"a\\n\\nevent: b"}'))
EVENTS = [ServerEvent("ready", b"{}"), ServerEvent("ended", b'{"kind":"ended","text":"a\\n\\nevent: b"}')]


def test_what_the_server_sends_is_read_however_it_is_cut() -> None:
    for size in range(1, len(SENT) + 1):
        found, rest = [], b""
        for start in range(0, len(SENT), size):
            whole, rest = whole_frames(rest + SENT[start : start + size])
            found += events_of(whole)
        assert (found, rest) == (EVENTS, b"")


def test_what_is_not_whole_waits() -> None:
    assert whole_frames(b"event: a\ndata: 1\n\nevent: b\n") == (b"event: a\ndata: 1\n\n", b"event: b\n")
    assert whole_frames(b"event: a") == (b"", b"event: a")
    assert events_of(b"") == []
