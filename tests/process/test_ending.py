import asyncio
import os
import signal
import subprocess
import uuid

import pytest

from ostler.model import Exit
from ostler.process import tree

IGNORE_INT = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
IGNORE_ALL = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print('up', flush=True)
time.sleep(600)
"""


def gone(pid):
    return tree.identity(pid) is None


async def test_a_willing_process_ends_by_int_at_once(spawn):
    process = await spawn("sleep", "600")
    assert await process.end((600, 600)) == Exit(signal=signal.SIGINT)


async def test_one_that_cleans_up_on_int_ends_with_its_own_code(python, read_until):
    code = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
print('up', flush=True)
time.sleep(600)
"""
    process = await python(code)
    await read_until(process.stdout_fd, b"up")
    assert await process.end((60, 60)) == Exit(code=7)


async def test_ignoring_int_it_ends_by_term(python, read_until):
    process = await python(IGNORE_INT)
    await read_until(process.stdout_fd, b"up")
    assert await process.end((0.1, 60)) == Exit(signal=signal.SIGTERM)


async def test_ignoring_all_it_ends_by_kill(python, read_until):
    process = await python(IGNORE_ALL)
    await read_until(process.stdout_fd, b"up")
    assert await process.end((0.1, 0.1)) == Exit(signal=signal.SIGKILL)


async def test_ending_what_has_ended_returns_how(spawn):
    process = await spawn("sh", "-c", "exit 5")
    await process.wait()
    assert await process.end() == Exit(code=5)


async def test_a_daemon_that_ignores_term_ends_with_its_turn(python, daemon_code, tmp_path, until, pid_in):
    path = str(tmp_path / "pid")
    process = await python(daemon_code + "daemon(sys.argv[1]); time.sleep(600)", path)
    daemon = await until(lambda: pid_in(path))
    assert os.getsid(daemon) != process.pid
    await process.end((0.1, 0.1))
    assert gone(daemon)
    assert gone(process.pid)


async def test_a_daemon_without_a_mark_is_swept_when_it_can_only_be_ours(python, daemon_code, tmp_path, until, pid_in):
    path = str(tmp_path / "pid")
    strip = (
        "import os, sys\n"
        "if os.fork() == 0: os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', *sys.argv[1:]], {})\n"
        "os.wait()"
    )
    process = await python(strip, daemon_code + "daemon(sys.argv[1])", path)
    daemon = await until(lambda: pid_in(path))
    assert await process.wait() == Exit(code=0)
    assert tree.mark_of(daemon) is None
    assert [leaked.split()[0] for leaked in await process.sweep(0.05)] == [str(daemon)]
    assert gone(daemon)


async def test_ending_one_turn_leaves_another_alone(warden, env, until):
    marks = [f"test-{uuid.uuid4().hex}" for _ in range(2)]
    one = await warden.spawn(["sh", "-c", "sleep 600 & sleep 600"], cwd="/", env=env, mark=marks[0])
    two = await warden.spawn(["sh", "-c", "sleep 600 & wait"], cwd="/", env=env, mark=marks[1])
    await until(lambda: len(tree.marked(marks[1])) == 2)
    await one.end((0.1, 60))
    assert tree.marked(marks[0]) == []
    assert two.exit is None
    assert len(tree.marked(marks[1])) == 2
    await two.end((0.1, 60))
    assert tree.marked(marks[1]) == []
    one.release()
    two.release()


async def test_a_marked_process_of_another_parent_ends_too(spawn, mark):
    process = await spawn("sleep", "600")
    stray = subprocess.Popen(["sleep", "600"], env={"OSTLER_TURN": mark})
    assert await process.end((60, 60)) == Exit(signal=signal.SIGINT)
    assert stray.wait() == -signal.SIGTERM


@pytest.mark.parametrize("late", [False, True], ids=["before INT", "after INT"])
async def test_a_cancelled_end_kills_at_once(python, daemon_code, tmp_path, until, pid_in, late):
    path = str(tmp_path / "pid")
    notes = "signal.signal(signal.SIGINT, lambda *_: open(sys.argv[1] + '.int', 'w').close());"
    process = await python(daemon_code + notes + "daemon(sys.argv[1])\nwhile True: time.sleep(600)", path)
    daemon = await until(lambda: pid_in(path))
    ending = asyncio.create_task(process.end((600, 600)))
    await (until((tmp_path / "pid.int").exists) if late else asyncio.sleep(0))
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert await process.wait() == Exit(signal=signal.SIGKILL)
    await until(lambda: gone(daemon))


async def test_two_may_end_the_same(python, read_until):
    process = await python(IGNORE_INT)
    await read_until(process.stdout_fd, b"up")
    exits = await asyncio.gather(process.end((0.1, 60)), process.end((0.1, 60)))
    assert exits == [Exit(signal=signal.SIGTERM)] * 2


# -- sweeping -----------------------------------------------------------------------------------------


async def test_nothing_left_nothing_swept(spawn):
    process = await spawn("true")
    await process.wait()
    assert await process.sweep(600) == ()


async def test_a_hook_that_ends_in_time_is_not_leaked(spawn, tmp_path):
    process = await spawn("sh", "-c", "(sleep 0.1; touch done) >/dev/null 2>&1 &")
    await process.wait()
    assert await process.sweep(60) == ()
    assert (tmp_path / "done").exists()


def runs(seconds: int) -> str:
    """Shell words that wait until the last child has become that sleep: before, it still has the shell's name."""
    return f"""until tr '\\0' ' ' </proc/$!/cmdline | grep -q '^sleep {seconds} '; do :; done;"""


@pytest.mark.parametrize("lists", [True, False], ids=["kernel lists children", "kernel does not"])
async def test_a_grandchild_that_stays_is_named_and_killed(spawn, mark, monkeypatch, lists):
    monkeypatch.setattr(tree, "LISTS", lists and tree.LISTS)
    process = await spawn("sh", "-c", f"sleep 613 & {runs(613)} setsid sleep 614 & {runs(614)} exit 3")
    assert await process.wait() == Exit(code=3)
    leaked = await process.sweep(0.1)
    assert sorted(name.split(" ", 1)[1] for name in leaked) == ["sleep 613", "sleep 614"]
    assert all(gone(int(name.split()[0])) for name in leaked)
    assert tree.marked(mark) == []


async def test_sweeping_one_turn_leaves_another_alone(warden, env, mark, until):
    busy = await warden.spawn(["sh", "-c", "sleep 600 & setsid sleep 600 & wait"], cwd="/", env=env, mark=mark)
    other = f"test-{uuid.uuid4().hex}"
    quick = await warden.spawn(["sh", "-c", f"setsid sleep 615 & {runs(615)}"], cwd="/", env=env, mark=other)
    await until(lambda: len(tree.marked(mark)) == 3)
    await quick.wait()
    assert [name.split(" ", 1)[1] for name in await quick.sweep(0.1)] == ["sleep 615"]
    assert len(tree.marked(mark)) == 3
    await busy.end((0.1, 60))
    busy.release()
    quick.release()


async def test_a_grandchild_that_holds_stdout_gives_it_back(spawn, read_all):
    process = await spawn("sh", "-c", f"echo result; sleep 616 & {runs(616)}")
    await process.wait()
    reading = asyncio.create_task(read_all(process.stdout_fd))
    assert [name.split(" ", 1)[1] for name in await process.sweep(0.1)] == ["sleep 616"]
    assert await reading == b"result\n"


@pytest.mark.parametrize("code", ["import time; print('up', flush=True); time.sleep(600)", IGNORE_ALL])
async def test_what_came_since_is_ended_and_nothing_else(python, read_until, until, code):
    process = await python(
        f"""
import subprocess, sys, time
first = subprocess.Popen(["sleep", "600"])
print(first.pid, flush=True)
sys.stdin.readline()
second = subprocess.Popen([sys.executable, "-c", {code!r}], start_new_session=True)
print(second.pid, flush=True)
time.sleep(600)
""",
        keep_stdin=True,
    )
    first = int(await read_until(process.stdout_fd, b"\n"))
    before = process.beneath()
    process.put(b"go\n")
    second = int((await read_until(process.stdout_fd, b"up\n")).split()[0])
    await process.end_since(before, grace=0.1)
    await until(lambda: gone(second))
    assert not gone(first) and process.exit is None


@pytest.mark.parametrize("lists", [True, False], ids=["kernel lists children", "kernel does not"])
async def test_of_a_leader_that_goes_on_only_what_left_it_is_swept(
    python, read_until, until, tmp_path, daemon_code, monkeypatch, lists
):
    """A dialog: its servers are its own, also in sessions of their own; a daemon is nobody's."""
    monkeypatch.setattr(tree, "LISTS", lists and tree.LISTS)
    process = await python(
        daemon_code
        + f"""
import subprocess
daemon({str(tmp_path / "early")!r})
child = subprocess.Popen(["sleep", "600"])
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, server.pid, flush=True)
for name in ("one", "two"):
    sys.stdin.readline()
    daemon({str(tmp_path)!r} + "/" + name)
    os.waitpid(-1, 0)
time.sleep(600)
""",
        keep_stdin=True,
    )
    kept = [int(pid) for pid in (await read_until(process.stdout_fd, b"\n")).split()]
    await until((tmp_path / "early").exists)
    early = int((tmp_path / "early").read_text())
    await until(lambda: [member.pid for member in process.detached()] == [early])
    known = process.detached()
    assert await process.sweep_detached(known) == ()
    for name in ("one", "two"):
        process.put(b"go\n")
        await until((tmp_path / name).exists)
        daemon = int((tmp_path / name).read_text())
        await until(lambda daemon=daemon: daemon in [member.pid for member in process.detached()])
        assert [int(leaked.split()[0]) for leaked in await process.sweep_detached(known, grace=0.1)] == [daemon]
        assert gone(daemon) and not any(map(gone, [*kept, early])) and process.exit is None
    await process.end((0.1, 0.1))
    assert all(map(gone, [*kept, early]))


async def test_a_daemon_that_goes_by_itself_is_not_swept(spawn, until, tmp_path):
    daemon = "setsid sh -c 'until test -e go; do sleep 0.02; done' &"
    process = await spawn("sh", "-c", f"({daemon}); exec sleep 600")
    await until(process.detached)
    sweeping = asyncio.create_task(process.sweep_detached(set(), grace=600))
    await asyncio.sleep(0)
    (tmp_path / "go").touch()
    assert await sweeping == ()
    await process.end((0.1, 0.1))


async def test_each_of_the_tree_gets_a_signal_once(python, read_until):
    """A second INT makes many programs abort what they do upon the first one."""
    code = """
import os, signal, time
number = signal.SIGRTMIN  # of these the kernel queues each
signal.pthread_sigmask(signal.SIG_BLOCK, {number, signal.SIGUSR1})
child = os.fork()
if child:
    print('up', flush=True)
    signal.sigwait({signal.SIGUSR1})
    os.kill(child, signal.SIGUSR1)
    time.sleep(600)
signal.sigwait({signal.SIGUSR1})
heard = 0
while signal.sigtimedwait({number}, 0):
    heard += 1
print(f'heard it {heard} times.', flush=True)
time.sleep(600)
"""
    process = await python(code)
    await read_until(process.stdout_fd, b"up")
    process.signal_tree(signal.SIGRTMIN)
    process.signal(signal.SIGUSR1)
    assert b"heard it 1 times." in await read_until(process.stdout_fd, b"times.")
