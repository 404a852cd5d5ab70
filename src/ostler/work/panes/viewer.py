"""Shows a headless turn in its pane: a program of its own, which goes on when ostler is restarted.

`python -m ostler.work.panes.viewer FOLDER`: reads the records from the pane's folder as they come, and draws them.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ostler.agents import AGENTS, Reader
from ostler.agents.tools import with_categories
from ostler.model import AnyEvent, Raw, Turn
from ostler.process.lines import LineFramer
from ostler.render.turn_text import TurnText
from ostler.terminal.safe import safe

_AGAIN = 0.05
_PIECE = 1 << 16


class ViewedTurn(Struct, frozen=True, kw_only=True):
    """What is drawn: the turn, without what is secret in it, and the agent whose records come."""

    agent: str
    turn: Turn
    home: str = ""


def show(folder: Path, out: int) -> None:
    """Until the command has ended and all of its output is shown."""
    viewed = msgspec.json.decode((folder / "turn.json").read_bytes(), type=ViewedTurn)
    agent = AGENTS.get(viewed.agent)
    reader = agent.reader(viewed.turn) if agent is not None else None
    text, framer = TurnText(access=viewed.turn.access, home=viewed.home), LineFramer()
    prompt = safe(viewed.turn.prompt.strip().splitlines()[0])[:200]
    os.write(out, f"\x1b[1m> {prompt}\x1b[0m\r\n".encode())
    for data in _pieces(folder):
        for line in framer.feed(data):
            for event in with_categories(_events(reader, line.data), agent.tools if agent else {}):
                _write(out, text.feed(event))
    for event in reader.flush() if reader else ():
        _write(out, text.feed(event))
    _write(out, f"\r\n\x1b[2m{_ended(folder)}\x1b[0m\r\n".encode())


def _pieces(folder: Path) -> Iterator[bytes]:
    offset, over = 0, False
    while True:
        try:
            with (folder / "stdout").open("rb") as file:
                file.seek(offset)
                data = file.read(_PIECE)
        except OSError:
            data = b""
        if data:
            offset += len(data)
            yield data
        elif over:
            return
        else:
            over = (folder / "exit").exists()
            time.sleep(0 if over else _AGAIN)


def _events(reader: Reader | None, line: bytes) -> list[AnyEvent]:
    if reader is not None:
        try:
            return reader.read_line(line)
        except Exception:  # what an adapter stumbles over is shown as it is
            return [Raw(line=line.decode("utf-8", "replace"))]
    return [Raw(line=line.decode("utf-8", "replace"))]


def _ended(folder: Path) -> str:
    try:
        word, code = (folder / "exit").read_text().split()[:2]
    except (OSError, ValueError):
        return "ended"
    if word != "exit":
        return "it could not be started"
    return f"ended with exit code {code}" if not code.startswith("-") else f"ended by signal {code[1:]}"


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's
    try:
        show(Path(sys.argv[1]), sys.stdout.fileno())
    except OSError:
        sys.exit(1)  # the pane or its folder is gone
