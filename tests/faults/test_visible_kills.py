"""Turns in agents' own screens, with kills at random moments: afterwards nothing is left, and everything goes on.

OSTLER_TEST_KILLS=100 OSTLER_TEST_SEED=7 pytest tests/faults/test_visible_kills.py
"""

import asyncio
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from ostler.model import Ended, Notice, TerminalRow, Text, TurnRow
from ostler.process import tree
from ostler.process.warden import processes, stat
from ostler.store import Store
from ostler.work.leftovers import YOUNG
from prefork import start_ostler
from waiting import until
from work.panes.killed import start_impatient
from work.panes.own_tmux import own_tmux, panes
from work.scripted import Stable

TURNS = int(os.environ.get("OSTLER_TEST_KILLS", "12"))
SEED = int(os.environ.get("OSTLER_TEST_SEED", "1"))
SIDE_BY_SIDE = 3
VICTIMS = ("nobody", "program", "warden", "ostler")
IN_PANES = (*VICTIMS, "server")
MOMENTS = ("opened", "accepted", "submitted", "acknowledged", "answering")


class Plan(Struct, frozen=True):
    """One turn: who is killed, and when."""

    victim: str
    moment: str

    @property
    def prompt(self) -> str:
        return "a calm turn" if self.victim == "nobody" else "a turn that is killed"


async def test_nothing_is_left_after_visible_turns_with_random_kills(stable: Stable) -> None:
    work = [
        {"say": "Begun."},
        {"double_fork": {"pid_file": str(stable.home / "pid"), "seconds": 600}},
        {"never_end": True},
    ]
    stable.script.plays({"match": "is killed", "steps": work}, [{"say": "Fine."}])
    choice = random.Random(SEED)
    plans = [Plan(VICTIMS[n % len(VICTIMS)], choice.choice(MOMENTS)) for n in range(TURNS)]
    choice.shuffle(plans)
    with Store.open(stable.state) as store:
        async with asyncio.TaskGroup() as side_by_side:
            for n in range(SIDE_BY_SIDE):
                side_by_side.create_task(_turns(stable, store, f"session {n}", plans[n::SIDE_BY_SIDE]))
        _age_sockets(stable)
        async with stable.ostler() as o:  # the next ostler tidies up
            assert o.store.running_turns() == [] and o.terminals.list(live=True) == []
            assert len(o.store.turns(o.find("session 0").id)) == len(plans[::SIDE_BY_SIDE])
            for row in (turn for session in o.sessions() for turn in o.store.turns(session.id)):
                ends = [event for event in o.store.events(row.session, turn=row.id) if isinstance(event, Ended)]
                assert len(ends) == 1 and row.envelope is not None, row
            again = await (await o.session(session="session 0")).run("a calm turn", transport="pty")
            assert (again.outcome, again.text) == ("done", "Fine.")
    await until(lambda: _left_running(stable) == [])  # what was killed last may still be on its way out
    assert [str(path) for path in _left_files(stable)] == []


@pytest.mark.timeout(60 + 10 * TURNS)
async def test_nothing_is_left_of_panes_after_random_kills(stable: Stable) -> None:
    """A turn whose ostler is killed goes on: the next one that comes takes it up, and it ends as if nothing was."""
    gate = stable.home / "gate"
    begin = [{"say": "Begun."}, {"double_fork": {"pid_file": str(stable.home / "pid"), "seconds": 600}}]
    goes_on = {"match": "goes on", "steps": [*begin, {"wait_for": str(gate)}, {"say": "Fine."}]}
    stable.script.plays({"match": "is killed", "steps": [*begin, {"never_end": True}]}, goes_on, [{"say": "Fine."}])
    choice = random.Random(SEED)
    plans = [Plan(IN_PANES[n % len(IN_PANES)], choice.choice(MOMENTS)) for n in range(max(len(IN_PANES), TURNS // 4))]
    choice.shuffle(plans)
    with own_tmux(stable.state), Store.open(stable.state) as store:
        for n, plan in enumerate(plans):
            gate.unlink(missing_ok=True)
            await _turn_in_pane(stable, store, n, plan, gate)
        _age_sockets(stable)
        async with stable.ostler() as o:
            rows = o.store.turns(o.find("pane").id)
            assert o.store.running_turns() == [] and len(rows) == len(plans)
            for row in rows:
                ends = [event for event in o.store.events(row.session, turn=row.id) if isinstance(event, Ended)]
                assert len(ends) == 1 and row.envelope is not None, row
            await o.close_session("pane")
            assert await o.panes.prune() == [] and o.terminals.list(live=True) == []
        assert panes(stable.state) == [] and list(stable.state.glob("tmux/panes/*")) == []
    await until(lambda: _left_running(stable) == [])
    assert [str(path) for path in _left_files(stable)] == []


async def _turn_in_pane(stable: Stable, store: Store, n: int, plan: Plan, gate: Path) -> None:
    named = ["--name", "pane"] if n == 0 else ["--session", "pane"]
    prompt = "a turn that goes on" if plan.victim == "ostler" else plan.prompt
    process = start_impatient(stable, "run", "script", prompt, "--transport", "tmux", "--quiet", *named)
    try:
        turn = await until(lambda: _turn(store, "pane", n))
        if plan.victim != "nobody":
            await _kill(stable, store, turn, process, plan)
        await until(lambda: process.poll() is not None)
    finally:
        process.kill()
        process.wait()
    wanted = ("done",) if plan.victim == "nobody" else ("crashed",)
    if plan.victim == "ostler":
        sent = _reached(store, turn, "submitted")
        await _taken_up(stable, store, turn, gate)
        wanted = ("done",) if sent else ("crashed", "done")  # it may have been sent and not yet written down
    envelope = store.turn(turn.id).envelope  # type: ignore[union-attr]
    assert envelope is not None and envelope.outcome in wanted, (plan, envelope)


async def _taken_up(stable: Stable, store: Store, turn: TurnRow, gate: Path) -> None:
    process = start_impatient(stable, "wait", "pane", "--quiet")
    try:
        await until(lambda: _is_followed(store, turn) or process.poll() is not None)
        gate.touch()
        await until(lambda: process.poll() is not None)
    finally:
        process.kill()
        process.wait()


def _is_followed(store: Store, turn: TurnRow) -> bool:
    events = store.events(turn.session, turn=turn.id)
    return any(isinstance(event, Notice) and event.code == "adopted" for event in events)


async def _turns(stable: Stable, store: Store, session: str, plans: list[Plan]) -> None:
    for n, plan in enumerate(plans):
        named = ["--name", session] if n == 0 else ["--session", session]
        process = start_ostler(
            ("run", "script", plan.prompt, "--transport", "pty", "--quiet", *named),
            cwd=stable.folder,
            env=stable.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            turn = await until(lambda n=n: _turn(store, session, n))  # type: ignore[misc]
            if plan.victim != "nobody":
                await _kill(stable, store, turn, process, plan)
            await until(lambda process=process: process.poll() is not None)  # type: ignore[misc]
        finally:
            process.kill()
            process.wait()
        if plan.victim != "ostler":  # of which the next one tells
            envelope = store.turn(turn.id).envelope  # type: ignore[union-attr]
            assert envelope is not None and envelope.outcome == ("done" if plan.victim == "nobody" else "crashed"), (
                plan,
                envelope,
            )


def _turn(store: Store, session: str, n: int) -> TurnRow | None:
    found = store.find(session)
    turns = store.turns(found[0].id) if found else []
    return turns[n] if len(turns) > n else None


async def _kill(stable: Stable, store: Store, turn: TurnRow, process: "subprocess.Popen[Any]", plan: Plan) -> None:
    terminal = await until(lambda: _terminal(store, turn))
    await until(lambda: plan.moment == "opened" or _reached(store, turn, plan.moment))
    program: int = terminal.pid
    parent = (stat(program) or (0,))[0]
    victims = {"ostler": process.pid, "program": program, "warden": parent}
    if terminal.source == "tmux":  # its row has the pane's warden, which the server has started
        started = int((stable.state / "tmux" / "panes" / turn.session / "started").read_text())
        victims |= {"program": started, "warden": program, "server": parent}
    victim = victims[plan.victim]
    assert victim > 1, (plan, terminal)
    assert any(line.startswith(f"{program} ") for line in _left_running(stable))  # what is looked for would be found
    os.kill(victim, signal.SIGKILL)


def _terminal(store: Store, turn: TurnRow) -> TerminalRow | None:
    live = [row for row in store.terminals(turn.session, live=True) if row.owner == turn.owner]
    return next((row for row in live if row.pid is not None and tree.identity(row.pid) is not None), None)


def _reached(store: Store, turn: TurnRow, moment: str) -> bool:
    for event in store.events(turn.session, turn=turn.id):
        if moment == "answering" and isinstance(event, Text):
            return True
        if isinstance(event, Notice) and event.code == "receipt" and event.text.partition(" ")[0] == moment:
            return True
    return False


def _age_sockets(stable: Stable) -> None:
    """Those of killed processes are removed once they are no longer young: this is later."""
    for path in (stable.state / "run").glob("*.sock"):
        os.utime(path, (0, path.stat().st_mtime - 2 * YOUNG), follow_symlinks=False)


def _left_running(stable: Stable) -> list[str]:
    """Processes that work in the test's folders, or were started with them."""
    base, found = str(stable.home.parent), []
    for pid, (_, state, _, _) in processes().items():
        if pid == os.getpid() or state in tree.GONE:
            continue
        try:
            cwd, env = os.readlink(f"/proc/{pid}/cwd"), Path(f"/proc/{pid}/environ").read_bytes()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()[:200]
        except OSError:
            continue  # gone meanwhile, or not ours
        if cwd.startswith(base) or base.encode() in env:
            found.append(f"{pid} {command!r}")
    return found


def _left_files(stable: Stable) -> list[Path]:
    """Sockets, notes of what has to be removed, and the private files and folders of launches."""
    state = stable.state
    private = [path for path in state.glob("sessions/*/*/*") if path.name in ("private", "scratch", "before")]
    return [*state.glob("run/*"), *state.glob("leftovers/*"), *state.rglob("hook.py"), *private]
