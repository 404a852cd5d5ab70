"""The files a turn leaves: prompt, raw output, events, diff, structured answer. Private, masked."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from ostler.model import Envelope, Exit
from ostler.store import Redactor
from ostler.store.files import open_private_append, write_new_private


class Recording(Protocol):
    """Where a turn's raw output is recorded too (a cassette)."""

    def begin(self, *, agent: str, argv: tuple[str, ...], prompt: str) -> None: ...
    def stdout(self, data: bytes) -> None: ...
    def stderr(self, data: bytes) -> None: ...
    def close(self, exit: Exit | None) -> None: ...


LOGINS = ".logins"  # the end of the name of a note on logins that are to be brought back from a shadow
RAW_LIMIT = 64 * 1024 * 1024
_MAX_DIFF = 4 * 1024 * 1024


class Artifacts:
    """One turn's folder. Raw output is masked at equal length and bounded."""

    def __init__(self, folder: str | Path, redactor: Redactor, recording: Recording | None = None) -> None:
        """`folder`: private already."""
        self._folder = str(folder)
        self.recording = recording
        self.paths: dict[str, str] = {}
        self._redactor = redactor
        self._raw: dict[str, tuple[BinaryIO, RawMasker]] = {}
        self._room: dict[str, int] = {}

    @property
    def folder(self) -> Path:
        return Path(self._folder)

    def write(self, name: str, file: str, data: bytes | Iterable[bytes]) -> None:
        path = f"{self._folder}/{file}"
        write_new_private(path, data)
        self.paths[name] = path

    def raw(self, name: str, data: bytes) -> None:
        """Appends to the raw stream `name`; past the limit the rest is left out."""
        if name not in self._raw:
            path = f"{self._folder}/{name}.log"
            self._raw[name] = open_private_append(path), RawMasker(self._redactor)
            self._room[name] = RAW_LIMIT
            self.paths[name] = path
        file, masker = self._raw[name]
        self._put(name, file, masker.feed(data))

    def close(self, exit: Exit | None = None) -> None:
        for name, (file, masker) in self._raw.items():
            self._put(name, file, masker.close())
            file.close()
        self._raw.clear()
        if self.recording is not None:
            self.recording.close(exit)

    def _put(self, name: str, file: BinaryIO, data: bytes) -> None:
        if self.recording is not None:
            (self.recording.stdout if name == "stdout" else self.recording.stderr)(data)
        room = self._room[name]
        if room <= 0:
            return
        file.write(data[:room])
        self._room[name] = room - len(data)
        if len(data) >= room:
            file.write(b"\n[ostler: the rest is left out]\n")


class RawMasker:
    """Masks a secret that stands in the bytes, and one whose pieces stand in several records."""

    def __init__(self, redactor: Redactor) -> None:
        self._records, self._bytes = redactor.record_masker(), redactor.masker()

    def feed(self, data: bytes) -> bytes:
        return self._bytes.feed(self._records.feed(data))

    def close(self) -> bytes:
        return self._bytes.feed(self._records.close()) + self._bytes.close()


def diff_of(envelope: Envelope) -> str:
    """The turn's diff, if it has one that can be read."""
    path = envelope.artifacts.get("diff")
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_DIFF)
    except OSError:
        return ""


def _remove_folder(path: str) -> None:
    try:
        os.rmdir(path)  # mostly nobody put anything into it
    except OSError:
        import shutil

        shutil.rmtree(path, ignore_errors=True)


def lends_logins(paths: Sequence[str]) -> bool:
    """Whether something is to be kept of a shadow of the process: whoever removes these files brings it back before."""
    return any(path.endswith(LOGINS) for path in paths)


def keep_logins(paths: Sequence[str]) -> None:
    """Brings back logins that a process has renewed by now. One that stays does so after each of its turns."""
    _bring_back(paths, ended=False)


def _bring_back(paths: Sequence[str], *, ended: bool) -> None:
    if lends_logins(paths):
        from ostler.work.shadows import bring_back

        bring_back(paths, ended=ended)


def remove_files(paths: tuple[str, ...]) -> None:
    """Removes what a launch put down; what is gone already is fine. What is to be kept of a shadow is so before."""
    _bring_back(paths, ended=True)
    for path in paths:
        try:
            os.unlink(path)
        except IsADirectoryError:
            _remove_folder(path)
        except OSError:
            continue  # gone already
