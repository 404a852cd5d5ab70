"""Viewers that come too late: the last screen as it was kept, then the exit, and no more."""

from typing import Any

import pytest
from msgspec import structs

from ostler.model import Exit, TerminalRow
from ostler.terminal.lease import Author
from ostler.terminal.screen.protocol import Cursor, Modes, Progress, Snapshot
from ostler.terminal.viewer_protocol import (
    AnyTerminalMessage,
    Gone,
    Hello,
    SnapshotMessage,
    Type,
    encode_message,
    read_terminal_message,
)
from ostler.terminal.viewer_snapshot import LIMIT
from ostler.work.terminals.ended import EndedViewing, shown

ANNA = Author("Anna", "person", "anna:1")
ROW = TerminalRow(
    id="t1", session="k3", name="bash", source="pty", cols=80, rows=24, created_at=1.0, state="ended", exit=Exit(code=2)
)
LAST = Snapshot(
    offset=100,
    cols=80,
    rows=24,
    text=("$ done",),
    styled=("$ done",),
    cursor=Cursor(),
    modes=Modes(alternate=True),
    title="build",
    cwd="/w",
    progress=Progress("error", 5),
    scrollback=0,
    vt=b"\x1b[H$ done",
)
SHOWN = SnapshotMessage(
    offset=100,
    cols=80,
    rows=24,
    vt="\x1b[H$ done",
    title="build",
    cwd="/w",
    progress=Progress("error", 5),
    alternate=True,
)


async def frames(viewing: EndedViewing) -> list[Any]:
    return [read_terminal_message(frame) async for frame in viewing.frames()]


def viewing(offset: int | None = None, last: Snapshot = LAST, row: TerminalRow = ROW) -> EndedViewing:
    return EndedViewing(row, ANNA, "view", last, offset)


def told(resumed: bool) -> AnyTerminalMessage:
    return Hello(terminal=ROW, viewer="anna:1", rights="view", resumed=resumed)


@pytest.mark.parametrize("offset", [None, 0, 99, 101])
async def test_who_has_not_seen_all_of_it_gets_the_last_screen(offset: int | None) -> None:
    assert await frames(viewing(offset)) == [told(False), SHOWN, Gone(exit=Exit(code=2), offset=100)]


async def test_who_has_seen_all_of_it_gets_the_exit_alone() -> None:
    assert await frames(viewing(100)) == [told(True), Gone(exit=Exit(code=2), offset=100)]


async def test_a_terminal_that_never_said_a_word() -> None:
    empty = structs.replace(LAST, offset=0, vt=b"")
    row = structs.replace(ROW, exit=None)
    assert (await frames(viewing(0, empty, row)))[1:] == [Gone(exit=None, offset=0)]


async def test_nothing_that_is_typed_changes_it_and_nothing_comes_twice() -> None:
    late = viewing(100)
    late.receive(encode_message(Type(text="rm -rf /\n")))
    late.receive(b"\0garbage")
    assert len(await frames(late)) == 2
    assert await frames(late) == []


async def test_who_leaves_gets_no_more() -> None:
    gone = viewing()
    await gone.close()
    assert await frames(gone) == []


def test_half_a_character_at_the_end_is_lost_but_its_offset_is_not() -> None:
    cut = structs.replace(LAST, vt=b"\x1b[Hgr\xc3")
    assert shown(cut) == structs.replace(SHOWN, vt="\x1b[Hgr")


def test_too_much_scrollback_is_lightened() -> None:
    rows = b"\r\n".join(b"%06d" % number for number in range(50_000))
    long = structs.replace(LAST, vt=b"\x1b[H" + rows + b"\r\nend", scrollback=49_000)
    vt = shown(long).vt
    assert LIMIT - 8 <= len(vt) <= LIMIT and vt.startswith("\x1b[H0") and vt.endswith("049999\r\nend")
