"""Recordings of terminals: asciicast v2, one JSON line for the header and one for each event."""

import codecs
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
from msgspec import Struct, structs

from ostler import clock
from ostler.errors import OstlerError
from ostler.process import Size
from ostler.store.files import file_errors, open_exclusive, write_all

LIMIT = 64 << 20
LINE_LIMIT = 32 << 20
MARKER_ROOM = 200  # kept free for the last event of a recording that reached its limit

Kind = Literal["o", "i", "r", "m"]
_decoder = codecs.getincrementaldecoder("utf-8")


class CastHeader(Struct, frozen=True, omit_defaults=True):
    """The first line. What is not named here is ignored."""

    version: int
    width: int
    height: int
    timestamp: float | None = None
    title: str | None = None
    idle_time_limit: float | None = None


class CastEvent(Struct, frozen=True):
    """`kind`: "o" output, "i" input, "r" a new size (COLSxROWS), "m" a marker; others are of the future."""

    at: float
    kind: str
    data: str

    @property
    def size(self) -> Size | None:
        """Of a resize event."""
        found = re.fullmatch(r"(\d{1,6})x(\d{1,6})", self.data) if self.kind == "r" else None
        return Size(int(found[1]), int(found[2])) if found else None


# -- writing ----------------------------------------------------------------------------------------


class CastWriter:
    """A new recording (0600). Each event is one whole line in the file when the call returns.

    Past the limit a last marker says so, and nothing more is written. Raises `exists` for a file that
    is there already, and `store` when writing fails: the recording ends there, later calls do nothing.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        cols: int,
        rows: int,
        title: str = "",
        limit_bytes: int = LIMIT,
        clock: Callable[[], float] = clock.monotonic,
        timestamp: float | None = None,
    ) -> None:
        self._path = str(path)
        self.full = False  # the limit was reached
        self._limit = limit_bytes
        self._clock = clock
        self._began = clock()
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        header = CastHeader(2, cols, rows, timestamp, unicode(title) or None)
        line = msgspec.json.encode(header) + b"\n"
        self._size = 0
        self._file: FileIO | None = FileIO(open_exclusive(self._path), "ab")
        try:
            self._write(line)
        except OstlerError:
            Path(self._path).unlink(missing_ok=True)
            raise

    @property
    def path(self) -> Path:
        return Path(self._path)

    def output(self, data: bytes) -> None:
        self._bytes("o", data)

    def input(self, data: bytes) -> None:
        self._bytes("i", data)

    def resize(self, cols: int, rows: int) -> None:
        self._event("r", f"{cols}x{rows}")

    def marker(self, text: str) -> None:
        self._event("m", unicode(text))

    def close(self) -> None:
        """Half a character at the end becomes U+FFFD. Idempotent."""
        try:
            self._bytes("o", b"", final=True)
            self._bytes("i", b"", final=True)
        finally:
            self._stop()

    def _bytes(self, kind: Literal["o", "i"], data: bytes, final: bool = False) -> None:
        if self._file is None or (final and kind not in self._decoders):
            return
        if (decoder := self._decoders.get(kind)) is None:
            decoder = self._decoders[kind] = _decoder("replace")
        if text := decoder.decode(data, final):
            self._event(kind, text)

    def _event(self, kind: Kind, data: str) -> None:
        if self._file is None:
            return
        at = round(self._clock() - self._began, 6)
        line = msgspec.json.encode((at, kind, data)) + b"\n"
        if self._size + len(line) + MARKER_ROOM > self._limit:
            self.full = True
            line = msgspec.json.encode((at, "m", f"The recording ends here: its limit is {self._limit} bytes")) + b"\n"
        self._write(line)
        if self.full:
            self._stop()

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        try:
            with file_errors(self._path):
                write_all(self._file.fileno(), line)
        except OstlerError:
            self._stop()
            raise
        self._size += len(line)

    def _stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def unicode(text: str) -> str:
    """The text with `?` for lone surrogates, which no JSON may hold."""
    return text.encode(errors="replace").decode()


# -- reading ----------------------------------------------------------------------------------------


class Cast(Struct, frozen=True):
    """A recording that can be read any number of times, also while it is still written."""

    path: Path
    header: CastHeader

    def events(self) -> Iterator[CastEvent]:
        """Times never go back. Lines that are broken or not finished are passed over."""
        last = 0.0
        with _open(self.path) as file:
            next(_lines(file), None)
            for line in _lines(file):
                if event := _event(line):
                    last = max(last, event.at)
                    yield structs.replace(event, at=last)


def read_cast(path: str | Path) -> Cast:
    """The recording; its events are read when asked for. `not_found`, or `bad_request` for what is none."""
    path = Path(path)
    with _open(path) as file:
        line = next(_lines(file), b"")
    found = _decoded(line)
    try:
        header = msgspec.convert(found, CastHeader)
    except msgspec.ValidationError:
        header = None
    if header is None or header.version != 2:
        version = found.get("version") if isinstance(found, dict) else None
        wrong = f"has version {version}" if isinstance(version, int) and version != 2 else "is not a recording"
        raise OstlerError("bad_request", f"{path} {wrong}", "Recordings are files of asciicast version 2")
    return Cast(path, header)


def _open(path: Path) -> BinaryIO:
    if not path.exists():
        raise OstlerError("not_found", f"{path} does not exist")
    with file_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OstlerError("bad_request", f"{path} is not a file")
        return os.fdopen(fd, "rb")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines; of one over the limit nothing."""
    cut = False
    while line := file.readline(LINE_LIMIT):
        whole = line.endswith(b"\n") or len(line) < LINE_LIMIT
        if whole and not cut:
            yield line
        cut = not whole


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _event(line: bytes) -> CastEvent | None:
    match _decoded(line):
        case [int() | float() as at, str() as kind, str() as data] if not isinstance(at, bool):
            return CastEvent(float(at), kind, data) if math.isfinite(at) and at >= 0 else None
        case _:
            return None
