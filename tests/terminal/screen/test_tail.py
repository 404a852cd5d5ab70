"""What a screen process is sent of a log, and what it is spared after it has died of it twice: decisions alone."""

import os

import pytest

from ostler.terminal.log import ByteLog
from ostler.terminal.screen.current_step import DRAW, FEED, KEEP, OPEN, RESIZE, Doing, StepNote, step_note_file
from ostler.terminal.screen.protocol import (
    Checkpoint,
    CloseScreen,
    FeedScreen,
    Modes,
    OpenScreen,
    ResizeScreen,
    ScreenLimits,
    ScreenRequest,
)
from ostler.terminal.screen.tail import CAREFUL_CHUNK, CHUNK, WINDOW, Tail

ID = 7


class Walk:
    """A tail over a log, with what it says."""

    def __init__(self, data: bytes = b"", limit: int = 1 << 20) -> None:
        self.log = ByteLog(limit)
        self.notices: list[str] = []
        self.tail = Tail(OpenScreen(ID, 80, 24, 0, ScreenLimits()), self.log.read, self.notices.append)
        self.tail.rewind()
        self.grow(data)

    def grow(self, data: bytes) -> None:
        self.tail.grew(self.log.append(data))

    def sent(self) -> list[ScreenRequest]:
        """All that can be sent now."""
        found = []
        while request := self.tail.next():
            found.append(request)
        return found

    def fed(self) -> list[tuple[int, int, bool]]:
        """From where to where bytes are sent, and whether quietly; each is confirmed at once."""
        found = []
        while request := self.tail.next():
            if isinstance(request, FeedScreen):
                found.append((request.end - len(request.data), request.end, request.quiet))
                self.tail.came_to(request.end)
        return found


def test_requests_come_after_the_bytes_before_them() -> None:
    walk = Walk(b"one")
    walk.tail.resized(40, 10)
    walk.grow(b"two")
    walk.tail.then(CloseScreen(ID))
    opening, first, resize, second, close = walk.sent()
    assert isinstance(opening, OpenScreen)
    assert (first, second) == (FeedScreen(ID, 3, False, b"one"), FeedScreen(ID, 6, False, b"two"))
    assert (resize, close) == (ResizeScreen(ID, 1, 40, 10), CloseScreen(ID))


def test_no_more_is_under_way_than_the_window() -> None:
    walk = Walk(b"x" * 900_000)
    _, *feeds = walk.sent()
    assert [len(feed.data) for feed in feeds if isinstance(feed, FeedScreen)] == [CHUNK] * (WINDOW // CHUNK)
    walk.tail.came_to(CHUNK)
    assert [request.end for request in walk.sent() if isinstance(request, FeedScreen)] == [WINDOW + CHUNK]


def test_what_was_told_before_is_quiet_the_next_time() -> None:
    walk = Walk(b"x" * 100)
    walk.sent()
    walk.tail.came_to(60)
    walk.tail.rewind()
    assert walk.fed() == [(0, 60, True), (60, 100, False)]


def test_a_rebuild_begins_at_the_checkpoint() -> None:
    walk = Walk(b"x" * 100)
    walk.tail.resized(40, 10)
    walk.grow(b"y" * 100)
    walk.tail.resized(50, 10)
    walk.fed()
    kept = Checkpoint(ID, 150, 1, None, b"data")
    walk.tail.keep(kept)
    walk.tail.modes = Modes(alternate=True)
    walk.tail.rewind()
    opening, feed, resize = walk.sent()
    assert opening == OpenScreen(ID, 80, 24, 0, ScreenLimits(), kept, Modes(alternate=True))
    assert (feed, resize) == (FeedScreen(ID, 200, True, b"y" * 50), ResizeScreen(ID, 2, 50, 10))


def test_bytes_that_killed_twice_are_skipped() -> None:
    walk = Walk(b"x" * 50_000)
    assert not walk.tail.again(Doing(ID, FEED, 50_000, 50_000))
    walk.tail.rewind()
    assert {end - start for start, end, _ in walk.fed()} == {CAREFUL_CHUNK, 50_000 % CAREFUL_CHUNK}
    second = Doing(ID, FEED, 3 * CAREFUL_CHUNK, CAREFUL_CHUNK)
    assert walk.tail.again(second)
    walk.tail.skip(second)
    walk.tail.rewind()
    sent = walk.fed()
    assert all(end <= 2 * CAREFUL_CHUNK or start >= 3 * CAREFUL_CHUNK for start, end, _ in sent)
    assert (sent[0][0], sent[-1][1]) == (0, 50_000)
    assert walk.notices == ["4096 bytes at 8192 crashed the emulator twice and were skipped"]


def test_bytes_elsewhere_are_another_crash() -> None:
    walk = Walk(b"x" * 50_000)
    crashes = [(1000, 1000), (3000, 1000), (3000, 1000)]
    assert [walk.tail.again(Doing(ID, FEED, *crash)) for crash in crashes] == [False, False, True]


def test_a_size_that_killed_twice_is_skipped() -> None:
    walk = Walk(b"x")
    walk.tail.resized(40, 10)
    walk.tail.resized(50, 20)
    doing = Doing(ID, RESIZE, 1)
    assert [walk.tail.again(doing), walk.tail.again(doing)] == [False, True]
    walk.tail.skip(doing)
    walk.tail.rewind()
    assert [request for request in walk.sent() if isinstance(request, ResizeScreen)] == [ResizeScreen(ID, 2, 50, 20)]
    assert len(walk.notices) == 1


@pytest.mark.parametrize("what", [OPEN, DRAW, KEEP])
def test_a_screen_that_cannot_be_shown_begins_empty(what: int) -> None:
    walk = Walk(b"x" * 100)
    walk.tail.resized(40, 10)
    walk.tail.modes = Modes(alternate=True)
    doing = Doing(ID, what)
    assert [walk.tail.again(doing), walk.tail.again(doing)] == [False, True]
    walk.tail.skip(doing)
    walk.tail.rewind()
    walk.grow(b"more")
    assert walk.sent() == [OpenScreen(ID, 40, 10, 100, ScreenLimits()), FeedScreen(ID, 104, False, b"more")]
    assert (walk.tail.modes, len(walk.notices)) == (Modes(), 1)


@pytest.mark.parametrize("what", [OPEN, DRAW, KEEP])
def test_what_went_well_in_between_is_not_blamed(what: int) -> None:
    walk = Walk(b"x" * 100)
    assert not walk.tail.again(Doing(ID, what))
    if what == OPEN:
        walk.tail.came_to(50)
    elif what == KEEP:
        walk.tail.keep(Checkpoint(ID, 50, 0, None, b"data"))
    else:
        walk.tail.passed(DRAW)
    assert not walk.tail.again(Doing(ID, what))


def test_bytes_that_left_the_log_are_told() -> None:
    walk = Walk(b"x" * 5000, limit=1000)
    feeds = [request for request in walk.sent() if isinstance(request, FeedScreen)]
    assert [(feed.end, feed.data) for feed in feeds] == [(5000, b"\x18" + b"x" * 1000)]
    assert walk.notices == ["4000 bytes at 0 left the log before they were emulated"]


def test_the_box() -> None:
    fd = step_note_file()
    ours, theirs = StepNote(fd), StepNote(fd)
    seen = [ours.read()]
    theirs.begin(3, FEED, 100, 20)
    seen.append(ours.read())
    theirs.rest()
    seen.append(ours.read())
    ours.close()
    theirs.close()
    os.close(fd)
    assert seen == [None, Doing(3, FEED, 100, 20), None]
