"""What has to go although ostler and its warden were both killed: noted before it is made, removed at the next start.

A file that a launch puts down (private ones, an `AGENTS.md` in the folder) is removed by ostler at the end, and by the
warden if ostler is killed. If both are, this note is left, and tells the next ostler.
"""

import contextlib
import logging
import os
import socket
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ostler import clock
from ostler.model import TurnRow
from ostler.process import cgroup, tree
from ostler.store.files import private_folder, session_folder, write_private

YOUNG = 60.0  # seconds in which a socket may not be listened on yet, nor its owner be known
_OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # the sha256 of no bytes

_log = logging.getLogger(__name__)


class Note(Struct, frozen=True, kw_only=True):
    """Files that this process will remove, with the hashes of what it wrote."""

    pid: int
    start_time: int
    boot_id: str
    files: dict[str, str]
    folders: tuple[str, ...] = ()  # outside of the state folder, with whatever is in them
    cgroup: str = ""


def note(state: str | Path, files: Mapping[str, bytes], group: str = "", folders: Sequence[str] = ()) -> str:
    """Notes that these are ours, before they are made. Returns the note's own path: it goes after them."""
    folder = private_folder(Path(state) / "leftovers")
    pid = os.getpid()
    hashes = {path: _sha256(data) for path, data in files.items()}
    made = Note(
        pid=pid,
        start_time=tree.identity(pid) or 0,
        boot_id=tree.boot_id(),
        files=hashes,
        folders=tuple(folders),
        cgroup=group,
    )
    path = folder / f"{os.urandom(8).hex()}.json"
    write_private(path, msgspec.json.encode(made))
    return str(path)


def pass_on(path: str, pid: int, start_time: int) -> None:
    """The files are another process's now: they stay as long as it lives, whatever becomes of us."""
    noted = _read(Path(path))
    if noted is not None:
        write_private(path, msgspec.json.encode(msgspec.structs.replace(noted, pid=pid, start_time=start_time)))


def something_left(state: str | Path, known: Collection[str]) -> bool:
    """Quick: whether there may be something to remove, of files or of sockets that are not of the `known` owners."""
    notes = (Path(state, "leftovers", name) for name in _names(f"{state}/leftovers", ".json"))
    strange = {name.removesuffix(".sock") for name in _names(f"{state}/run", ".sock")} - {*known}
    return bool(strange) or any(_is_left(path) for path in notes)


def _names(folder: str, ending: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(ending)]
    except FileNotFoundError:
        return []


def _is_left(path: Path) -> bool:
    try:
        left = _read(path)
    except OSError:
        return False  # its process removes it just now
    return left is None or _is_gone(left)


def remove_leftovers(state: str | Path) -> None:
    """Removes what processes that are gone have left. What somebody has changed since is theirs, and stays."""
    state = Path(state)
    for path in (state / "leftovers").glob("*.json"):
        with contextlib.suppress(OSError):  # another ostler removes it just now, or the next one does
            left = _read(path)
            if left is None or _is_gone(left):
                _log.info("removing what an ostler process left behind (%s)", path.name)
                _bring_back(left)
                for name, digest in left.files.items() if left else ():
                    _remove(Path(name), digest, state)
                _remove_folders(left.folders if left else ())
                if left is not None and left.cgroup and left.boot_id == tree.boot_id():
                    cgroup.end(left.cgroup)
                path.unlink(missing_ok=True)


def remove_scratch(state: str | Path, turns: Collection[TurnRow]) -> None:
    """Copies of folders as they were before these turns, whose ends nobody saw."""
    if not turns:
        return
    import shutil

    for row in turns:
        shutil.rmtree(session_folder(state, row.session) / row.id / "before", ignore_errors=True)


def remove_sockets(folder: str | Path, known: Collection[str]) -> None:
    """Sockets of processes that were killed before or after their row was in the store: nobody listens there."""
    for path in Path(folder).glob("*.sock"):
        with contextlib.suppress(OSError):  # gone meanwhile, or not ours to remove: it harms nobody
            if path.stem not in known and path.lstat().st_mtime < clock.now() - YOUNG and not _listens(path):
                path.unlink(missing_ok=True)


def _bring_back(left: Note | None) -> None:
    """A login that was renewed behind a wall, before its copy goes."""
    from ostler.work.shadows import bring_back

    bring_back(left.files if left is not None else (), ended=True)


def _read(path: Path) -> Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except msgspec.MsgspecError:
        return None


def _is_gone(left: Note) -> bool:
    return left.boot_id != tree.boot_id() or tree.gone(left.pid, left.start_time)


def _remove(path: Path, digest: str, state: Path) -> None:
    import shutil

    with contextlib.suppress(OSError):  # gone already, or in a folder that is not ours any more
        if path.is_relative_to(state) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_relative_to(state) or _digest(path) == digest:
            path.unlink()


def _remove_folders(folders: Sequence[str]) -> None:
    import shutil

    for path in folders:
        shutil.rmtree(path, ignore_errors=True)  # which takes no link for a folder


def _digest(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        import hashlib

        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(data: bytes) -> str:
    if not data:  # most turns note a folder alone, and hashlib loads OpenSSL
        return _OF_NOTHING
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            end.connect(f"/proc/self/fd/{fd}/{path.name}")  # a path may have 107 bytes only
        except ConnectionRefusedError:
            return False
        finally:
            os.close(fd)
    return True
