"""Files that a person hands over for a turn: private, and gone after a day."""

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ostler import clock
from ostler.errors import OstlerError, quoted
from ostler.store.files import file_errors, open_private_append, private_folder

DAY = 86400.0
ROOM = 1 << 30  # bytes that all uploads together may take


class Upload(Struct, frozen=True, kw_only=True):
    upload: str  # its id
    name: str
    size: int


class Uploads:
    """Each upload has a folder of its own in the state folder, so that it keeps its name."""

    def __init__(self, state_folder: str | Path) -> None:
        self._folder = Path(state_folder) / "uploads"

    async def keep(self, name: str, chunks: AsyncIterable[bytes]) -> Upload:
        """Writes the file as it comes. What did not come whole leaves nothing."""
        left = await asyncio.to_thread(self.sweep)
        id, name, size = secrets.token_hex(12), clean_file_name(name), 0
        folder = private_folder(private_folder(self._folder) / id)
        try:
            with open_private_append(folder / name) as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > left:
                        raise OstlerError("too_many", "there is no room for more uploads", "They are kept for a day")
                    with file_errors(folder / name):
                        file.write(chunk)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Upload(upload=id, name=name, size=size)

    def path(self, id: str) -> Path:
        """Where an upload lies. Raises `not_found` for one that is unknown, or over a day old."""
        with suppress(OSError):  # removed, or never there
            folder = self._folder / id
            is_kept = re.fullmatch("[0-9a-f]{24}", id) and folder.stat().st_mtime > clock.now() - DAY
            if is_kept and (file := next(folder.iterdir(), None)):
                return file
        raise OstlerError(
            "not_found", f"there is no upload {quoted(id[:40])}", "Uploads are kept for a day: send it again"
        )

    def sweep(self) -> int:
        """Removes what is too old; how many bytes may still come."""
        used, old = 0, clock.now() - DAY
        with suppress(FileNotFoundError):  # there were no uploads yet
            for folder in self._folder.iterdir():
                with suppress(OSError):  # another request removes it just now
                    if folder.lstat().st_mtime < old:
                        shutil.rmtree(folder)
                    else:
                        used += sum(file.lstat().st_size for file in folder.iterdir())
        return max(0, ROOM - used)


def clean_file_name(name: str) -> str:
    """The last part of a name, without what a shell, a terminal or a file system takes amiss."""
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(char if char.isprintable() and char not in "\"'`$<>|&;:*?" else "_" for char in last).strip(" .-")
    stem, suffix = os.path.splitext(kept)
    while len((stem + suffix).encode()) > 120:
        stem, suffix = (stem[:-1], suffix) if stem else ("", suffix[:-1])
    return stem + suffix or "file"
