"""Turns in panes of tmux: what other terminals do not have. They outlive ostler, are found again, and can be left."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import (
    Answered,
    TerminalOpened,
    ToolEnded,
    ToolStarted,
)
from ostler.process import tree
from ostler.terminal.lease import Author
from ostler.work.dialogs.asks import AskAnswer
from waiting import until
from work.panes.killed import asked, codes, kill_when, received, said, texts, the_turn
from work.panes.own_tmux import own_tmux, panes, tmux
from work.scripted import Stable, collect

ASK = {"ask": {"tool": "shell", "input": {"command": "touch made"}, "then": [{"run": "touch made"}, {"say": "Made."}]}}


@pytest.fixture(autouse=True)
def server(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_tmux(stable.state, monkeypatch):
        yield


# -- ostler is killed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shows", ["tui", "output"])
async def test_a_turn_goes_on_when_ostler_is_killed_and_ends_right(stable: Stable, shows: str) -> None:
    go = stable.folder / "go"
    stable.script.plays([{"say": "One."}, {"run": f"while ! test -e {go}; do sleep 0.05; done"}, {"say": "Two."}])
    await kill_when(stable, said("One."), "--access", "full", OSTLER_TMUX_SHOWS=shows)
    async with stable.ostler() as o:
        [running] = o.store.running_turns()
        assert running.state in ("running", "starting") and panes(stable.state) == [running.session]
        await until(lambda: "adopted" in codes(o.store.events(running.session)))
        go.touch()
        row = await the_turn(o)
        assert row.envelope is not None
        assert (row.envelope.outcome, row.envelope.text) == ("done", "Two."), row.envelope
        events = o.store.events(row.session)
        assert texts(events) == ["One.", "Two."]  # nothing lost, nothing twice
        assert [type(e) for e in events if isinstance(e, ToolStarted | ToolEnded)] == [ToolStarted, ToolEnded]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len([event for event in events if isinstance(event, TerminalOpened)]) == 2
        assert len(stable.script.launches) == 1
        await o.close_session(row.session)
    assert panes(stable.state) == [] and tree.marked(f"pane-{row.session}") == []


@pytest.mark.parametrize("shows", ["tui", "output"])
async def test_a_turn_that_ends_while_no_ostler_runs(stable: Stable, shows: str) -> None:
    go, done = stable.folder / "go", stable.folder / "done"
    stable.script.plays(
        [{"say": "One."}, {"run": f"while ! test -e {go}; do sleep 0.05; done; touch {done}"}, {"say": "Two."}]
    )
    await kill_when(stable, said("One."), "--access", "full", OSTLER_TMUX_SHOWS=shows)
    go.touch()
    await until(done.exists)
    async with stable.ostler() as o:
        row = await the_turn(o)
        assert row.envelope is not None
        assert (row.envelope.outcome, row.envelope.text) == ("done", "Two."), row.envelope
        assert texts(o.store.events(row.session)) == ["One.", "Two."]


@pytest.mark.parametrize("in_git", [True, False])
async def test_what_a_turn_changed_is_known_to_whoever_takes_it_up(stable: Stable, in_git: bool) -> None:
    """What it changed before ostler was killed, and after; not what was changed before it began."""
    go, old = stable.folder / "go", stable.folder / "old.txt"
    if in_git:
        subprocess.run(["git", "init", "-q"], cwd=stable.folder, check=True)
    old.write_text("one\n")
    wait = f"echo two >> old.txt; while ! test -e {go}; do sleep 0.05; done; rm {go}; echo three > new.txt"
    stable.script.plays([{"say": "One."}, {"run": wait}, {"say": "Two."}])
    await kill_when(stable, said("One."), "--access", "full")
    await until(lambda: old.read_text() == "one\ntwo\n")
    async with stable.ostler() as o:
        go.touch()
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.text == "Two."
        assert [(file.path, file.change) for file in row.envelope.files] == [("new.txt", "add"), ("old.txt", "update")]
        diff = Path(row.envelope.artifacts["diff"]).read_text()
        assert "+two" in diff and "+three" in diff and "+one" not in diff
        assert "diff_skipped" not in codes(o.store.events(row.session))
    assert list(stable.state.glob("sessions/*/*/before")) == []


@pytest.mark.parametrize("shows", ["tui", "output"])
async def test_what_a_turn_planted_is_known_to_whoever_takes_it_up(stable: Stable, shows: str) -> None:
    """Before ostler was killed, and after: hooks of git stand in no diff."""
    go, hooks = stable.folder / "go", stable.folder / ".git" / "hooks"
    subprocess.run(["git", "init", "-q"], cwd=stable.folder, check=True)
    (hooks / "pre-push").write_text("mine\n")
    wait = f"echo x > .git/hooks/pre-commit; while ! test -e {go}; do sleep 0.05; done; rm {go}"
    stable.script.plays([{"say": "One."}, {"run": f"{wait}; mkdir .claude; echo {{}} > .claude/settings.json"}])
    await kill_when(stable, said("One."), "--access", "write", OSTLER_TMUX_SHOWS=shows)
    await until((hooks / "pre-commit").exists)
    async with stable.ostler() as o:
        go.touch()
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.outcome == "done", row.envelope
        assert [(file.path, file.change) for file in row.envelope.planted] == [
            (".claude/settings.json", "add"),
            (".git/hooks/pre-commit", "add"),
        ]


async def test_a_question_that_was_open_is_asked_again(stable: Stable) -> None:
    stable.script.plays([ASK, {"say": "Over."}])
    await kill_when(stable, asked, "--access", "full")
    async with stable.ostler() as o:
        [session] = o.sessions()
        [ask] = await until(lambda: [a for a in o.store.open_asks(session.id) if a.id == "tui-2"])
        await o.answer(session.id, AskAnswer(ask=ask.id, option="allow"))
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.text == "Over."
        answered = [(e.id, e.option, e.by) for e in o.store.events(session.id) if isinstance(e, Answered)]
        assert answered == [("tui-1", "cancelled", "restart"), ("tui-2", "allow_once", "you")]


async def test_a_turn_whose_prompt_was_not_sent_has_crashed_and_its_pane_is_closed(stable: Stable) -> None:
    stable.script.plays([{"say": "Never."}], tui={"swallow_paste": 1})
    await kill_when(stable, received("accepted"))
    async with stable.ostler() as o:
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.outcome == "crashed"
        assert panes(stable.state) == [] and o.panes.notes.get(row.session) is None
        assert stable.script.launches == []


async def test_a_pane_that_died_with_ostler_is_a_crash(stable: Stable) -> None:
    stable.script.plays([{"say": "One."}, {"run": "sleep 600"}])
    await kill_when(stable, said("One."), "--access", "full")
    tmux(stable.state, "kill-server")
    async with stable.ostler() as o:
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.outcome == "crashed"
        assert o.panes.notes.names() == []
    await until(lambda: tree.marked(f"pane-{row.session}") == [])


async def test_an_adopted_turn_is_cancelled(stable: Stable) -> None:
    stable.script.plays({"match": "^go", "steps": [{"say": "One."}, {"run": "sleep 600"}]}, [{"history": True}])
    await kill_when(stable, said("One."), "--access", "full")
    async with stable.ostler() as o:
        [session] = o.sessions()
        await until(lambda: len([e for e in o.store.events(session.id) if isinstance(e, TerminalOpened)]) == 2)
        assert await o.cancel(session.id)
        row = await the_turn(o)
        assert row.envelope is not None and row.envelope.outcome == "cancelled"
        live = await o.session(session=session.id)
        await collect(live, "then", transport="tmux")
        assert live.last is not None and live.last.text == "go"
        assert len({launch.pid for launch in stable.script.launches}) == 1  # in the same pane


# -- ostler is closed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shows", ["tui", "output"])
async def test_a_turn_is_left_when_ostler_closes_and_taken_up_again(stable: Stable, shows: str) -> None:
    go = stable.folder / "go"
    stable.script.plays([{"say": "One."}, {"run": f"while ! test -e {go}; do sleep 0.05; done"}, {"say": "Two."}])
    async with stable.ostler(OSTLER_TMUX_SHOWS=shows) as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = asyncio.create_task(collect(session, "go", transport="tmux"))
        await until(lambda: said("One.")(o.store.events(session.id)))
    with pytest.raises(OstlerError, match="the turn keeps running in its pane"):
        await turn
    async with stable.ostler() as o:
        go.touch()
        row = await the_turn(o)
        assert row.envelope is not None and (row.envelope.outcome, row.envelope.text) == ("done", "Two.")
        assert texts(o.store.events(row.session)) == ["One.", "Two."]


async def test_a_pane_stays_and_the_next_ostler_uses_it_again(stable: Stable) -> None:
    stable.script.plays([{"history": True}])
    for n, text in enumerate(("nothing", "0", "0\n1")):
        async with stable.ostler() as o:
            session = await o.session(
                **({"session": "mine"} if n else {"agent": "script", "name": "mine"}), folder=str(stable.folder)
            )  # type: ignore[arg-type]
            await collect(session, str(n), transport="tmux")
            assert session.last is not None and session.last.text == text
            [row] = o.terminals.list(session.id, live=True)
            assert row.source == "tmux"
        assert panes(stable.state) == [session.id]
    assert len({launch.pid for launch in stable.script.launches}) == 1
    assert tmux(stable.state, "list-windows", "-F", "#{window_name}").stdout == "mine\n"


# -- headless ------------------------------------------------------------------------------------------------


async def test_a_headless_turn_is_drawn_in_its_pane_and_its_records_are_kept(stable: Stable) -> None:
    stable.script.plays([{"run": "echo oats"}, {"say": "**Fed** the horses."}])
    async with stable.ostler(OSTLER_TMUX_SHOWS="output") as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        events = await collect(session, "feed them", transport="tmux")
        last = session.last
        assert last is not None and (last.outcome, last.text) == ("done", "**Fed** the horses."), last
        assert last.exit is not None and last.exit.code == 0
        assert b'"type": "result"' in Path(last.artifacts["stdout"]).read_bytes()
        assert texts(events) == ["**Fed** the horses."]
        shown = tmux(stable.state, "capture-pane", "-p", "-S", "-", "-t", "ostler:").stdout
        assert "> feed them" in shown and "echo oats" in shown and "ended with exit code 0" in shown
        [pane] = tmux(stable.state, "list-panes", "-a", "-F", "#{pane_id} #{pane_dead}").stdout.splitlines()
        await collect(session, "again", transport="tmux")
        assert session.last is not None and session.last.outcome == "done"
        assert tmux(stable.state, "list-panes", "-a", "-F", "#{pane_id} #{pane_dead}").stdout.split() == pane.split()
        assert not list(o.panes.notes.pane_folder(session.id).glob("std*"))  # which would have secrets
        await o.close_session(session.id)
    assert panes(stable.state) == []


async def test_a_headless_turn_is_cancelled(stable: Stable) -> None:
    stable.script.plays([{"run": "sleep 600"}])
    async with stable.ostler(OSTLER_TMUX_SHOWS="output") as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = asyncio.create_task(collect(session, "go", transport="tmux"))
        await until(lambda: any(isinstance(e, ToolStarted) for e in o.store.events(session.id)))
        await o.cancel(session.id)
        await turn
        assert session.last is not None and session.last.outcome == "cancelled"
        assert tree.marked(f"pane-{session.id}") == []


# -- tmux ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["kill-server", "warden"])
async def test_a_killed_server_is_a_crash_and_the_next_turn_has_another(stable: Stable, what: str) -> None:
    """What runs in a group of its own, as shells of agents do, hears nothing of a hang-up: it must be ended."""
    stable.script.plays({"match": "^one", "steps": [{"run": "setsid sleep 600"}]}, [{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = asyncio.create_task(collect(session, "one", transport="tmux"))
        await until(lambda: any("sleep 600" in tree.command(pid) for pid in tree.marked(f"pane-{session.id}")))
        if what == "warden":
            [terminal] = o.terminals.list(session.id, live=True)
            assert terminal.pid is not None
            os.kill(terminal.pid, signal.SIGKILL)
        else:
            tmux(stable.state, "kill-server")
        await turn
        assert session.last is not None and session.last.outcome == "crashed", session.last
        await until(lambda: tree.marked(f"pane-{session.id}") == [])
        await collect(session, "two", transport="tmux")
        assert (session.last.outcome, session.last.text) == ("done", "one")
        await o.close_session(session.id)
    assert panes(stable.state) == []


async def test_a_client_that_somebody_detaches_comes_back(stable: Stable) -> None:
    go = stable.folder / "go"
    stable.script.plays([{"run": f"while ! test -e {go}; do sleep 0.05; done"}, {"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = asyncio.create_task(collect(session, "one", transport="tmux"))
        await until(lambda: any(isinstance(e, ToolStarted) for e in o.store.events(session.id)))
        before = tmux(stable.state, "list-clients", "-F", "#{client_pid}").stdout.split()
        tmux(stable.state, "detach-client", "-s", "ostler")
        await until(lambda: set(tmux(stable.state, "list-clients", "-F", "#{client_pid}").stdout.split()) - set(before))
        go.touch()
        await turn
        await collect(session, "two", transport="tmux")
        assert session.last is not None and session.last.text == "Here."
        assert len({launch.pid for launch in stable.script.launches}) == 1


async def test_a_window_in_the_users_own_session(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    socket = stable.home / "tmux"
    user = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    async with stable.ostler(OSTLER_TMUX="user", TMUX=f"{socket},1,0") as o:
        session = await o.session("script", folder=str(stable.folder), name="mine")
        await collect(session, "go", transport="tmux")
        assert session.last is not None and session.last.error is not None
        assert session.last.error.kind == "unsupported" and "no tmux session of yours" in session.last.error.message
        subprocess.run([*user, "new-session", "-d", "-s", "work"], check=True)
        try:
            await collect(session, "go", transport="tmux")
            assert session.last.text == "Here.", session.last
            listed = subprocess.run(
                [*user, "list-windows", "-F", "#{window_name}"], capture_output=True, text=True, check=True
            )
            assert listed.stdout.splitlines()[1:] == ["mine"]
            assert panes(stable.state) == []
            await o.close_session(session.id)
            listed = subprocess.run(
                [*user, "list-windows", "-F", "#{window_name}"], capture_output=True, text=True, check=True
            )
            assert len(listed.stdout.splitlines()) == 1  # what the user has stays
        finally:
            subprocess.run([*user, "kill-server"], check=True)


async def test_what_is_private_stays_so(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler(MY_TOKEN="hunter2-hunter2-hunter2") as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "go", transport="tmux", env={"SECRET_KEY": "a-long-secret-value"})
        folder = stable.state / "tmux"
        for path in (folder, *folder.rglob("*")):
            assert path.lstat().st_mode & 0o077 == 0, path
        [terminal] = o.terminals.list(session.id, live=True)
        known = Path(f"/proc/{terminal.pid}/environ").read_bytes()  # of the warden: what tmux hands on to every pane
        seen = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        words = Path(f"/proc/{terminal.pid}/cmdline").read_bytes()
        for secret in (b"hunter2", b"a-long-secret-value"):
            assert secret not in known and secret not in seen and secret not in words
        [agent] = stable.script.launches
        assert b"SECRET_KEY=a-long-secret-value" in Path(f"/proc/{agent.pid}/environ").read_bytes()
        assert b"TMUX=" not in Path(f"/proc/{agent.pid}/environ").read_bytes()


async def test_a_process_that_stays_takes_up_what_others_leave_and_shows_panes_that_wait(stable: Stable) -> None:
    go = stable.folder / "go"
    stable.script.plays([{"say": "One."}, {"run": f"while ! test -e {go}; do sleep 0.05; done"}, {"say": "Two."}])
    async with stable.ostler("up") as up:
        async with stable.ostler() as o:
            session = await o.session("script", folder=str(stable.folder), access="full")
            turn = asyncio.create_task(collect(session, "go", transport="tmux"))
            await until(lambda: said("One.")(o.store.events(session.id)))
        with pytest.raises(OstlerError, match="keeps running in its pane"):
            await turn
        await until(lambda: "adopted" in codes(up.store.events(session.id)))
        go.touch()
        row = await the_turn(up)
        assert row.envelope is not None and row.envelope.text == "Two."
        async with stable.ostler() as o:
            other = await o.session("script", folder=str(stable.folder))
            await collect(other, "again", transport="tmux")
        [shown] = await until(
            lambda: [row for row in up.terminals.list(other.id, live=True) if row.owner == up.desk.id]
        )
        assert "Two." in "\n".join((await up.terminals.snapshot(shown.id)).text)


async def test_nothing_is_scheduled_into_a_pane_that_a_person_types_into(stable: Stable) -> None:
    stable.script.plays([{"history": True}])
    eve = Author("Eve", "person", "window-1")
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), transport="tmux")
        await collect(session, "one")
        [terminal] = o.terminals.list(session.id, live=True)
        await o.terminals.lease(terminal.id, eve, "take")
        with pytest.raises(OstlerError, match="Eve has the keyboard of script"):
            await session.run("two")
        turn = asyncio.create_task(collect(session, "two", wait=True))
        await until(lambda: o.find(session.id).state == "queued")
        await o.terminals.lease(terminal.id, eve, "release")
        await turn
        assert session.last is not None and session.last.text == "one"
        assert len({launch.pid for launch in stable.script.launches}) == 1


async def test_a_session_moves_to_a_pane_and_back(stable: Stable) -> None:
    stable.script.plays([{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "one")
        for transport, there in (("tmux", [session.id]), ("pipe", [])):
            await o.move(session.id, transport)  # type: ignore[arg-type]
            await collect(session, transport)
            assert panes(stable.state) == there
        assert session.last is not None and session.last.text == "one\ntmux"


async def test_a_pane_that_nobody_noted_is_found(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "go", transport="tmux")
    shutil.rmtree(stable.state / "tmux" / "panes")  # as if its maker had been killed before it could note it
    tmux(stable.state, "new-window", "-d", "-n", "mine", "sleep 600")  # what a person opened there
    async with stable.ostler() as o:
        assert await o.panes.prune() == []  # it may be just being made
        monkeypatch.setattr("ostler.work.panes.open_panes.YOUNG", -1.0)
        assert await o.panes.prune(dry_run=True) == [session.id]
        assert panes(stable.state) == [session.id]
        assert await o.panes.prune() == [session.id]
    assert tmux(stable.state, "list-windows", "-F", "#{window_name}").stdout == "mine\n"
    await until(lambda: tree.marked(f"pane-{session.id}") == [])
