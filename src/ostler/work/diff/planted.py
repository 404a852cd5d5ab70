"""What a turn planted: changes in its folder by which programs would run later, or agents be allowed more.

Under `write` a folder's `.git` can be written, or nothing could be committed; so hooks and configuration of git can be
changed, which stand in no diff. And commands can change the settings that agents take from a folder. Both are compared.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from ostler.agents.guarded import guarded_patterns, is_guarded
from ostler.model import FileChange
from ostler.store.files import write_private
from ostler.work.walls import git_folders

KEPT = "marks.json"
_OF_GIT = ("config", "config.worktree", "info/attributes", "hooks")
_MOST = 2000  # files that are looked at; a folder with more of them than that is told by its diff
_LARGEST = 1 << 20  # bytes of a file that are compared; beyond, its times tell
Marks = dict[str, str]  # a path of the folder → what it is


def marks_of(folder: str) -> Marks:
    """The files of a folder that would give power, as they are now. Raises nothing."""
    found: Marks = {}
    for path in _paths(folder):
        if len(found) >= _MOST:
            break
        if (mark := _mark(path)) is not None:
            found[os.path.relpath(path, folder)] = mark
    return found


def keep_marks(marks: Marks, scratch: str) -> None:
    """So that another process can compare, once `kept_marks` has found them. Raises OstlerError("store")."""
    write_private(os.path.join(scratch, KEPT), json.dumps(marks).encode())  # whatever bytes the names are made of


def kept_marks(scratch: str) -> Marks | None:
    """What `keep_marks` kept; None where nothing was."""
    try:
        with open(os.path.join(scratch, KEPT), "rb") as file:
            return dict(json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def planted(before: Mapping[str, str], after: Mapping[str, str], files: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """What changed of it, with those of the changed files that would count where they lie, in a folder further down."""
    changes = {path: "update" if path in before else "add" for path in after if before.get(path) != after[path]}
    changes |= {path: "delete" for path in before if path not in after}
    found = {path: FileChange(path=path, change=change) for path, change in changes.items()}  # type: ignore[arg-type]
    found |= {file.path: file for file in files if is_guarded(file.path)}
    return tuple(found[path] for path in sorted(found))


def _paths(folder: str) -> Iterator[str]:
    for git in _git_folders(folder):
        for name in _OF_GIT:
            yield from _beneath(os.path.join(git, name))
    for pattern in guarded_patterns():
        if pattern != [".git"] and not any("*" in part for part in pattern):
            yield from _beneath(os.path.join(folder, *pattern))


def _git_folders(folder: str) -> Iterator[str]:
    """That of the folder, or of the repository whose work tree it is, and those of submodules."""
    for git in (os.path.join(folder, ".git"), *git_folders(folder)):
        yield git
        modules = os.path.join(git, "modules")
        for name in _listed(modules):
            yield os.path.join(modules, name)


def _beneath(path: str) -> Iterator[str]:
    """The path, if it is a file or a link; else all files beneath it, without following links."""
    if os.path.islink(path) or not os.path.isdir(path):
        yield path
        return
    for name in _listed(path):
        if name != "node_modules":
            yield from _beneath(os.path.join(path, name))


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MOST]
    except OSError:
        return []  # it is not there, or nobody may look into it


def _mark(path: str) -> str | None:
    """What tells one state of a file from another; None where there is none."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return f"link {os.readlink(path)}"
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            return f"{found.st_mode} {found.st_size} {found.st_ctime_ns}"
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return f"{found.st_mode} {hashlib.sha256(file.read(_LARGEST)).hexdigest()}"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"unreadable: {error.errno}"
