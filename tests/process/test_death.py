"""What is left when ostler or the warden is killed, or descriptors run out: nothing."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.model import Exit
from ostler.process import Warden, cgroup, tree
from waiting import stop

OSTLER = """
import asyncio, os, sys
from ostler.process import Warden
async def main(mark, daemon_code, folder):
    warden = await Warden.start()
    env = {"PATH": os.environ["PATH"]}
    python = [sys.executable, "-I", "-S", "-c"]
    kept = [f"{folder}/file", f"{folder}/private", f"{folder}/replaced"]
    await warden.spawn([*python, daemon_code + "daemon(sys.argv[1]); time.sleep(600)", f"{folder}/pid"],
                       cwd=folder, env=env, mark=mark, remove=kept)
    done = await warden.spawn(["true"], cwd=folder, env=env, mark=mark, remove=[f"{folder}/released"])
    await done.wait()
    done.release()
    polite = "import _signal as s, time; s.signal(15, lambda *_: [open('term', 'w').close(), exit()]); "
    await warden.spawn([sys.executable, "-c", polite + "open('trapped', 'w').close(); time.sleep(600)"],
                       cwd=folder, env=env, mark=mark)
    print(warden.pid, flush=True)
    %s
    await asyncio.sleep(600)
asyncio.run(main(*sys.argv[1:]))
"""

FORK = """
    if not os.fork():
        print(os.getpid(), file=open(f"{folder}/fork", "w"), flush=True)
        import time; time.sleep(120)
        os._exit(0)
"""


@pytest.fixture
def ostler(mark, daemon_code, tmp_path, until, pid_in):
    """Another ostler process with a stubborn daemon and files to remove; the pid of its warden."""
    started = []

    async def ostler(more=""):
        for name in ("file", "replaced", "released"):
            (tmp_path / name).write_text("x")
        (tmp_path / "private" / "deep").mkdir(parents=True)
        (tmp_path / "private" / "deep" / "file").write_text("x")
        argv = [sys.executable, "-c", OSTLER % more, mark, daemon_code, str(tmp_path)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        started.append(process)
        warden = int(await asyncio.to_thread(process.stdout.readline))
        await until(lambda: pid_in(tmp_path / "pid") and (tmp_path / "trapped").exists())
        (tmp_path / "new").write_text("the user's own")
        (tmp_path / "new").rename(tmp_path / "replaced")
        return process, warden

    yield ostler
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_kill_9_of_ostler_leaves_no_process_and_no_file(ostler, mark, tmp_path, until):
    process, warden = await ostler()
    assert len(tree.marked(mark)) >= 3
    process.kill()
    process.wait()
    await until(lambda: tree.identity(warden) is None)
    assert tree.marked(mark) == []
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["pid", "released", "replaced", "term", "trapped"]
    assert (tmp_path / "replaced").read_text() == "the user's own"


async def test_a_fork_of_ostler_does_not_keep_the_warden(ostler, mark, tmp_path, until, pid_in):
    process, warden = await ostler(FORK)
    fork = await until(lambda: pid_in(tmp_path / "fork"))
    process.kill()
    process.wait()
    await until(lambda: tree.identity(warden) is None)
    assert tree.marked(mark) == []
    assert tree.identity(fork) is not None
    os.kill(fork, signal.SIGKILL)


async def test_signals_from_the_terminal_do_not_end_the_warden(spawn, warden):
    process = await spawn("sleep", "600")
    assert os.getsid(warden.pid) == warden.pid
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(warden.pid, number)
    assert await (await spawn("true")).wait() == Exit(code=0)
    assert process.exit is None


async def test_kill_9_of_the_warden_ends_its_children_and_brings_a_new_one(
    python, spawn, warden, daemon_code, mark, tmp_path, until, pid_in
):
    path = str(tmp_path / "pid")
    process = await python(daemon_code + "daemon(sys.argv[1]); time.sleep(600)", path)
    daemon = await until(lambda: pid_in(path))
    first = warden.pid
    os.kill(first, signal.SIGKILL)
    assert await process.wait() == Exit(signal=9)
    assert (tree.identity(daemon), tree.marked(mark)) == (None, [])
    assert await process.end() == Exit(signal=9)
    assert await process.sweep() == ()
    assert await (await spawn("sh", "-c", "exit 4")).wait() == Exit(code=4)
    assert warden.pid not in (None, first)


UNTRACED = """
import os, sys, time
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    code = "import os, signal, sys, time; signal.signal(15, signal.SIG_IGN); "
    code += "open(sys.argv[1], 'w').write(f'{os.getpid()}\\\\n'); time.sleep(600)"
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, sys.argv[1]], {})
os.wait()
time.sleep(600)
"""


@pytest.mark.parametrize("kept_by", [pytest.param("cgroup", marks=needs("cgroup")), "looks"])
async def test_a_daemon_that_nothing_leads_to_ends_with_a_killed_warden(
    kept_by, env, mark, tmp_path, until, monkeypatch
):
    """A session, a parent and an environment of its own: neither the tree nor the mark shows whose it is."""
    if kept_by == "looks":
        monkeypatch.setattr(cgroup, "make", lambda: "")
    warden = await Warden.start()
    try:
        assert bool(warden.cgroup) == (kept_by == "cgroup")
        path = tmp_path / "pid"
        argv = [sys.executable, "-I", "-S", "-c", UNTRACED, str(path)]
        process = await warden.spawn(argv, cwd=str(tmp_path), env=env, mark=mark)
        await until(lambda: path.exists() and path.read_text().endswith("\n"))
        daemon = int(path.read_text())
        member = tree.Member(daemon, tree.identity(daemon))
        assert tree.mark_of(daemon) is None and tree.children(warden.pid) >= {daemon}
        if kept_by == "looks":
            await until(lambda: member in warden.adopted)
        else:
            warden.adopted.clear()
        os.kill(warden.pid, signal.SIGKILL)
        assert await process.wait() == Exit(signal=9)
        assert tree.gone(*member)
        assert await (await warden.spawn(["true"], cwd="/", env=env, mark=mark)).wait() == Exit(code=0)
    finally:
        group = warden.cgroup
        await warden.close()
    assert not group or not os.path.exists(group)


async def test_a_spawn_under_way_when_the_warden_dies_is_crashed(spawn, warden, mark):
    await (await spawn("true")).wait()
    stop(warden.pid)
    starting = asyncio.create_task(spawn("sleep", "600"))
    await asyncio.sleep(0.01)
    os.kill(warden.pid, signal.SIGKILL)
    with pytest.raises(OstlerError) as caught:
        await starting
    assert (caught.value.kind, caught.value.message) == ("crashed", "cannot start sleep: the warden died")
    assert tree.marked(mark) == []
    assert await (await spawn("true")).wait() == Exit(code=0)


async def test_many_requests_to_a_warden_that_does_not_read_are_kept(spawn, warden):
    await (await spawn("true")).wait()
    stop(warden.pid)
    starting = [asyncio.create_task(spawn("sh", "-c", f"exit {n % 100}")) for n in range(400)]
    await asyncio.sleep(0.05)
    os.kill(warden.pid, signal.SIGCONT)
    processes = await asyncio.gather(*starting)
    assert [await process.wait() for process in processes] == [Exit(code=n % 100) for n in range(400)]


EMFILE = """
import asyncio, json, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
from ostler.errors import OstlerError
from ostler.process import Warden
async def main(mark):
    warden = await Warden.start()
    env, running, kinds = {"PATH": os.environ["PATH"]}, [], []
    async def spawn():
        return await warden.spawn(["sleep", "600"], cwd="/", env=env, mark=mark)
    for _ in range(40):
        try:
            running.append(await spawn())
        except OstlerError as error:
            kinds.append(error.kind)
    held = [os.dup(0) for _ in range(60 - len(os.listdir("/proc/self/fd")) + 1)]
    ended = await running[0].end((0.1, 0.1))
    for fd in held:
        os.close(fd)
    for process in running[:5]:
        await process.end()
        process.release()
    again = await spawn()
    await warden.close()
    exits = [ended.signal, again.exit.signal]
    print(json.dumps([len(running) + len(kinds), len(running) > 5, sorted(set(kinds)), *exits]))
asyncio.run(main(*sys.argv[1:]))
"""


def test_out_of_descriptors_is_a_typed_error_and_passes(mark):
    argv = [sys.executable, "-c", EMFILE, mark]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout) == [40, True, ["too_many"], signal.SIGINT, signal.SIGTERM]
    assert tree.marked(mark) == []


@pytest.mark.parametrize("free", range(5))
def test_no_room_for_the_warden_itself_is_a_typed_error(free):
    code = """
import asyncio, os, resource, sys
from ostler.errors import OstlerError
from ostler.process import Warden
async def main(free):
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1 + int(free),) * 2)
    try:
        await Warden.start()
    except OstlerError as error:
        print(error.kind)
asyncio.run(main(sys.argv[1]))
"""
    done = subprocess.run([sys.executable, "-c", code, str(free)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("too_many\n", "")
