import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from ostler.errors import OstlerError
from ostler.model import Exit
from ostler.process import Warden, raise_fd_limit, tree
from waiting import stop

TELL = """
import json, os, sys
print(json.dumps([os.fsencode(a).hex() for a in sys.argv[1:]]))
print(json.dumps([os.getcwd(), {os.fsencode(k).hex(): os.fsencode(v).hex() for k, v in os.environ.items()}]))
"""


def hexed(text):
    return os.fsencode(text).hex()


async def test_argv_cwd_and_environment_arrive_byte_for_byte(python, read_all, mark, tmp_path):
    arguments = ["", "a b", "--x=$HOME", "naïve ☃", "\udcff\udc80", "line\nbreak", "'\"\\"]
    folder = tmp_path / "földer with space"
    folder.mkdir()
    env = {"A": "1", "B": "two\nlines", "C": "\udcfe", "EMPTY": ""}
    process = await python(TELL, *arguments, cwd=str(folder), env=env)
    argv, rest = (await read_all(process.stdout_fd)).splitlines()
    assert json.loads(argv) == [hexed(argument) for argument in arguments]
    cwd, environ = json.loads(rest)
    environ.pop(hexed("LC_CTYPE"), None)  # Python's own doing
    assert cwd == str(folder)
    assert environ == {hexed(k): hexed(v) for k, v in {**env, "OSTLER_TURN": mark}.items()}
    assert await process.wait() == Exit(code=0)


async def test_an_environment_cannot_override_the_mark(spawn, read_all, mark, env):
    process = await spawn("sh", "-c", "echo $OSTLER_TURN", env={**env, "OSTLER_TURN": "another"})
    assert await read_all(process.stdout_fd) == f"{mark}\n".encode()


@pytest.mark.parametrize("code", [0, 1, 42, 255])
async def test_exit_codes(spawn, code):
    process = await spawn("sh", "-c", f"exit {code}")
    assert await process.wait() == Exit(code=code)
    assert process.exit == Exit(code=code)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGPIPE, signal.SIGHUP])
async def test_signals_reach_the_leader_with_default_dispositions(spawn, number):
    process = await spawn("sleep", "600")
    assert process.exit is None
    process.signal(number)
    assert await process.wait() == Exit(signal=number)


async def test_nothing_is_ignored_or_blocked_in_a_child(spawn, read_all):
    process = await spawn("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    _, blocked, _, ignored = (await read_all(process.stdout_fd)).split()
    of_libc = 1 << 31 | 1 << 32  # 32 and 33: not to be used by programs, ignored by posix_spawn itself
    assert (int(blocked, 16), int(ignored, 16) & ~of_libc) == (0, 0)


async def test_a_child_inherits_three_descriptors_and_no_other(read_all, env, mark, tmp_path):
    stray = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(stray, True)
    warden = await Warden.start()
    process = await warden.spawn(["sh", "-c", "ls /proc/$$/fd; :"], cwd="/", env=env, mark=mark)
    assert await read_all(process.stdout_fd) == b"0\n1\n2\n"
    process.release()
    await warden.close()
    os.close(stray)


async def test_stdout_and_stderr_are_apart(spawn, read_all):
    process = await spawn("sh", "-c", "echo out; echo err >&2")
    assert await read_all(process.stdout_fd) == b"out\n"
    assert await read_all(process.stderr_fd) == b"err\n"


async def test_children_have_the_users_limit_of_open_files(spawn, read_all):
    process = await spawn("sh", "-c", "ulimit -S -n")
    assert int(await read_all(process.stdout_fd)) == raise_fd_limit()


async def test_each_child_leads_its_own_session(spawn, read_all):
    process = await spawn("cut", "-d ", "-f", "1,5,6", "/proc/self/stat")
    assert (await read_all(process.stdout_fd)).split() == [str(process.pid).encode()] * 3


# -- refusals -----------------------------------------------------------------------------------------


async def refused(spawn, *argv, **options):
    with pytest.raises(OstlerError) as caught:
        await spawn(*argv, **options)
    return caught.value.kind, caught.value.message


async def test_a_missing_program_is_missing(spawn):
    assert await refused(spawn, "no-such-program") == ("missing", "no-such-program is not on PATH")
    assert await refused(spawn, "/no/such") == ("missing", "/no/such does not exist")


async def test_what_cannot_be_executed_is_missing(spawn, tmp_path, env):
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert await refused(spawn, str(plain)) == ("missing", f"cannot start {plain}: Permission denied")
    assert (await refused(spawn, "plain", env={"PATH": str(tmp_path)}))[0] == "missing"
    plain.chmod(0o755)
    assert await refused(spawn, str(plain)) == ("missing", f"cannot start {plain}: Exec format error")
    plain.write_text("#!/no/such/interpreter\n")
    message = f"cannot start {plain}: the interpreter in its first line is missing"
    assert await refused(spawn, str(plain)) == ("missing", message)


async def test_a_folder_that_is_not_there_is_not_found(spawn, tmp_path):
    gone = str(tmp_path / "gone")
    message = f"cannot work in the folder {gone}: No such file or directory"
    assert await refused(spawn, "true", cwd=gone) == ("not_found", message)
    file = tmp_path / "file"
    file.touch()
    assert (await refused(spawn, "true", cwd=str(file)))[0] == "not_found"


async def test_what_exec_cannot_take_is_a_bad_request(spawn, env):
    too_long = ("bad_request", "cannot start true: its arguments or environment are too long")
    assert await refused(spawn, "true", "x" * 131_072) == too_long
    assert await refused(spawn, "true", env={**env, **{f"V{n}": "x" * 100_000 for n in range(40)}}) == too_long
    assert (await refused(spawn, "true", "a\0b"))[0] == "bad_request"
    assert (await refused(spawn, "true", "\ud800"))[0] == "bad_request"
    assert (await refused(spawn, "true", env={"A=B": ""}))[0] == "bad_request"
    assert (await refused(spawn))[0] == "bad_request"


async def test_a_refusal_leaves_no_descriptor_and_no_process(spawn, warden):
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await refused(spawn, "no-such-program")
    assert set(os.listdir("/proc/self/fd")) <= before
    assert tree.children(warden.pid) == set()


async def test_nothing_starts_after_close(env):
    warden = await Warden.start()
    await warden.close()
    await warden.close()
    with pytest.raises(OstlerError) as caught:
        await warden.spawn(["true"], cwd="/", env=env, mark="m")
    assert caught.value.kind == "bad_request"


# -- large and many -----------------------------------------------------------------------------------


async def test_an_environment_of_1_9_mb_arrives(spawn, read_all, env):
    large = {**env, **{f"V{n:02}": "x" * 100_000 for n in range(19)}}
    process = await spawn("sh", "-c", "env | wc -c", env=large)
    assert int(await read_all(process.stdout_fd)) > 1_900_000
    assert await process.wait() == Exit(code=0)


async def test_the_longest_argument_arrives(spawn, read_all):
    process = await spawn("sh", "-c", 'printf %s "$1" | wc -c', "sh", "x" * 131_071)
    assert int(await read_all(process.stdout_fd)) == 131_071


async def test_10_mb_of_input_through_cat(spawn, read_all):
    data = os.urandom(1 << 20) * 10
    process = await spawn("cat", stdin=data)
    assert await read_all(process.stdout_fd) == data
    assert await process.wait() == Exit(code=0)


async def test_a_child_that_never_reads_does_not_hold_us(spawn):
    process = await spawn("sleep", "600", stdin=b"x" * 10_000_000)
    assert process.stdin_fd is not None
    assert await process.end() == Exit(signal=signal.SIGINT)
    process.release()
    assert process.stdin_fd is None


async def test_a_child_that_closes_its_input_is_no_error(spawn, read_all):
    process = await spawn("sh", "-c", "exec <&-; echo closed", stdin=b"x" * 10_000_000)
    assert await read_all(process.stdout_fd) == b"closed\n"
    assert await process.wait() == Exit(code=0)


async def test_without_input_a_child_reads_the_end(spawn, read_all):
    for stdin in (b"", None):
        process = await spawn("cat", stdin=stdin)
        assert await read_all(process.stdout_fd) == b""
        assert process.stdin_fd is None


async def test_kept_input_is_a_dialog(spawn, read_until, read_all):
    process = await spawn("cat", stdin=b"first\n", keep_stdin=True)
    await read_until(process.stdout_fd, b"first\n")
    await process.write(b"second\n")
    await read_until(process.stdout_fd, b"second\n")
    process.close_stdin()
    assert await read_all(process.stdout_fd) == b""
    assert await process.wait() == Exit(code=0)


async def test_writing_to_one_who_is_gone_is_undelivered(spawn):
    process = await spawn("true", keep_stdin=True)
    await process.wait()
    for _ in range(2):
        with pytest.raises(OstlerError) as caught:
            await process.write(b"hello")
        assert caught.value.kind == "undelivered"


async def test_a_writer_waits_for_a_slow_reader_and_is_told_of_its_death(spawn):
    process = await spawn("sleep", "600", keep_stdin=True)
    writing = asyncio.create_task(process.write(b"x" * 1_000_000))
    await asyncio.sleep(0)
    assert not writing.done()
    process.signal(signal.SIGKILL)
    with pytest.raises(OstlerError) as caught:
        await writing
    assert caught.value.kind == "undelivered"


async def test_a_hundred_at_once(spawn, read_all):
    async def one(n):
        process = await spawn("sh", "-c", f"cat; echo {n}", stdin=b"in ")
        return await read_all(process.stdout_fd), await process.wait()

    results = await asyncio.gather(*(one(n) for n in range(100)))
    assert results == [(f"in {n}\n".encode(), Exit(code=0)) for n in range(100)]


async def test_descriptors_return_to_their_number(spawn, read_all):
    await (await spawn("true")).sweep()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        process = await spawn("cat", stdin=b"x")
        await read_all(process.stdout_fd)
        await process.wait()
        process.release()
    assert len(os.listdir("/proc/self/fd")) <= before  # fewer: what an earlier test has dropped is closed


# -- cancelling ---------------------------------------------------------------------------------------


async def test_a_cancelled_wait_changes_nothing(spawn):
    process = await spawn("cat", keep_stdin=True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0.01)
    process.close_stdin()
    assert await process.wait() == Exit(code=0)


async def test_a_cancelled_spawn_leaves_no_process(spawn, warden, mark, until):
    stop(warden.pid)
    before = len(os.listdir("/proc/self/fd"))
    starting = asyncio.create_task(spawn("sleep", "600"))
    await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert len(os.listdir("/proc/self/fd")) <= before  # fewer: what an earlier test has dropped is closed
    os.kill(warden.pid, signal.SIGCONT)
    assert await (await spawn("true")).wait() == Exit(code=0)  # requests are answered in order
    await until(lambda: tree.children(warden.pid) == set())
    assert tree.marked(mark) == []


async def test_close_ends_what_runs_and_reports_how(env):
    warden = await Warden.start()
    processes = [await warden.spawn(["sleep", "600"], cwd="/", env=env, mark="test-close") for _ in range(3)]
    await warden.close()
    assert [await process.wait() for process in processes] == [Exit(signal=signal.SIGTERM)] * 3
    for process in processes:
        process.release()


async def test_the_warden_holds_no_descriptor_of_its_children(spawn, warden):
    processes = [await spawn("sleep", "600")]
    before = len(os.listdir(f"/proc/{warden.pid}/fd"))
    processes += [await spawn("sleep", "600") for _ in range(10)]
    assert len(os.listdir(f"/proc/{warden.pid}/fd")) == before
    assert tree.children(warden.pid) == {process.pid for process in processes}


def test_the_warden_starts_with_few_modules():
    code = "import sys; sys.path.append(sys.argv[1]); import warden; print(*sys.modules)"
    folder = os.path.dirname(sys.modules["ostler.process.warden"].__file__)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, folder], capture_output=True, text=True, check=True)
    assert not {"json", "re", "enum", "socket", "signal", "typing", "subprocess", "asyncio"} & set(done.stdout.split())
