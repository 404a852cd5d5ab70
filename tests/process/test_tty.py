import os
import signal

from ostler.model import Exit
from ostler.process import Size


async def test_the_terminal_has_its_size_and_is_all_three_streams(spawn, read_all):
    process = await spawn("sh", "-c", "stty size; test -t 0 && test -t 1 && test -t 2", tty=Size(101, 33))
    assert (await read_all(process.tty_fd)).split()[:2] == [b"33", b"101"]
    assert await process.wait() == Exit(code=0)
    assert (process.stdin_fd, process.stdout_fd, process.stderr_fd) == (None, None, None)


async def test_it_is_the_controlling_terminal(spawn, read_all):
    process = await spawn("sh", "-c", "echo to the terminal > /dev/tty", tty=Size(80, 24))
    assert await read_all(process.tty_fd) == b"to the terminal\r\n"


async def test_control_c_interrupts(spawn, read_until):
    process = await spawn("sh", "-c", "echo up; exec sleep 600", tty=Size(80, 24))
    await read_until(process.tty_fd, b"up")
    await process.write(b"\x03")
    assert await process.wait() == Exit(signal=signal.SIGINT)


async def test_input_is_typed_into_the_terminal(spawn, read_until):
    process = await spawn("sh", "-c", 'read -r line; echo "got $line"', stdin=b"words\n", tty=Size(80, 24))
    assert b"got words\r\n" in await read_until(process.tty_fd, b"got words\r\n")
    process.close_stdin()
    assert await process.wait() == Exit(code=0)


async def test_the_child_has_three_descriptors(spawn, read_all):
    process = await spawn("sh", "-c", "ls /proc/$$/fd; :", tty=Size(80, 24))
    assert (await read_all(process.tty_fd)).split() == [b"0", b"1", b"2"]


async def test_release_hangs_up(spawn):
    process = await spawn("sleep", "600", tty=Size(80, 24))
    process.release()
    assert await process.wait() == Exit(signal=signal.SIGHUP)


async def test_descriptors_return_to_their_number(spawn):
    before = len(os.listdir("/proc/self/fd"))
    process = await spawn("true", tty=Size(80, 24))
    await process.wait()
    process.release()
    assert len(os.listdir("/proc/self/fd")) <= before  # fewer: what an earlier test has dropped is closed
