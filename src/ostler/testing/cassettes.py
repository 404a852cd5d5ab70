"""Cassettes: what an agent once wrote, with its timing, to be played again in its place.

A cassette is NDJSON, readable with `cat`: a head, then a line for each piece of output, then the exit.

    {"ostler_cassette": 1, "agent": "claude", "argv": ["claude", "-p", "--model=…"], "prompt": "…", "at": …}
    {"at": 0.512, "out": "{\\"type\\":\\"system\\",…}\\n"}       stdout, seconds since the start
    {"at": 0.6, "err": "warning\\n"}                         stderr
    {"at": 0.7, "out64": "/w=="}                            bytes that are no UTF-8
    {"at": 2.1, "exit": {"code": 0}}                        or {"signal": 9}

Without the last line the recording was cut off, and a replay ends by SIGKILL.
"""

import base64
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import IO, Any, Literal

from ostler.testing.scenario import CASSETTE, is_cassette

TYPE_CHECKING = False  # the model brings msgspec, errors bring logging: a replay can do without
if TYPE_CHECKING:
    from ostler.model import Exit

VERSION = 1


class Recorder:
    """Writes a cassette, 0600. Gets its bytes after secrets were masked. Raises OstlerError if it cannot begin."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._began = time.monotonic()
        self._file: IO[str] | None = _create(self.path)

    def begin(self, *, agent: str, argv: tuple[str, ...] = (), prompt: str = "") -> None:
        """The head. Called again (another agent takes the turn), the tape starts over."""
        self._began = time.monotonic()
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
        self._line({CASSETTE: VERSION, "agent": agent, "argv": argv_shape(argv), "prompt": prompt, "at": time.time()})

    def stdout(self, data: bytes) -> None:
        self._piece("out", data)

    def stderr(self, data: bytes) -> None:
        self._piece("err", data)

    def close(self, exit: "Exit | None" = None) -> None:
        """Ends the cassette; without `exit` it says that the end is unknown. May be called again."""
        if self._file is None:
            return
        if exit is not None:
            how = {"code": exit.code} if exit.signal is None else {"signal": exit.signal}
            self._line({"at": self._now(), "exit": how})
        self._file.close()
        self._file = None

    def _piece(self, name: str, data: bytes) -> None:
        if not data:
            return
        try:
            self._line({"at": self._now(), name: data.decode()})
        except UnicodeDecodeError:
            self._line({"at": self._now(), f"{name}64": base64.b64encode(data).decode()})

    def _line(self, value: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(value, ensure_ascii=False) + "\n")

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 4)


def _create(path: Path) -> IO[str]:
    from ostler.errors import OstlerError

    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        message = f"cannot write the recording {path}: {error.strerror}"
        raise OstlerError("bad_request", message, "Choose another file for --record") from error
    os.fchmod(fd, 0o600)
    return open(fd, "w", encoding="utf-8")


def argv_shape(argv: tuple[str, ...]) -> list[str]:
    """The command without its values: flags and plain words stay, `--flag=value` becomes `--flag=…`."""
    shape = [os.path.basename(argv[0])] if argv else []
    for arg in argv[1:]:
        flag, equals, _ = arg.partition("=")
        if re.fullmatch(r"--?[A-Za-z][\w.-]*", flag):
            shape.append(flag + ("=…" if equals else ""))
        else:
            shape.append(arg if re.fullmatch(r"[a-z-]{1,20}", arg) else "…")
    return shape


class Piece:
    """Bytes that were written at a time (seconds since the start)."""

    __slots__ = ("at", "data", "stream")

    def __init__(self, at: float, stream: Literal["out", "err"], data: bytes) -> None:
        self.at, self.stream, self.data = at, stream, data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Piece) and (self.stream, self.data) == (other.stream, other.data)

    __hash__ = None  # type: ignore[assignment]


class Cassette:
    """A recording, read back."""

    def __init__(self, head: dict[str, Any], pieces: list[Piece], exit: dict[str, int] | None) -> None:
        self.agent = str(head.get("agent", "script"))
        self.argv = tuple(head.get("argv", ()))
        self.prompt = str(head.get("prompt", ""))
        self.pieces = pieces
        self.exit = exit  # {"code": 0} or {"signal": 9}; None: the recording was cut off

    @property
    def stdout(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces if piece.stream == "out")

    @property
    def stderr(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces if piece.stream == "err")


def load(path: str | Path) -> Cassette:
    """The cassette in a file. A last line that is only half there is left out. Raises OstlerError."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise _bad(f"cannot read the cassette {path}: {error.strerror}") from error
    if not is_cassette(raw):
        raise _bad(f"{path} is not a cassette")
    lines = raw.split(b"\n")
    rows = [_row(line, path) for line in lines[:-1] if line]
    if rows[0][CASSETTE] != VERSION:
        raise _bad(f"{path} is a cassette of version {rows[0][CASSETTE]}, this ostler reads {VERSION}")
    ends = [row["exit"] for row in rows if "exit" in row]
    return Cassette(rows[0], [piece for row in rows if (piece := _piece(row))], ends[-1] if ends else None)


def _row(line: bytes, path: str | Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise _bad(f"{path} is damaged: {line[:60].decode('utf-8', 'replace')}")
    return row


def _piece(row: dict[str, Any]) -> Piece | None:
    at = float(row.get("at", 0))
    for stream in ("out", "err"):
        if stream in row:
            return Piece(at, stream, row[stream].encode())
        if f"{stream}64" in row:
            return Piece(at, stream, base64.b64decode(row[f"{stream}64"]))
    return None


def _bad(message: str) -> Exception:
    from ostler.errors import OstlerError

    return OstlerError("bad_request", message, "Record one with: ostler run --record FILE")


def cassette_agent(path: str | Path) -> str:
    """Whose reader understands what this scenario plays: the agent of a cassette, else "script"."""
    from ostler.testing.scenario import BadScenario
    from ostler.testing.scenario import load as load_scenario

    try:
        cassette = load_scenario(str(path)).get("cassette")
    except BadScenario as error:
        raise _bad(str(error)) from error
    return load(cassette).agent if cassette else "script"


def replay(path: str | Path, speed: float = 1.0) -> int:
    """Writes what was recorded to our own stdout and stderr; returns the exit code or dies by the signal."""
    cassette = load(path)
    began = time.monotonic()
    for piece in cassette.pieces:
        wait = piece.at * speed - (time.monotonic() - began)
        if wait > 0:
            time.sleep(wait)
        stream = sys.stdout.buffer if piece.stream == "out" else sys.stderr.buffer
        stream.write(piece.data)
        stream.flush()
    exit = cassette.exit or {"signal": signal.SIGKILL}
    if "signal" in exit:
        from ostler.testing.mischief import crash

        crash(str(int(exit["signal"])))
    return int(exit.get("code", 1))
