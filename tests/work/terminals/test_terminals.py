"""Terminals in real PTYs: opened, listed, looked at, typed into, ended, and found again afterwards."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Exit, Session, TerminalRow
from ostler.process import tree
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import (
    AnyTerminalMessage,
    Control,
    Gone,
    Hello,
    Leased,
    ResizeTerminal,
    SnapshotMessage,
    Type,
    Viewing,
    Want,
    encode_message,
    read_terminal_message,
)
from ostler.work import Ostler
from ostler.work.sessions.rows import new_session_row
from waiting import until
from work.scripted import Stable

ANNA = Author("Anna", "person", "anna:window1")


@pytest.fixture
async def ostler(stable: Stable) -> AsyncIterator[Ostler]:
    async with stable.ostler() as o:
        yield o


async def session_of(o: Ostler, folder: Path) -> Session:
    row = new_session_row(o.store, o.settings, agent="script", folder=str(folder))
    await o.store.add_session(row)
    return row


@pytest.fixture
async def session(ostler: Ostler, stable: Stable) -> Session:
    return await session_of(ostler, stable.folder)


async def kind_of(awaitable: Any) -> str:
    with pytest.raises(OstlerError) as caught:
        await awaitable
    return caught.value.kind


async def shows(o: Ostler, id: str, text: str) -> str:
    """Waits until the terminal has said something; all that it said so far."""

    async def look() -> str:
        found = await o.terminals.text(id)
        return found if text in found else ""

    return str(await until(look))


async def ended(o: Ostler, id: str) -> TerminalRow:
    """Waits until its end is stored."""
    return await until(lambda: (row := o.store.terminal(id)).state == "ended" and row)


async def all_frames(viewing: Viewing) -> list[AnyTerminalMessage | tuple[int, bytes]]:
    """But who types: of an ended one nobody is told that."""
    return [told async for frame in viewing.frames() if not isinstance(told := read_terminal_message(frame), Leased)]


# -- opening ----------------------------------------------------------------------------------------


async def test_a_program_runs_in_a_terminal_and_its_end_is_kept(
    ostler: Ostler, session: Session, stable: Stable
) -> None:
    script = 'stty size; pwd; echo "$TERM $COLORTERM ${OSTLER_HOME:-none} $MORE"; printf "\\033[31mred\\033[0m"; exit 3'
    terminal = await ostler.terminals.open(
        session.id, ["sh", "-c", script], cols=100, rows=30, name="work", env={"MORE": "more"}
    )
    id = terminal.row.id
    assert terminal.row.pid and terminal.row.typing and terminal.row.state == "live"
    row = await ended(ostler, id)
    assert (row.session, row.name, row.source, row.cols, row.rows) == (session.id, "work", "pty", 100, 30)
    assert (row.exit, row.argv, row.folder) == (Exit(code=3), ("sh", "-c", script), str(stable.folder))
    assert row.ended_at >= row.created_at and row.size > 0 and row.pid is None
    lines = ["30 100", str(stable.folder), "xterm-256color truecolor none more", "red"]
    assert (await ostler.terminals.text(id)).split("\n") == lines
    snapshot = await ostler.terminals.snapshot(id)
    assert [text for text in snapshot.text if text] == lines
    assert "\x1b[" in snapshot.styled[3] and snapshot.offset == row.size
    assert os.stat(row.recording).st_mode & 0o777 == 0o600


async def test_what_cannot_be_opened_leaves_nothing_behind(ostler: Ostler, session: Session, stable: Stable) -> None:
    plain = stable.folder / "plain.txt"
    plain.write_text("x")
    broken = stable.folder / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    opening = ostler.terminals.open
    assert await kind_of(opening("nobody", ["sh"])) == "not_found"
    assert await kind_of(opening(session.id, ["no-such-command"])) == "missing"
    assert await kind_of(opening(session.id, ["./plain.txt"])) == "missing"
    assert await kind_of(opening(session.id, ["./broken"])) == "missing"
    assert await kind_of(opening(session.id, [])) == "bad_request"
    assert await kind_of(opening(session.id, ["sh", "a\0b"])) == "bad_request"
    assert await kind_of(opening(session.id, ["sh"], folder=str(stable.folder / "gone"))) == "not_found"
    assert await kind_of(opening(session.id, ["sh"], cols=0, rows=0)) == "bad_request"
    assert await kind_of(opening(session.id, ["sh"], cols=10**6, rows=10**6)) == "bad_request"
    assert await kind_of(opening(session.id, ["sh"], name="\x1b[31m")) == "bad_request"
    assert await kind_of(opening(session.id, ["sh"], env={"A=B": "x"})) == "bad_request"
    assert ostler.terminals.list() == []
    assert list(stable.state.glob("sessions/*/terminals/*")) == []


async def test_names_and_their_number_are_limited(stable: Stable) -> None:
    async with stable.ostler(OSTLER_TERMINALS="2") as o:
        session = await session_of(o, stable.folder)
        first = await o.terminals.open(session.id, ["cat"])
        assert await kind_of(o.terminals.open(session.id, ["cat"], name="cat")) == "exists"
        second = await o.terminals.open(session.id, ["cat"])
        assert (first.row.name, second.row.name) == ("cat", "cat 2")
        assert await kind_of(o.terminals.open(session.id, ["cat"])) == "too_many"
        await o.terminals.kill(first.row.id)
        third = await o.terminals.open(session.id, ["cat"], name="cat")
        assert [row.id for row in o.terminals.list(session.id, live=True)] == [third.row.id, second.row.id]
        assert [row.id for row in o.terminals.list(session.id)] == [third.row.id, second.row.id, first.row.id]


async def test_of_many_at_once_each_gets_a_name(ostler: Ostler, session: Session) -> None:
    opened = await asyncio.gather(*(ostler.terminals.open(session.id, ["cat"]) for _ in range(8)))
    assert {t.row.name for t in opened} == {"cat", *(f"cat {n}" for n in range(2, 9))}


async def test_nothing_speaks_of_the_terminal_around_ostler(stable: Stable) -> None:
    async with stable.ostler(TMUX="/tmp/x,1,0", TERM_PROGRAM="tmux", COLUMNS="7", OSTLER_TURN="outer") as o:
        session = await session_of(o, stable.folder)
        terminal = await o.terminals.open(session.id, ["env"])
        await ended(o, terminal.row.id)
        names = dict(line.split("=", 1) for line in (await o.terminals.text(terminal.row.id)).splitlines())
        assert {"TMUX", "TERM_PROGRAM", "COLUMNS", "OSTLER_HOME"} & set(names) == set()
        assert names["OSTLER_TURN"] == terminal.row.id


# -- typing, ending ---------------------------------------------------------------------------------


async def test_typing_needs_the_lease_and_reaches_the_program(ostler: Ostler, session: Session) -> None:
    terminals = ostler.terminals
    id = (await terminals.open(session.id, ["bash", "--norc", "-i"])).row.id
    assert await kind_of(terminals.input(id, ANNA, Type(text="x"))) == "denied"
    await terminals.input(id, ANNA, Type(text="echo $((6*7)); stty size\n"), take=True)
    await shows(ostler, id, "42")
    other = Author("Ben", "person", "ben:1")
    assert await kind_of(terminals.input(id, other, ResizeTerminal(cols=90, rows=20))) == "denied"
    await terminals.input(id, ANNA, ResizeTerminal(cols=90, rows=20))
    await until(lambda: (terminals.get(id).cols, terminals.get(id).rows) == (90, 20))
    await terminals.input(id, ANNA, Type(text="sleep 600\n"))
    await until(lambda: len(tree.marked(id)) == 2)

    async def interrupted() -> bool:
        await terminals.input(id, ANNA, Control(name="interrupt"))
        return len(tree.marked(id)) != 2

    await until(interrupted)  # bash may not have made it the foreground yet
    await shows(ostler, id, "^C")
    await terminals.input(id, ANNA, Type(text="stty size\n"))
    await shows(ostler, id, "20 90")
    await terminals.lease(id, ANNA, "release")
    assert await kind_of(terminals.input(id, ANNA, Type(text="x"))) == "denied"
    await terminals.input(id, ANNA, Type(text="exit 5\n"), take=True)
    assert (await ended(ostler, id)).exit == Exit(code=5)
    assert await kind_of(terminals.input(id, ANNA, Type(text="x"))) == "not_found"
    assert await kind_of(terminals.lease(id, ANNA, "take")) == "not_found"


async def test_killing_ends_the_whole_tree_and_keeps_the_terminal(ostler: Ostler, session: Session) -> None:
    script = "trap '' HUP; sleep 601 & sleep 602 & echo up; exec sleep 603"
    id = (await ostler.terminals.open(session.id, ["bash", "-c", script])).row.id
    await shows(ostler, id, "up")
    await until(lambda: len(tree.marked(id)) == 3)
    await ostler.terminals.kill(id)
    assert tree.marked(id) == []
    row = ostler.terminals.get(id)
    assert (row.state, row.exit) == ("ended", Exit(signal=signal.SIGKILL))
    assert "up" in (await ostler.terminals.snapshot(id)).text
    await ostler.terminals.kill(id)
    assert await kind_of(ostler.terminals.kill("t-none")) == "not_found"


async def test_an_interactive_shell_is_hung_up(ostler: Ostler, session: Session) -> None:
    id = (await ostler.terminals.open(session.id, ["bash", "--norc", "-i"])).row.id
    await shows(ostler, id, "bash-")
    await ostler.terminals.kill(id)
    assert ostler.terminals.get(id).exit == Exit(signal=signal.SIGHUP)


async def test_release_removes_everything_of_it(ostler: Ostler, session: Session) -> None:
    terminals = ostler.terminals
    row = (await terminals.open(session.id, ["cat"])).row
    await terminals.release(row.id)
    assert terminals.list() == [] and tree.marked(row.id) == []
    assert not list(Path(row.recording).parent.iterdir())
    for wrong in (terminals.view(row.id, ANNA, "view"), terminals.snapshot(row.id), terminals.release(row.id)):
        assert await kind_of(wrong) == "not_found"


async def test_close_all_ends_those_of_one_session(ostler: Ostler, session: Session, stable: Stable) -> None:
    other = await session_of(ostler, stable.folder)
    for owner in (session, session, other):
        await ostler.terminals.open(owner.id, ["cat"])
    await ostler.terminals.close_all(session.id)
    assert [row.session for row in ostler.terminals.list(live=True)] == [other.id]
    assert len(ostler.terminals.list(session.id)) == 2


async def test_a_process_in_the_background_does_not_keep_a_terminal_alive(ostler: Ostler, session: Session) -> None:
    id = (await ostler.terminals.open(session.id, ["sh", "-c", "trap '' HUP; sleep 603 & echo left"])).row.id
    assert (await ended(ostler, id)).exit == Exit(code=0)
    assert tree.marked(id) == []


# -- primary ----------------------------------------------------------------------------------------


async def test_primary_is_the_newest_live_one_unless_one_is_chosen(
    ostler: Ostler, session: Session, stable: Stable
) -> None:
    terminals = ostler.terminals
    assert terminals.primary(session.id) is None
    a, b, c = [(await terminals.open(session.id, ["cat"])).row.id for _ in range(3)]
    assert terminals.primary(session.id).id == c
    await terminals.set_primary(session.id, a)
    assert terminals.primary(session.id).id == a
    await terminals.kill(a)
    assert terminals.primary(session.id).id == c
    await terminals.set_primary(session.id, None)
    d = (await terminals.open(session.id, ["cat"])).row.id
    assert terminals.primary(session.id).id == d
    e = (await terminals.open(session.id, ["cat"], primary=True)).row.id
    await terminals.open(session.id, ["cat"])
    assert terminals.primary(session.id).id == e
    other = await session_of(ostler, stable.folder)
    assert await kind_of(terminals.set_primary(other.id, b)) == "not_found"
    await terminals.close_all(session.id)
    assert terminals.primary(session.id) is None


# -- viewing ----------------------------------------------------------------------------------------


async def test_a_viewer_sees_the_screen_the_bytes_and_the_end(ostler: Ostler, session: Session) -> None:
    id = (await ostler.terminals.open(session.id, ["sh", "-c", "echo before; read x; echo after $x"])).row.id
    await shows(ostler, id, "before")
    viewing = await ostler.terminals.view(id, ANNA, "type")
    frames: list[AnyTerminalMessage | tuple[int, bytes]] = []
    async for frame in viewing.frames():
        frames.append(read_terminal_message(frame))
        if isinstance(frames[-1], SnapshotMessage):
            viewing.receive(encode_message(Want(action="take")))
            viewing.receive(encode_message(Type(text="words\n")))
    assert isinstance(frames[0], Hello) and frames[0].terminal.id == id
    assert "before" in next(f for f in frames if isinstance(f, SnapshotMessage)).vt
    assert b"after words" in b"".join(f[1] for f in frames if isinstance(f, tuple))
    assert isinstance(frames[-1], Gone) and frames[-1].exit == Exit(code=0)


async def test_an_ended_terminal_is_viewed_with_its_scrollback(ostler: Ostler, session: Session) -> None:
    id = (await ostler.terminals.open(session.id, ["seq", "-f", "line %g", "100"])).row.id
    row = await ended(ostler, id)
    hello, shown, gone = await all_frames(await ostler.terminals.view(id, ANNA, "view"))
    assert hello.terminal == row and not hello.resumed
    assert "line 1\r" in shown.vt and "line 100" in shown.vt
    assert gone == Gone(exit=Exit(code=0), offset=row.size)
    again = await all_frames(await ostler.terminals.view(id, ANNA, "view", offset=row.size))
    assert [type(frame) for frame in again] == [Hello, Gone] and again[0].resumed
    assert "line 1\n" not in (await ostler.terminals.snapshot(id)).vt.decode()
    assert b"line 1\r" in (await ostler.terminals.snapshot(id, history=True)).vt
    assert await ostler.terminals.text(id, 9) == "line 100\n"


# -- afterwards -------------------------------------------------------------------------------------


async def test_closing_ends_terminals_and_a_restart_lists_and_shows_them(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await session_of(o, stable.folder)
        first = (await o.terminals.open(session.id, ["sh", "-c", "printf '\\033]0;titled\\007done'; exit 2"])).row.id
        await ended(o, first)
        second = (await o.terminals.open(session.id, ["sh", "-c", "echo here; exec cat"])).row.id
        await shows(o, second, "here")
    assert tree.marked(second) == []
    async with stable.ostler() as o:
        rows = o.terminals.list(session.id)
        assert [(row.id, row.state, row.exit) for row in rows] == [
            (second, "ended", Exit(signal=signal.SIGHUP)),
            (first, "ended", Exit(code=2)),
        ]
        assert rows[1].title == "titled"
        assert (await o.terminals.snapshot(second)).text[0] == "here"
        assert await o.terminals.text(first) == "done"
        frames = await all_frames(await o.terminals.view(first, ANNA, "view"))
        assert "done" in frames[1].vt and frames[-1].exit == Exit(code=2)


async def test_closing_beside_an_opening_leaves_nothing_running(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await session_of(o, stable.folder)
        add = o.store.add_terminal

        async def added_while_all_is_closed(*given: Any) -> None:
            await add(*given)
            await until(lambda: o.terminals._programs._closed)

        o.store.add_terminal = added_while_all_is_closed
        opening = asyncio.create_task(o.terminals.open(session.id, ["sleep", "621"]))
        await until(o.store.terminals)
    row = (await opening).row
    assert row.state == "ended" and tree.marked(row.id) == []
    assert o.screens.pids == []


async def test_without_its_last_screen_the_recording_is_emulated(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await session_of(o, stable.folder)
        row = (await o.terminals.open(session.id, ["sh", "-c", "seq 50; printf '\\033[1mbold'"])).row
        await ended(o, row.id)
        kept = await o.terminals.snapshot(row.id), await o.terminals.snapshot(row.id, history=True)
    screen = Path(row.recording).with_suffix(".screen")
    assert screen.stat().st_mode & 0o777 == 0o600
    for damage in (screen.unlink, lambda: screen.write_bytes(b"garbage")):
        damage()
        async with stable.ostler() as o:
            again = await o.terminals.snapshot(row.id), await o.terminals.snapshot(row.id, history=True)
        assert again == kept
        assert screen.stat().st_size > 100
    screen.unlink()
    Path(row.recording).unlink()
    async with stable.ostler() as o:
        assert set((await o.terminals.snapshot(row.id)).text) == {""}
        assert await o.terminals.text(row.id) == ""


async def test_secrets_reach_neither_viewers_nor_files(stable: Stable) -> None:
    secret = "sk-hidden-0123456789abcdef"
    async with stable.ostler(MY_API_KEY=secret) as o:
        session = await session_of(o, stable.folder)
        row = (
            await o.terminals.open(session.id, ["sh", "-c", "echo $MY_API_KEY; test $1 = $MY_API_KEY", "x", secret])
        ).row
        assert secret not in "".join(row.argv)
        assert (await ended(o, row.id)).exit == Exit(code=0)
        assert await o.terminals.text(row.id) == "*" * len(secret) + "\n"
        assert secret not in "".join(o.store.terminal(row.id).argv)
    assert not [path for path in stable.state.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


async def frames_from_the_beginning(o: Ostler, id: str) -> list[Any]:
    viewing = await o.terminals.view(id, ANNA, offset=0)
    return [read_terminal_message(frame) async for frame in viewing.frames()]


async def test_who_comes_after_the_end_still_gets_the_output_from_its_beginning(
    ostler: Ostler, session: Session
) -> None:
    """`exec --tty` is late for a command that ends at once: that must not change what it prints."""
    red = await ostler.terminals.open(session.id, ["printf", "\\033[31mred\\033[0m\\n"])
    await red.wait()
    await until(lambda: ostler.terminals.live(red.row.id) is None)
    hello, written, gone = await frames_from_the_beginning(ostler, red.row.id)
    assert (hello.resumed, written) == (True, (0, b"\x1b[31mred\x1b[0m\r\n"))
    assert gone == Gone(exit=Exit(code=0), offset=14)


@pytest.mark.parametrize(
    "command",
    ["printf '\\377'", "true", "head -c 300000 /dev/zero | tr '\\0' x"],
    ids=["no characters", "another size", "too much"],
)
async def test_output_that_is_not_known_byte_by_byte_is_shown_as_a_screen(
    ostler: Ostler, session: Session, command: str
) -> None:
    made = await ostler.terminals.open(session.id, ["sh", "-c", f"read go; {command}"])
    if command == "true":
        await made.input(ANNA, ResizeTerminal(cols=71, rows=20))
    await made.input(ANNA, Type(text="go\r"), take=True)
    await made.wait()
    await until(lambda: ostler.terminals.live(made.row.id) is None)
    hello, screen, _ = await frames_from_the_beginning(ostler, made.row.id)
    assert not hello.resumed and isinstance(screen, SnapshotMessage)
