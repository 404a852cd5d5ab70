"""A server that is killed: its children go with it, and the next one has everything that can be had."""

from functools import partial
from pathlib import Path

from ostler.store import Store
from server.served import Served, serving
from waiting import until

# A program with a child that has left its terminal, its group and its parent behind.
DAEMON = """
import os, subprocess, sys, time
subprocess.Popen(["sh", "-c", "trap '' HUP TERM; setsid sleep 1000 & exec sleep 1000"], start_new_session=True)
print("\\x1b[32mat work\\x1b[0m 漢字")
time.sleep(1000)
"""


async def test_after_kill_nine_nobody_is_left_and_everything_is_found_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        ended = await served.open(session, ["printf", "one\\n\\033[1mtwo\\033[0m\\n"], name="short")
        running = await served.python(session, DAEMON, name="long", cols=100, rows=30)
        async with served.watch(ended) as viewer, served.watch(running) as other:
            await viewer.until(lambda viewer: viewer.gone)
            await other.until(lambda other: other.shows("at work"))
            await until(partial(is_stored_as_ended, served.state, ended))
            await served.kill()
            code, _ = await other.until_closed()
            assert code in (None, 1006)
        await served.nobody_left()
        await served.start()
        await check_found_again(served, session, ended, running)
        await check_still_works(served, session)


def is_stored_as_ended(state: Path, terminal: str) -> bool:
    """The server itself knows a moment earlier."""
    with Store.open(state) as store:
        row = store.terminal(terminal)
        return row is not None and row.state == "ended"


async def check_found_again(served: Served, session: str, ended: str, running: str) -> None:
    sessions = (await served.http.get("/api/sessions")).json()["items"]
    assert [(one["id"], one["state"], one["live_terminals"]) for one in sessions] == [(session, "idle", 0)]
    rows = (await served.http.get("/api/terminals", params={"session": session})).json()["items"]
    assert [(row["id"], row["state"], row["name"]) for row in rows] == [
        (running, "ended", "long"),
        (ended, "ended", "short"),
    ]
    assert rows[1]["exit"] == {"code": 0}
    for terminal, size, shown in ((ended, (120, 30), ["one", "two"]), (running, (100, 30), ["at work 漢字"])):
        seen = await served.screen(terminal)
        assert (seen["cols"], seen["rows"]) == size
        assert [row for row in seen["text"] if row] == shown
        async with served.watch(terminal) as viewer:
            await viewer.until(lambda viewer: viewer.gone)
            assert list(viewer.styled) == seen["styled"] and viewer.size == size


async def check_still_works(served: Served, session: str) -> None:
    terminal = await served.open(session, ["cat"], name="long")
    async with served.watch(terminal) as viewer:
        await viewer.take()
        await viewer.type("hello\n")
        await viewer.until(lambda viewer: viewer.rows[:2] == ("hello", "hello"))


async def test_a_viewer_survives_a_restart_with_its_place(tmp_path: Path) -> None:
    """The terminal has ended with the server; who asks for the rest of it gets what was kept, and its end."""
    async with serving(tmp_path) as served:
        session = await served.session()
        terminal = await served.python(session, DAEMON)
        async with served.watch(terminal) as viewer:
            await viewer.until(lambda viewer: viewer.shows("at work"))
            await served.kill()
            await viewer.until_closed()
            await served.start()
            async with served.watch(terminal, again=viewer):
                await viewer.until(lambda viewer: viewer.gone)
                assert viewer.shows("at work") and viewer.hellos == 2


async def test_a_stop_ends_viewers_programs_and_itself(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        terminal = await served.python(session, DAEMON)
        async with served.watch(terminal) as viewer, served.follow(session) as follower:
            await viewer.until(lambda viewer: viewer.shows("at work"))
            await follower.until(lambda follower: follower.shows("at work"))
            assert await served.stop() == 0
            assert (await viewer.until_closed())[0] == 1001
            assert (await follower.until_closed())[0] == 1001
        await served.start()


async def test_a_stop_does_not_wait_for_those_who_do_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.session()
        flood = await served.open(session, ["sh", "-c", "while :; do seq 1000; done"])
        async with served.watch(flood) as viewer:
            stalled = [served.stall(flood) for _ in range(5)]
            seen = viewer.offset
            await viewer.until(lambda viewer: viewer.offset > seen + (2 << 20))
            assert await served.stop() == 0
            assert (await viewer.until_closed())[0] == 1001
            for one in stalled:
                one.close()
        await served.start()
