"""Finds and reads the two settings files."""

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.settings.check import Where, checked, unknown
from ostler.settings.keys import FILE_KEYS, TYPES

PROJECT_FILE = "ostler.toml"
MAX_BYTES = 256 * 1024


class Layer(Struct, frozen=True):
    """One source of settings: its name and its checked, plain values."""

    source: str
    values: dict[str, Any]


def home_of(environ: Mapping[str, str]) -> str:
    if not environ.get("HOME"):
        raise OstlerError("bad_request", "the variable HOME is not set", "Set it to your home folder")
    return environ["HOME"]


def user_file(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(home_of(environ), ".config")
    return os.path.join(base, "ostler", "config.toml")


def user_layer(environ: Mapping[str, str]) -> Layer:
    path = user_file(environ)
    try:
        data = _read_regular(path, 0)
    except (FileNotFoundError, NotADirectoryError):
        return Layer(path, {})
    except (OSError, ValueError) as error:
        raise OstlerError("bad_request", f"cannot read {path}: {_reason(error)}", "Fix or remove that file") from error
    return file_layer(path, data)


def find_project_file(folder: str, notices: list[str]) -> tuple[str, bytes | None]:
    """The nearest ostler.toml between the folder and the git root, never above; ("", None) if none.

    Whatever is not a plain file of ours (a pipe, a symlink, someone else's) is left out with a notice.
    """
    for candidate in _up_to_git_root(os.path.realpath(folder)):
        path = os.path.join(candidate, PROJECT_FILE)
        try:
            return path, _read_regular(path, os.O_NOFOLLOW, owned=True)
        except (FileNotFoundError, NotADirectoryError):
            continue  # none here: the next folder up
        except (OSError, ValueError) as error:
            notices.append(f"{path} is ignored: {_reason(error)}")
            return path, None
    return "", None


def project_root(folder: str, project_file: str) -> str:
    """Where `state = "project"` puts its folder: beside ostler.toml, else the git root, else here."""
    return os.path.dirname(project_file) if project_file else _git_root(folder) or folder


@lru_cache(maxsize=32)  # a server reads the same files before each turn
def file_layer(path: str, data: bytes) -> Layer:
    """The checked values of a TOML file. Not to be changed: they are those of everyone who reads the same file."""
    import tomllib  # most folders, and many users, have no file

    from ostler.settings.toml import parsed

    text = _decoded(path, data)
    try:
        values = parsed(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = (found[1] if found else None) or text.count("\n") + 1
        what = str(error)[: found.start()] if found else "this is nested too deeply"
        raise OstlerError("bad_request", f"{path}:{line}: {what}", "Fix that line: the file is TOML") from error
    where = Where(path, text)
    return Layer(path, {key: _file_value(key, value, where) for key, value in values.items()})


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise OstlerError("bad_request", f"{path}:{line}: this is not UTF-8", "Save the file as UTF-8") from error


def _file_value(key: str, value: Any, where: Where) -> Any:
    if key not in FILE_KEYS:
        raise unknown(where, (key,), FILE_KEYS)
    value = checked(value, TYPES[key], where, (key,))
    base = os.path.dirname(where.name)
    if key in ("commands", "acp"):
        return {agent: _argv(argv, base) for agent, argv in value.items()}
    if key == "agents":
        return {name: {**entry, "command": _argv(entry["command"], base)} for name, entry in value.items()}
    if key == "mcp":
        return {name: _with_program(entry, base) for name, entry in value.items()}
    if key == "state" and value not in ("user", "project"):
        return _program(f"./{value}" if "/" not in value else value, base)
    return value


def _argv(command: Sequence[str], base: str) -> list[str]:
    return [_program(command[0], base), *command[1:]]


def _with_program(entry: dict[str, Any], base: str) -> dict[str, Any]:
    return {**entry, "command": _program(entry["command"], base)} if entry.get("command") else entry


def _program(name: str, base: str) -> str:
    """A path is meant from the file's folder, a bare name from PATH."""
    return os.path.normpath(os.path.join(base, name)) if "/" in name and not name.startswith("~/") else name


def _read_regular(path: str, flags: int, owned: bool = False) -> bytes:
    # O_NONBLOCK: a named pipe in a hostile repository must not hang us.
    descriptor = os.open(path, flags | os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("it is not a regular file")
        if owned and facts.st_uid not in (os.getuid(), 0):
            raise ValueError("it belongs to another user")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES // 1024} KiB")
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
    return str(error)


def _up_to_git_root(folder: str) -> list[str]:
    root = _git_root(folder)
    folders = [folder]
    while root is not None and folders[-1] != root:
        folders.append(os.path.dirname(folders[-1]))
    return folders


def _git_root(folder: str) -> str | None:
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder
