"""Screens in their own process: updates, snapshots, replies, and what happens when that process dies."""

import asyncio
import base64
import json
import os
import resource
import select
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ostler
from ostler.errors import OstlerError
from ostler.terminal.log import ByteLog
from ostler.terminal.screen.follow import Followers
from ostler.terminal.screen.protocol import Cursor, Modes, Row, ScreenFacts, ScreenLimits, Snapshot, Update
from ostler.terminal.screen.screen import Screen
from ostler.terminal.screen.screens import Screens
from waiting import PATIENCE, stop, until

CAPTURES = Path(__file__).parents[2] / "captures"


@pytest.fixture
async def screens() -> AsyncIterator[Screens]:
    screens = Screens()
    yield screens
    await screens.close()
    assert screens.pids == []


class Terminal:
    """A log with a screen, as a terminal has them, and all that came out of it."""

    def __init__(self, screens: Screens, cols: int = 80, rows: int = 24, limits: ScreenLimits | None = None) -> None:
        self.log = ByteLog()
        self.replies: list[bytes] = []
        self.told: list[ScreenFacts] = []
        self.notices: list[str] = []
        self.screen: Screen = screens.open(
            cols,
            rows,
            read_log=self.log.read,
            reply=self.replies.append,
            on_facts=self.told.append,
            notice=self.notices.append,
            limits=limits,
        )

    def feed(self, data: bytes) -> None:
        offset = self.log.end
        self.log.append(data)
        self.screen.feed(offset, data)


def apply(rows: dict[int, str], update: Update) -> None:
    """What a follower does with an update."""
    if update.whole:
        rows.clear()
    rows.update((row.y, row.vt) for row in update.changed)


def pieces(data: bytes, size: int = 4000) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


async def test_a_snapshot_holds_all_that_was_fed(screens: Screens) -> None:
    terminal = Terminal(screens)
    for number in range(500):
        terminal.feed(b"\r\nline %d" % number)
    shot = await terminal.screen.snapshot()
    assert shot.text == tuple(f"line {number}" for number in range(476, 500))
    assert (shot.offset, shot.scrollback, terminal.screen.backlog) == (terminal.log.end, 477, 0)


async def test_followers_see_the_same_as_a_snapshot(screens: Screens) -> None:
    terminal = Terminal(screens, 120, 40)
    updates, rows, seqs = terminal.screen.changes(), dict[int, str](), list[int]()
    first = await anext(updates)
    assert (first.seq, first.whole, len(first.changed)) == (1, True, 40)
    for piece in pieces((CAPTURES / "claude/interactive-session.raw.txt").read_bytes()):
        terminal.feed(piece)
        await asyncio.sleep(0)
    shot = await terminal.screen.snapshot()
    await terminal.screen.close()
    async for update in updates:
        apply(rows, update)
        seqs.append(update.seq)
    assert seqs == list(range(2, 2 + len(seqs)))
    shown = {y: vt for y, vt in enumerate(shot.styled) if vt}
    assert {y: vt for y, vt in rows.items() if vt} == shown


async def test_a_slow_follower_gets_one_merged_update(screens: Screens) -> None:
    terminal = Terminal(screens)
    updates, rows = terminal.screen.changes(), dict[int, str]()
    apply(rows, await anext(updates))
    for number in range(200):
        terminal.feed(b"\x1b[%d;1Hrow %d\x07" % (number % 20 + 1, number))
        if number % 20 == 19:
            shot = await terminal.screen.snapshot()
    await terminal.screen.close()
    update, *more = [update async for update in updates]
    apply(rows, update)
    assert (more, update.facts.bells) == ([], 200)
    assert tuple(rows[y] for y in range(24)) == shot.styled


async def test_facts_do_not_wait_for_a_change_of_the_screen() -> None:
    followers = Followers()
    updates = followers.add(lambda: None)
    followers.add_facts(ScreenFacts(title="early"))
    followers.update(Update(0, 5, 80, 24, (Row(0, "x", "x"),), Cursor(), Modes(), whole=True))
    first = await anext(updates)
    followers.add_facts(ScreenFacts(bells=1, offset=6))
    async with asyncio.timeout(PATIENCE):
        then = await anext(updates)
    assert (first.seq, first.facts, first.whole) == (1, ScreenFacts(title="early"), True)
    assert (then.seq, then.facts, then.changed, then.whole) == (2, ScreenFacts(bells=1, offset=6), (), False)
    followers.add_facts(ScreenFacts(bells=2))
    followers.update(Update(0, 7, 80, 24, (Row(1, "y", "y"),), Cursor(), Modes()))
    followers.end()
    assert [(update.facts.bells, update.offset) async for update in updates] == [(2, 7)]


async def test_facts_and_replies_in_stream_order(screens: Screens) -> None:
    terminal = Terminal(screens)
    terminal.feed(b"\x1b]7501;?\x1b\\\x1b[c")
    terminal.feed(b"\x1b[6n\x1b]2;title\x07\x07")
    shot = await terminal.screen.snapshot()
    assert b"".join(terminal.replies) == b"\x1b]7501;?ostler\x1b\\\x1b[?62;22c\x1b[1;1R"
    assert terminal.told == [ScreenFacts(bells=1, title="title", offset=terminal.log.end)]
    assert shot.title == "title"


async def test_modes_are_told_whether_watched_or_not(screens: Screens) -> None:
    terminal = Terminal(screens)
    assert terminal.screen.modes == Modes()
    for data in (b"plain", b"\x1b[?1049h\x1b[?2026h\x1b[>5u", b"\x1b[?2026lframe", b"\x1b[?1049", b"l"):
        terminal.feed(data)
        await terminal.screen.snapshot()
    within, after = Modes(alternate=True, kitty=5), Modes()  # each screen has kitty flags of its own
    assert terminal.told == [ScreenFacts(modes=within, offset=26), ScreenFacts(modes=after, offset=terminal.log.end)]
    assert terminal.screen.modes == after


async def test_modes_over_a_crash(screens: Screens) -> None:
    terminal = Terminal(screens)
    terminal.feed(b"\x1b[?1h")
    await terminal.screen.snapshot()
    os.kill(screens.pids[0], signal.SIGKILL)
    shot = await terminal.screen.snapshot()
    terminal.feed(b"\x1b[?2004h")
    await terminal.screen.snapshot()
    first, then = Modes(application_cursor=True), Modes(application_cursor=True, bracketed_paste=True)
    assert [facts.modes for facts in terminal.told] == [first, then]
    assert (shot.modes, terminal.screen.modes) == (first, then)


async def test_resize_comes_after_what_was_fed_before(screens: Screens) -> None:
    terminal = Terminal(screens, 20, 5)
    terminal.feed(b"x" * 30)
    terminal.screen.resize(40, 6)
    terminal.feed(b"y" * 20)
    shot = await terminal.screen.snapshot()
    assert (shot.cols, shot.rows, shot.text[:2]) == (40, 6, ("x" * 30 + "y" * 10, "y" * 10))


async def test_synchronized_output_is_one_update(screens: Screens) -> None:
    terminal = Terminal(screens)
    updates = terminal.screen.changes()
    await anext(updates)
    terminal.feed(b"\x1b[?2026hfirst")
    terminal.feed(b" second\x1b[?2026l")
    assert (await anext(updates)).changed[0].text == "first second"
    updates.close()


async def test_a_closed_screen(screens: Screens) -> None:
    terminal = Terminal(screens)
    terminal.feed(b"last words")
    updates = terminal.screen.changes()
    await terminal.screen.close()
    await terminal.screen.close()
    assert [update.changed[0].text async for update in updates] == ["last words"]
    assert [update async for update in terminal.screen.changes()] == []
    with pytest.raises(OstlerError) as error:
        await terminal.screen.snapshot()
    assert error.value.kind == "not_found"


async def test_screens_are_spread_over_processes() -> None:
    screens = Screens(per_process=2)
    terminals = [Terminal(screens) for _ in range(5)]
    for number, terminal in enumerate(terminals):
        terminal.feed(b"%d" % number)
    shots = [await terminal.screen.snapshot() for terminal in terminals]
    assert [shot.text[0] for shot in shots] == ["0", "1", "2", "3", "4"]
    assert len(screens.pids) == 3
    await screens.close()


async def test_a_process_started_ahead_is_used(screens: Screens) -> None:
    screens.warm()
    screens.warm()
    pids = screens.pids
    terminal = Terminal(screens)
    terminal.feed(b"warm")
    assert (await terminal.screen.snapshot()).text[0] == "warm"
    assert (len(pids), screens.pids) == (1, pids)


async def test_a_log_that_was_overrun_is_told(screens: Screens) -> None:
    terminal = Terminal(screens)
    terminal.log.append(b"x" * 3_000_000 + b"\r\nend")
    terminal.screen.feed(3_000_000, b"\r\nend")
    shot = await terminal.screen.snapshot()
    assert [row for row in shot.text if row][-1] == "end"
    assert ["left the log" in notice for notice in terminal.notices] == [True]


async def uninterrupted(screens: Screens, data: bytes) -> tuple[Snapshot, bytes]:
    terminal = Terminal(screens, 120, 40)
    for piece in pieces(data):
        terminal.feed(piece)
    return await terminal.screen.snapshot(), b"".join(terminal.replies)


@pytest.mark.parametrize("capture", ["gemini/interactive-session", "codex/interactive-session"])
async def test_killed_in_mid_stream(screens: Screens, capture: str) -> None:
    data = (CAPTURES / f"{capture}.raw.txt").read_bytes()
    data += b"\x1b[c"
    expected, replies = await uninterrupted(screens, data)
    terminal, other = Terminal(screens, 120, 40), Terminal(screens)
    other.feed(b"other\x1b[c")
    updates, rows = terminal.screen.changes(), dict[int, str]()
    all_pieces = pieces(data)
    for number, piece in enumerate(all_pieces):
        terminal.feed(piece)
        if number in (len(all_pieces) // 3, len(all_pieces) // 2):
            await terminal.screen.snapshot()
            os.kill(screens.pids[0], signal.SIGKILL)
    shot = await terminal.screen.snapshot()
    assert (shot.text, shot.styled, shot.cursor) == (expected.text, expected.styled, expected.cursor)
    assert (await other.screen.snapshot()).text[0] == "other"
    assert (b"".join(terminal.replies), terminal.notices) == (replies, [])  # each once, over two crashes
    assert other.replies == [b"\x1b[?62;22c"]
    assert terminal.screen.restarts >= 1
    await terminal.screen.close()
    async for update in updates:
        apply(rows, update)
    assert tuple(rows[y] for y in range(40)) == expected.styled


async def test_replies_are_given_once_over_a_crash(screens: Screens) -> None:
    terminal = Terminal(screens)
    terminal.feed(b"\x1b[c\x07")
    await terminal.screen.snapshot()
    os.kill(screens.pids[0], signal.SIGKILL)
    terminal.feed(b"\x1b[5n")
    await terminal.screen.snapshot()
    assert (terminal.replies, terminal.told) == ([b"\x1b[?62;22c", b"\x1b[0n"], [ScreenFacts(bells=1, offset=4)])


async def test_a_sequence_that_crashes_the_library(screens: Screens) -> None:
    """Recorded by fuzzing; it needs a limit of lines and tiny sizes, which ostler itself never sets."""
    first, *operations = json.loads((CAPTURES / "terminal/segfault_pyghostty_0.1.3.json").read_text())
    limits = ScreenLimits(scrollback_lines=first["line_limit"], min_cols=1, min_rows=1)
    terminal, other = Terminal(screens, first["cols"], first["rows"], limits), Terminal(screens)
    updates, others = terminal.screen.changes(), other.screen.changes()
    other.feed(b"untouched")
    data = b""
    for operation in operations:
        if operation["op"] == "resize":
            terminal.screen.resize(operation["cols"], operation["rows"])
        else:
            data += base64.b64decode(operation["base64"])
            terminal.feed(base64.b64decode(operation["base64"]))
    terminal.screen.resize(80, 24)
    terminal.feed(b"\x1bcafter")
    shot = await terminal.screen.snapshot()
    assert (shot.text[0], shot.offset, shot.cols) == ("after", terminal.log.end, 80)
    assert terminal.log.read(0) == (0, data + b"\x1bcafter")
    assert terminal.screen.restarts >= 2
    assert ["crashed the emulator twice and were skipped" in notice for notice in terminal.notices] == [True]
    assert (await other.screen.snapshot()).text[0] == "untouched"
    assert (other.notices, len(screens.pids)) == ([], 2)  # the one that crashed lives alone now
    for screen, followed, rows in ((terminal.screen, updates, shot.styled), (other.screen, others, ("untouched",))):
        await screen.close()
        seen: dict[int, str] = {}
        async for update in followed:
            apply(seen, update)
        assert tuple(seen[y] for y in range(len(rows))) == rows


def stopped(screens: Screens) -> int:
    """The process, which does nothing any more."""
    stop(screens.pids[0])
    return screens.pids[0]


async def replaced(screens: Screens, pid: int) -> None:
    await until(lambda: screens.pids not in ([], [pid]))


async def test_who_was_not_at_work_is_not_blamed(screens: Screens) -> None:
    """Its bytes were on their way each time, but the process died of something else."""
    terminal = Terminal(screens)
    await terminal.screen.snapshot()
    pid = stopped(screens)
    terminal.feed(b"innocent")
    for _ in range(4):
        await until(lambda: terminal.screen.tail.sent >= terminal.log.end)
        os.kill(pid, signal.SIGKILL)
        await replaced(screens, pid)
        pid = stopped(screens)
    os.kill(pid, signal.SIGCONT)
    assert (await terminal.screen.snapshot()).text[0] == "innocent"
    assert (terminal.notices, terminal.screen.alone, terminal.screen.restarts) == ([], False, 4)


async def test_killed_while_idle(screens: Screens) -> None:
    terminals = [Terminal(screens), Terminal(screens)]
    for number, terminal in enumerate(terminals):
        terminal.feed(b"%d" % number)
    for _ in range(3):
        shots = [await terminal.screen.snapshot() for terminal in terminals]
        assert [shot.text[0] for shot in shots] == ["0", "1"]
        pid = screens.pids[0]
        os.kill(pid, signal.SIGKILL)
        await replaced(screens, pid)
    assert [(terminal.notices, terminal.screen.alone) for terminal in terminals] == [([], False)] * 2


@contextmanager
def no_more_files() -> Iterator[None]:
    """As many files are open as may be."""
    free = os.dup(0)
    os.close(free)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_no_process_can_be_started_for_a_while() -> None:
    screens = Screens(look_limit=0.2)
    terminal = Terminal(screens)
    terminal.feed(b"kept")
    updates = terminal.screen.changes()
    assert (await anext(updates)).changed[0].text == "kept"
    with no_more_files():
        os.kill(screens.pids[0], signal.SIGKILL)
        terminal.feed(b" on")
        with pytest.raises(OstlerError) as error:
            await terminal.screen.snapshot()
        assert (error.value.kind, screens.pids) == ("crashed", [])
        with pytest.raises(OstlerError) as error:
            Terminal(screens)
        assert error.value.kind == "too_many"
    assert (await anext(updates)).changed[0].text == "kept on"
    assert len(screens.pids) == 1
    await screens.close()


async def test_closing_while_no_process_can_be_started() -> None:
    screens = Screens()
    terminal = Terminal(screens)
    await terminal.screen.snapshot()
    with no_more_files():
        os.kill(screens.pids[0], signal.SIGKILL)
        await until(lambda: not screens.pids)
        await terminal.screen.close()
        await screens.close()


async def test_a_process_that_dies_before_it_begins(screens: Screens, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("ostler.terminal.screen.link.BOOT", "raise SystemExit(1)")
        terminal = Terminal(screens)
        terminal.feed(b"patience")
        await until(lambda: terminal.screen.restarts >= 3)
    assert (await terminal.screen.snapshot()).text[0] == "patience"
    assert terminal.notices == []


async def test_the_same_sequence_is_harmless_within_our_limits(screens: Screens) -> None:
    first, *operations = json.loads((CAPTURES / "terminal/segfault_pyghostty_0.1.3.json").read_text())
    terminal = Terminal(screens, first["cols"], first["rows"])
    for operation in operations:
        if operation["op"] == "resize":
            terminal.screen.resize(operation["cols"], operation["rows"])
        else:
            terminal.feed(base64.b64decode(operation["base64"]))
    shot = await terminal.screen.snapshot()
    assert (shot.cols, shot.rows, terminal.screen.restarts) == (198, 5, 0)


OWNER = """
import asyncio, sys
from ostler.terminal.screen.screens import Screens
async def main():
    screens = Screens()
    await screens.open(80, 24, read_log=lambda offset, limit: (offset, b"")).snapshot()
    print(screens.pids[0], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_the_process_ends_when_ostler_is_killed() -> None:
    env = {"PYTHONPATH": str(Path(ostler.__file__).parent.parent)}
    pipe = asyncio.subprocess.PIPE
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, env=env, stdout=pipe)
    assert owner.stdout
    pidfd = os.pidfd_open(int(await owner.stdout.readline()))
    owner.kill()
    await owner.communicate()
    assert select.select([pidfd], [], [], 5)[0] == [pidfd]
    os.close(pidfd)


async def test_the_process_ends_with_us() -> None:
    screens = Screens()
    terminal = Terminal(screens)
    await terminal.screen.snapshot()
    pid = screens.pids[0]
    await screens.close()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(OstlerError):
        Terminal(screens)
