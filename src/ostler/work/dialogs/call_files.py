"""Files that an agent has read and written through ostler: beneath its folder, by its access, whole or not at all."""

import contextlib
import os
import re
import secrets
import stat
from typing import Any

from ostler.agents.guarded import is_guarded
from ostler.errors import OstlerError, kind_of_os_error, quoted
from ostler.model import Turn
from ostler.store.beneath import open_beneath

FILE_LIMIT = 16 * 1024 * 1024  # an answer goes through the pipe as one record
LINKS = 8  # in a row, as far as a name is followed to the file that is written
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CallFiles:
    """Serves the file calls of one turn. Blocks: it runs in a thread."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.folder = turn.folder.rstrip("/")

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        """The text from `line` on, `limit` lines of it. Raises denied, not_found, bad_request."""
        first, limit = max(1, _count(params, "line") or 1) - 1, _count(params, "limit")
        path = self._beneath(params)
        fd = open_beneath(self.turn.folder, path)
        try:
            data = _content(fd, path)
        finally:
            os.close(fd)
        return {"content": _lines(data, first, limit).decode("utf-8", "replace")}

    def write(self, params: dict[str, Any]) -> dict[str, Any]:
        """Replaces the file, or makes it with its folders. Raises denied, bad_request, store."""
        if self.turn.access == "read":
            raise OstlerError("denied", "this turn may not write", "Run it with --access write")
        content = params.get("content")
        if not isinstance(content, str):
            raise OstlerError("bad_request", "the content is not text")
        path = self._beneath(params)
        self._check(path)
        try:
            self._replace(path, content.encode("utf-8", "replace"))
        except OSError as error:
            kind = kind_of_os_error(error, "denied")
            raise OstlerError(kind, f"{path} cannot be written: {error.strerror}") from error
        return {}

    # -- paths

    def _beneath(self, params: dict[str, Any]) -> str:
        """The path relative to the folder; what leads out of it later is refused by `open_beneath`."""
        path = params.get("path")
        if not isinstance(path, str) or not path or "\0" in path:
            raise OstlerError("bad_request", "a path is needed")
        try:
            path.encode()
        except UnicodeEncodeError:
            raise OstlerError("bad_request", f"{quoted(path)} is not a path") from None
        if not path.startswith("/"):
            return path
        if path != self.folder and not path.startswith(f"{self.folder}/"):
            raise OstlerError("denied", f"{path} is outside {self.turn.folder}")
        return path[len(self.folder) :].strip("/") or "."

    def _check(self, path: str) -> None:
        if self.turn.access == "write" and is_guarded(path):
            hint = "Settings of agents, git's own files and ostler.toml are beyond `write`: change them yourself"
            raise OstlerError("denied", f"{path} may not be written", hint)

    def _check_place(self, folder: int, name: str) -> None:
        """Where the links of its path have led to: what is written next goes into this very folder."""
        with contextlib.suppress(FileNotFoundError):  # no /proc: then no link was followed either
            real = os.readlink(f"/proc/self/fd/{folder}")
            self._check(os.path.relpath(os.path.join(real, name), os.path.realpath(self.turn.folder)))

    def _parent(self, path: str) -> int:
        """The folder of a file that is to be written; made where it is missing."""
        above = os.path.dirname(path) or "."
        try:
            return open_beneath(self.turn.folder, above, _FOLDER)
        except OstlerError as error:
            if error.kind != "not_found":
                raise
        self._make_folders(above)
        return open_beneath(self.turn.folder, above, _FOLDER)

    def _make_folders(self, path: str) -> None:
        """One step at a time, each beneath the folder."""
        done = "."
        for name in filter(None, path.split("/")):
            parent = open_beneath(self.turn.folder, done, _FOLDER)
            try:
                self._check_place(parent, name)
                with contextlib.suppress(FileExistsError):  # it is there, or somebody was quicker
                    os.mkdir(name, 0o777, dir_fd=parent)
            finally:
                os.close(parent)
            done = f"{done}/{name}"

    # -- writing

    def _replace(self, path: str, data: bytes) -> None:
        """By a draft beside it. Both names are within one open folder: no link can lead them elsewhere."""
        path, old = self._target(path)
        parent = self._parent(path)
        try:
            self._check_place(parent, os.path.basename(path))
            draft = f".ostler-{secrets.token_hex(8)}"
            try:
                _write_new(draft, parent, data, old)
                os.rename(draft, os.path.basename(path), src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):  # it was not written yet
                    os.unlink(draft, dir_fd=parent)
                raise
        finally:
            os.close(parent)

    def _target(self, path: str) -> tuple[str, os.stat_result | None]:
        """Where the name leads by its links, and what stands there; it must be a file that may be written."""
        for _ in range(LINKS):
            if os.path.basename(path) in ("", ".", ".."):
                raise OstlerError("bad_request", f"{path} is not a file")
            try:
                fd = open_beneath(self.turn.folder, path, os.O_WRONLY)
            except OstlerError as error:
                if error.kind != "not_found":
                    raise
                found = None
            else:
                found = os.fstat(fd)
                os.close(fd)
            link = self._link(path)
            if link is None:
                return path, found
            path = os.path.join(os.path.dirname(path), link)
            if path.startswith("/"):
                break
        raise OstlerError("denied", f"{path} is outside the folder, or may not be opened")

    def _link(self, path: str) -> str | None:
        try:
            parent = open_beneath(self.turn.folder, os.path.dirname(path) or ".", _FOLDER)
        except OstlerError as error:
            if error.kind != "not_found":
                raise
            return None
        try:
            return os.readlink(os.path.basename(path), dir_fd=parent)
        except OSError:
            return None
        finally:
            os.close(parent)


def _write_new(name: str, parent: int, data: bytes, old: os.stat_result | None) -> None:
    """A file as readable as the one that it replaces."""
    with open(os.open(name, _NEW, 0o666, dir_fd=parent), "wb") as file:
        if old is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode) & 0o777)
        file.write(data)


def _content(fd: int, path: str) -> bytes:
    found = os.fstat(fd)
    if stat.S_ISDIR(found.st_mode):
        raise OstlerError("bad_request", f"{path} is a folder")
    parts, size = [], 0
    while found.st_size <= FILE_LIMIT and size <= FILE_LIMIT:
        parts.append(os.read(fd, 1 << 20))
        size += len(parts[-1])
        if not parts[-1]:
            return b"".join(parts)
    raise OstlerError("bad_request", f"{path} has more than {FILE_LIMIT:,} bytes", "Search it, or read a part")


def _lines(data: bytes, first: int, limit: int | None) -> bytes:
    if first == 0 and limit is None:
        return data
    lines = re.findall(rb"[^\n]*\n|[^\n]+", data)
    return b"".join(lines[first:] if limit is None else lines[first : first + limit])


def _count(params: dict[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise OstlerError("bad_request", f"{name} is {quoted(value)}, not a number of lines")
    return value
