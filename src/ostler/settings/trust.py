"""What a project file may say by itself; which project files, folders and schedules the user trusts."""

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from ostler.model import Limits
from ostler.settings.check import KeyPath
from ostler.settings.files import Layer

Trust = Callable[[str, str], bool]
"""Whether a project file (path, sha256 of its content) is trusted."""

FolderAnswer = Literal["yes", "no", "other", ""]
FolderAnswers = Callable[[str, str], FolderAnswer]
"""What the user said of a folder with this content: yes, no, nothing (""), or yes to another content ("other")."""

# What only restricts. All else executes, widens, loses something, or steers: who works (default_agent, models,
# fallback, a profile), and what the agent is told (a profile's system prompt).
_HARMLESS = {"tools_denied", "redact"}
_NARROWER = (("access", "read"), ("walls", "required"), ("read_secrets", False))


def unsafe_keys(values: Mapping[str, Any], user: Mapping[str, Any]) -> list[KeyPath]:
    """The keys of a project file that count only once it is trusted; `user` are the user file's values."""
    limits = {**msgspec.structs.asdict(Limits()), **user.get("limits", {})}
    unsafe: list[KeyPath] = []
    for key, value in values.items():
        if key == "limits":
            unsafe += [(key, name) for name in _wider(value, limits)]
        elif key == "profiles":
            unsafe += [(key, name) for name in value]  # each is an agent by another name
        elif key == "asks":
            unsafe += [(key, str(n)) for n, rule in enumerate(value, 1) if rule["answer"] == "allow"]
        elif key not in _HARMLESS and (key, value) not in _NARROWER:
            unsafe.append((key,))
    return unsafe


def _wider(new: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The limits that would allow more than they do now."""
    size = {name: math.inf if value is None else value for name, value in now.items()}
    return [name for name, value in new.items() if (math.inf if value is None else value) > size[name]]


def without(layer: Layer, unsafe: Iterable[KeyPath]) -> Layer:
    import copy

    values = copy.deepcopy(layer.values)
    if "asks" in values:
        gone = {path[1] for path in unsafe if path[0] == "asks"}
        values["asks"] = [rule for n, rule in enumerate(values["asks"], 1) if str(n) not in gone]
    for path in unsafe:
        if path[0] == "asks":
            continue
        table = values
        for name in path[:-1]:
            table = table[name]
        del table[path[-1]]
    return Layer(layer.source, values)


# -- the user's list --------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def recorded_trust(list_file: str) -> Trust:
    """Asks the user's list of trusted project files: same path, same content."""
    known = _read(list_file)
    return lambda path, sha256: known.get(path) == sha256


def record_trust(list_file: str, path: str, sha256: str) -> None:
    """Adds a project file, as it is now, to the user's list."""
    _write(list_file, {**_read(list_file), path: sha256})


# Of a folder the list keeps one answer for each agent that found something there: {folder: {agent: [sha256, bool]}}.
_FOLDERS = "folders"


def recorded_answers(list_file: str) -> FolderAnswers:
    """Asks the user's list what was said of a folder. An answer holds for every agent that finds the same content."""
    folders = _tables(_read(list_file).get(_FOLDERS))

    def answer(folder: str, sha256: str) -> FolderAnswer:
        said = [each for each in folders.get(folder, {}).values() if isinstance(each, list) and len(each) == 2]
        same = [trusted for content, trusted in said if sha256 and content == sha256]
        if same:
            return "yes" if True in same else "no"
        return "other" if any(trusted is True for _, trusted in said) else ""

    return answer


def record_answer(list_file: str, folder: str, agent: str, sha256: str, trusted: bool) -> None:
    """Keeps what the user said of what a folder brings for an agent, as it is now."""
    known = _read(list_file)
    folders = _tables(known.get(_FOLDERS))
    answers = {**folders.get(folder, {}), agent: [sha256, trusted]}
    if trusted:  # a no to the same content that another agent found is over
        answers = {name: said for name, said in answers.items() if said != [sha256, False]}
    _write(list_file, {**known, _FOLDERS: {**folders, folder: answers}})


class ScheduledFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pipeline file whose own schedule the user has switched on: what it was then, and where it works."""

    sha256: str
    cron: str
    folder: str
    inputs: dict[str, str] = {}


_SCHEDULES = "schedules"


def scheduled_files(list_file: str) -> dict[str, ScheduledFile]:
    """The pipeline files that the user's list lets start by themselves."""
    try:
        return msgspec.convert(_read(list_file).get(_SCHEDULES, {}), dict[str, ScheduledFile])
    except msgspec.ValidationError:
        return {}  # it cannot be understood, so nothing starts


def record_schedule(list_file: str, path: str, entry: ScheduledFile | None) -> None:
    """Switches the schedule of a pipeline file on, as the file is now; with None, off."""
    kept = {name: each for name, each in scheduled_files(list_file).items() if name != path}
    if entry is not None:
        kept[path] = entry
    _write(list_file, {**_read(list_file), _SCHEDULES: msgspec.to_builtins(kept)})


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    return {key: each for key, each in value.items() if isinstance(each, dict)} if isinstance(value, dict) else {}


def _write(list_file: str, known: Mapping[str, Any]) -> None:
    import json

    os.makedirs(os.path.dirname(list_file), mode=0o700, exist_ok=True)
    new = f"{list_file}.{os.getpid()}"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as out:
        json.dump(known, out, indent=1)
    os.replace(new, list_file)


def _read(list_file: str) -> dict[str, Any]:
    # A list that is missing or cannot be understood trusts nothing.
    with contextlib.suppress(OSError, ValueError, RecursionError), open(list_file, "rb") as file:
        import json  # most have no list

        known = json.load(file)
        return known if isinstance(known, dict) else {}
    return {}
