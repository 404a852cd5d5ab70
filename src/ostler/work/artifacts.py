"""The files a turn leaves: prompt, raw output, events, diff, structured answer. Private, masked."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Protocol

from ostler.store import Masker, Redactor
from ostler.store.files import open_private_append, private_folder, write_private
from ostler.words import Exit


class Recording(Protocol):
    """Where a turn's raw output is recorded too (a cassette)."""

    def begin(self, *, agent: str, argv: tuple[str, ...], prompt: str) -> None: ...
    def stdout(self, data: bytes) -> None: ...
    def stderr(self, data: bytes) -> None: ...
    def close(self, exit: Exit | None) -> None: ...


RAW_LIMIT = 64 * 1024 * 1024


class Artifacts:
    """One turn's folder. Raw output is masked at equal length and bounded."""

    def __init__(self, folder: Path, redactor: Redactor, recording: Recording | None = None) -> None:
        self.folder = private_folder(folder)
        self.recording = recording
        self.paths: dict[str, str] = {}
        self._redactor = redactor
        self._raw: dict[str, tuple[BinaryIO, Masker]] = {}
        self._room: dict[str, int] = {}

    def write(self, name: str, file: str, data: bytes | Iterable[bytes]) -> None:
        path = self.folder / file
        write_private(path, data)
        self.paths[name] = str(path)

    def raw(self, name: str, data: bytes) -> None:
        """Appends to the raw stream `name`; past the limit the rest is left out."""
        if name not in self._raw:
            path = self.folder / f"{name}.log"
            self._raw[name] = open_private_append(path), self._redactor.masker()
            self._room[name] = RAW_LIMIT
            self.paths[name] = str(path)
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


def remove_files(paths: tuple[str, ...]) -> None:
    """Removes what a launch put down; what is gone already is fine."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            continue
