"""What many terminals cost: CPU at some updates a second with nobody watching, memory, and looking at a screen.

The terminals are real PTYs; one process writes to all of them, evenly spread, what an agent draws while it thinks:
two rows, in colour, as one synchronized frame. The CPU time is that of ostler and its screen processes.

Run: python bench/terminals.py [terminals] [updates a second each] [seconds]
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Callable
from pathlib import Path

from ostler.model import TerminalRow
from ostler.process.pty import Pty
from ostler.terminal.cast import CastWriter
from ostler.terminal.live import LiveTerminal
from ostler.terminal.log import ByteLog
from ostler.terminal.screen.screens import Screens

WRITER = r"""
import os, random, sys, time
rate, fds = float(sys.argv[1]), [int(fd) for fd in sys.argv[2].split(",")]
random.seed(1)
random.shuffle(fds)
frame = "\x1b[?2026h\x1b[?25l\x1b[2A\r\x1b[2K\x1b[36m%s\x1b[0m Thinking about \x1b[1mthe stable\x1b[0m (%ds)\r\n"
frame += "\x1b[2K  \x1b[2mesc to interrupt\x1b[0m\r\n\x1b[?25h\x1b[?2026l"
begun, count = time.monotonic(), 0
while True:
    due = int((time.monotonic() - begun) * rate * len(fds))
    while count < due:
        turn = count // len(fds)
        os.write(fds[count % len(fds)], (frame % ("⠋⠙⠹⠸"[turn % 4], turn // rate)).encode())
        count += 1
    time.sleep(0.001)
"""
WARM = 2.0  # seconds before the measurement
TICK = os.sysconf("SC_CLK_TCK")
LINE = b"\x1b[3%dm%5d\x1b[0m a line about as long as those that programs print\r\n"


async def main(count: int, rate: float, seconds: float) -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    print(f"{count} terminals, CPU as a share of one core          ostler  screens     sum")
    await share(f"{rate:g} updates/s, read into logs alone", count, rate, seconds, logs_alone)
    await share("nothing happens, emulated", count, 0, seconds, emulated)
    await share(f"{rate:g} updates/s, emulated (aim ≤ 25 %)", count, rate, seconds, emulated)
    await share(f"{rate:g} updates/s, emulated and recorded", count, rate, seconds, recorded)
    print(f"\n{'a look at a screen':46}  p50 ms  CPU ms      KB")
    for cols, rows in ((80, 24), (120, 40)):
        for history in (False, True):
            await looks(cols, rows, history)
    print(f"\n{'memory for each terminal, KB':46}  ostler  screens     sum")
    await memory("empty", min(count, 500), 0)
    await memory("1,000 lines", min(count, 100), 1000)
    await memory("10,000 lines", min(count, 100), 10_000)


# -- CPU ---------------------------------------------------------------------------------------------------

Opened = Callable[[Screens, int, Path], Callable[[bytes], None]]


def logs_alone(screens: Screens, number: int, folder: Path) -> Callable[[bytes], None]:
    log = ByteLog()
    return lambda data: log.append(data) and None


def emulated(screens: Screens, number: int, folder: Path) -> Callable[[bytes], None]:
    return LiveTerminal(row(number), screens).output


def recorded(screens: Screens, number: int, folder: Path) -> Callable[[bytes], None]:
    cast = CastWriter(folder / f"{number}.cast", cols=80, rows=24)
    return LiveTerminal(row(number), screens, cast=cast).output


async def share(title: str, count: int, rate: float, seconds: float, opened: Opened) -> None:
    screens = Screens()
    with tempfile.TemporaryDirectory() as name:
        ptys, theirs = [], []
        for number in range(count):
            held = Held()
            ptys.append(Pty(held))  # type: ignore[arg-type]
            theirs.append(held.theirs)
            ptys[-1].start(opened(screens, number, Path(name)))
        argv = [sys.executable, "-c", WRITER, str(rate), ",".join(map(str, theirs))]
        writer = subprocess.Popen(argv, pass_fds=theirs)  # noqa: ASYNC220
        await asyncio.sleep(WARM)
        ours, others, begun = time.process_time(), sum(map(cpu, screens.pids)), time.monotonic()
        await asyncio.sleep(seconds)
        took = time.monotonic() - begun
        ours, others = time.process_time() - ours, sum(map(cpu, screens.pids)) - others
        writer.kill()
        writer.wait()
        line(title, [100 * value / took for value in (ours, others, ours + others)], "%")
        for pty in ptys:
            pty.close()
    await screens.close()


class Held:
    """A PTY with nobody in it but the writer, as `Pty` wants it."""

    def __init__(self) -> None:
        self.tty_fd, self.theirs = os.openpty()
        self.exit = None
        os.set_blocking(self.tty_fd, False)
        tty.setraw(self.theirs)

    def release(self) -> None:
        os.close(self.tty_fd)
        os.close(self.theirs)


# -- looking and memory ------------------------------------------------------------------------------------


async def looks(cols: int, rows: int, history: bool, count: int = 300) -> None:
    screens = Screens()
    terminal = LiveTerminal(row(0, cols, rows), screens)
    terminal.output(lines(1000))
    await terminal.snapshot(history)
    ours, others, times = time.process_time(), cpu(screens.pids[0]), []
    for _ in range(count):
        begun = time.perf_counter()
        shot = await terminal.snapshot(history)
        times.append(1000 * (time.perf_counter() - begun))
    spent = 1000 * (time.process_time() - ours + cpu(screens.pids[0]) - others) / count
    title = f"{cols} x {rows}" + (f", {shot.scrollback} rows of history" if history else "")
    print(f"{title:46} {statistics.median(times):7.2f} {spent:7.2f} {len(shot.vt) / 1000:7.1f}")
    await screens.close()


async def memory(title: str, count: int, length: int) -> None:
    screens = Screens()
    first = LiveTerminal(row(0), screens)
    await first.snapshot()
    before = [kilobytes(os.getpid()), sum(map(kilobytes, screens.pids))]
    terminals = [LiveTerminal(row(number), screens) for number in range(1, count)]
    for terminal in terminals:
        terminal.output(lines(length))
        await terminal.snapshot()
    ours, others = kilobytes(os.getpid()) - before[0], sum(map(kilobytes, screens.pids)) - before[1]
    line(f"{title} ({count} terminals)", [value / count for value in (ours, others, ours + others)], "")
    await screens.close()


def lines(count: int) -> bytes:
    return b"".join(LINE % (number % 8, number) for number in range(count))


def row(number: int, cols: int = 80, rows: int = 24) -> TerminalRow:
    return TerminalRow(id=str(number), session="s", name="", source="pty", cols=cols, rows=rows, created_at=0.0)


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def kilobytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


def line(title: str, values: list[float], unit: str) -> None:
    print(f"{title:46} {' '.join(f'{value:7.1f}{unit:1}' for value in values)}", flush=True)


if __name__ == "__main__":
    numbers = [float(argument) for argument in sys.argv[1:]]
    count, rate, seconds = numbers + [1000, 5, 10][len(numbers) :]
    asyncio.run(main(int(count), rate, seconds))
