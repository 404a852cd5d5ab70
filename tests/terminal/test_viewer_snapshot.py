"""A snapshot as viewers get it: whole characters, and no more history than is worth sending."""

from typing import Any

import pytest
from msgspec import structs

from ostler.terminal.screen.protocol import Cursor, Modes, Progress, Snapshot
from ostler.terminal.viewer_protocol import SnapshotMessage, read_terminal_message
from ostler.terminal.viewer_snapshot import LIMIT, lightened, viewer_snapshot

SNAPSHOT = Snapshot(
    offset=100,
    cols=80,
    rows=24,
    text=(),
    styled=(),
    cursor=Cursor(),
    modes=Modes(alternate=True),
    title="t",
    cwd="/w",
    progress=Progress("set", 40),
    scrollback=0,
    vt=b"\x1b[Hhi",
)


def of(**changes: Any) -> Snapshot:
    return structs.replace(SNAPSHOT, **changes)


def test_a_shot_is_encoded_once() -> None:
    shot = viewer_snapshot(SNAPSHOT, resizes=3, history=False)
    assert shot.shown == SnapshotMessage(
        offset=100,
        cols=80,
        rows=24,
        vt="\x1b[Hhi",
        title="t",
        cwd="/w",
        progress=Progress("set", 40),
        alternate=True,
    )
    assert (shot.resizes, shot.history) == (3, False)
    assert shot.frame is shot.frame and read_terminal_message(shot.frame) == shot.shown


@pytest.mark.parametrize(
    ("vt", "shown", "offset"),
    [
        (b"gr\xc3\xbc", "gr\u00fc", 100),
        (b"gr\xc3", "gr", 99),
        (b"\xf0\x9f\x98", "", 97),
        (b"\xf0\x9f\x98\x80", "\U0001f600", 100),
        (b"a\xff", "a\ufffd", 100),  # never to be completed: no half of anything
        (b"", "", 100),
    ],
)
def test_the_bytes_that_follow_begin_with_half_a_character(vt: bytes, shown: str, offset: int) -> None:
    shot = viewer_snapshot(of(vt=vt), 0, history=False)
    assert (shot.shown.vt, shot.shown.offset) == (shown, offset)


def rows(count: int, width: int) -> bytes:
    return b"".join(b"%0*d\r\n" % (width, number) for number in range(count))


def test_what_is_short_enough_stays_whole() -> None:
    vt = b"\x1b[?25l\x1b[H" + rows(100, 10) + b"end"
    assert lightened(of(vt=vt, scrollback=80)) == vt


def test_the_oldest_rows_go_first_and_what_stands_before_them_stays() -> None:
    before = b"\x1b[?2004h\x1b[H"
    vt = before + rows(40_000, 10) + b"end"
    light = lightened(of(vt=vt, scrollback=39_000))
    assert len(light) <= LIMIT < len(light) + 12
    assert light.startswith(before) and vt.endswith(light[len(before) :])
    assert viewer_snapshot(of(vt=vt, scrollback=39_000), 0, history=True).shown.vt == light.decode()
    assert viewer_snapshot(of(vt=vt, scrollback=39_000), 0, history=False).shown.vt == vt.decode()


def test_no_row_of_the_screen_is_ever_dropped() -> None:
    vt = b"\x1b[H" + rows(30, 20_000)
    light = lightened(of(vt=vt, scrollback=6))
    assert light == b"\x1b[H" + rows(30, 20_000)[6 * 20_002 :]  # still too long, but all that is on it
    assert lightened(of(vt=vt, scrollback=0)) == vt
