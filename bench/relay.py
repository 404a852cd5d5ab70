"""What relaying a terminal costs: MB per CPU-second for `cat` of a file in a PTY, beside tmux and terminado.

Each relay has one reader: tmux a file behind pipe-pane, terminado a client in its process, `ostler raw` (PTY and byte
log alone) a callback. These get every byte. `ostler` is a whole terminal: every byte is emulated in the screen process,
and its viewer gets bytes, or a snapshot where a flood outruns it. The CPU time is that of all server-side processes
(ostler with its warden and screen process; the tmux server without the `cat` behind its pipe), never of the program
that writes. Rounds are interleaved, medians shown.

Run: python bench/relay.py [rounds] [megabytes]
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ostler.model import TerminalRow
from ostler.process import Size, Warden
from ostler.process.pty import Pty
from ostler.terminal.lease import Author
from ostler.terminal.live import LiveTerminal
from ostler.terminal.log import ByteLog
from ostler.terminal.screen.screens import Screens
from ostler.terminal.viewer_protocol import Ack, encode_message, output, read_terminal_message

SIZE = Size(120, 40)
RAW = 'stty raw -echo -opost; exec cat "$0"'  # the bytes as they are
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "seven", "wizards", "box")
RELAYS = ("tmux", "terminado", "ostler raw", "ostler")
AIMS = {"ostler raw": (2.0, 2.0), "ostler": (1.0, 1.5)}
TICK = os.sysconf("SC_CLK_TCK")


def main(rounds: int, megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        files = {kind: Path(name) / kind for kind in ("plain", "SGR")}
        files["plain"].write_bytes(stream(megabytes, plain_line))
        files["SGR"].write_bytes(stream(megabytes, coloured_line))
        rates: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for kind, file in files.items():
                for relay in RELAYS:
                    rates.setdefault((relay, kind), []).append(measure(relay, file))
    show(rates, rounds, megabytes)


def show(rates: dict[tuple[str, str], list[float]], rounds: int, megabytes: int) -> None:
    middle = {key: statistics.median(values) for key, values in rates.items()}
    print(f"`cat` of {megabytes} MB, MB per CPU-second of the relay, median (lowest to highest) of {rounds}")
    print(f"{'':12} {'plain':>22} {'of tmux':>8} {'SGR':>22} {'of tmux':>8}  aim")
    for relay in RELAYS:
        cells = []
        for kind in ("plain", "SGR"):
            found = rates[relay, kind]
            spread = f"{middle[relay, kind]:.1f} ({min(found):.1f} to {max(found):.1f})"
            cells.append(f"{spread:>22} {middle[relay, kind] / middle['tmux', kind]:7.2f}x")
        aim = " and ".join(f"≥ {ratio}x" for ratio in AIMS.get(relay, ()))
        print(f"{relay:12} {' '.join(cells)}  {aim}")


# -- what is relayed ---------------------------------------------------------------------------------------


def stream(megabytes: int, line: Callable[[int], str]) -> bytes:
    lines = "".join(line(number) for number in range(20_000)).encode()
    return (lines * (megabytes * 1_000_000 // len(lines) + 1))[: megabytes * 1_000_000]


def plain_line(number: int) -> str:
    return f"{number:6} {' '.join(WORDS[(number * 7 + at) % len(WORDS)] for at in range(8 + number % 9))}\r\n"


def coloured_line(number: int) -> str:
    words = (WORDS[(number * 7 + at) % len(WORDS)] for at in range(8 + number % 9))
    return " ".join(f"\x1b[{1 + at % 2};3{1 + at % 7}m{word}\x1b[0m" for at, word in enumerate(words)) + "\r\n"


# -- one measurement, in a process of its own --------------------------------------------------------------


def measure(relay: str, file: Path) -> float:
    """MB per CPU-second."""
    argv = [sys.executable, __file__, "--relay", relay, str(file)]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    return file.stat().st_size / 1e6 / float(done.stdout)


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


async def by_ostler(file: Path, relay: Callable[[Pty, int], Awaitable[list[int]]]) -> float:
    warden = await Warden.start()
    env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color"}
    argv = ["sh", "-c", RAW, str(file)]
    process = await warden.spawn(argv, cwd="/", env=env, mark=f"bench-{os.getpid()}", tty=SIZE)
    assert warden.pid
    before = time.process_time() + cpu(warden.pid)
    screens = await relay(Pty(process), file.stat().st_size)
    took = time.process_time() + cpu(warden.pid) - before + sum(screens)
    await warden.close()
    return took


async def raw(pty: Pty, size: int) -> list[float]:
    """The log alone; a viewer gets each piece as a frame."""
    log, frames = ByteLog(), 0

    def heard(data: bytes) -> None:
        nonlocal frames
        offset = log.end
        log.append(data)
        frames += len(output(offset, data)) > 0

    pty.start(heard)
    await pty.to_end()
    assert log.end == size and frames, (log.end, size)
    return []


async def emulated(pty: Pty, size: int) -> list[float]:
    """A whole terminal, its screen emulated, with a viewer that acknowledges what it gets."""
    screens = Screens()
    row = TerminalRow(id="t", session="s", name="t", source="pty", cols=SIZE.cols, rows=SIZE.rows, created_at=0.0)
    terminal = LiveTerminal(row, screens)
    await terminal.snapshot()
    before = [cpu(pid) for pid in screens.pids]
    watching = asyncio.create_task(watch(terminal))
    pty.start(terminal.output, lambda: terminal.crowded)
    await terminal.end(await pty.to_end())
    await watching
    lost = [notice for notice in terminal.notices if "left the log" in notice]
    assert terminal.log.end == size and not lost, (terminal.log.end, size, lost)
    took = [cpu(pid) - first for pid, first in zip(screens.pids, before, strict=True)]
    await screens.close()
    return took


async def watch(terminal: LiveTerminal) -> None:
    viewing = terminal.view(Author("viewer"))
    async for frame in viewing.frames():
        if isinstance(frame, bytes):
            offset, data = read_terminal_message(frame)
            viewing.receive(encode_message(Ack(offset=offset + len(data))))
        elif getattr(shown := read_terminal_message(frame), "vt", None) is not None:
            viewing.receive(encode_message(Ack(offset=shown.offset)))


async def by_terminado(file: Path) -> float:
    import json

    from terminado import SingleTermManager

    class Client:
        size = (SIZE.rows, SIZE.cols)
        heard = 0

        def on_pty_read(self, text: str) -> None:
            """As its own WebSocket handler: a JSON message for each piece."""
            self.heard += len(text)
            json.dumps(["stdout", text])

        def on_pty_died(self) -> None:
            died.set()

    died = asyncio.Event()
    before = time.process_time()
    terminals = SingleTermManager(shell_command=["sh", "-c", RAW, str(file)])
    terminal = terminals.get_terminal("1")
    terminal.clients.append(Client())
    terminal.resize_to_smallest()
    await died.wait()
    assert terminal.clients[0].heard == file.stat().st_size
    return time.process_time() - before


async def by_tmux(file: Path) -> float:
    """Its server alone; `cat` behind the pipe is not counted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conf").write_text("set -g status off\nset -g remain-on-exit on\n")
        out, go = folder / "out", folder / "go"

        def tmux(*args: str) -> str:
            base = ["tmux", "-S", str(folder / "socket"), "-f", str(folder / "conf"), "-u"]
            env = {"PATH": os.environ["PATH"], "HOME": name, "LC_ALL": "C.UTF-8"}
            return subprocess.run([*base, *args], env=env, check=True, capture_output=True, text=True).stdout

        wait = f"while [ ! -e {go} ]; do sleep 0.02; done; {RAW}"
        tmux("new-session", "-d", "-x", str(SIZE.cols), "-y", str(SIZE.rows), "sh", "-c", wait, str(file))
        try:
            tmux("pipe-pane", f"exec cat > {out}")
            pid = int(tmux("display-message", "-p", "#{pid}"))
            before = cpu(pid)
            go.touch()
            while not out.exists() or out.stat().st_size < file.stat().st_size:
                await asyncio.sleep(0.02)
            return cpu(pid) - before
        finally:
            tmux("kill-server")


ONE: dict[str, Callable[[Path], Awaitable[float]]] = {
    "ostler raw": lambda file: by_ostler(file, raw),
    "ostler": lambda file: by_ostler(file, emulated),
    "terminado": by_terminado,
    "tmux": by_tmux,
}


async def one(relay: str, file: str) -> None:
    print(await ONE[relay](Path(file)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--relay"]:
        asyncio.run(one(*sys.argv[2:4]))
    else:
        numbers = [int(argument) for argument in sys.argv[1:]]
        main(*(numbers + [5, 50][len(numbers) :]))
