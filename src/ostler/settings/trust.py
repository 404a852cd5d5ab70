"""What a project file may say by itself, and which project files the user trusts."""

import contextlib
import copy
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ostler.settings.check import Path
from ostler.settings.files import Layer
from ostler.words import Limits

Trust = Callable[[str, str], bool]
"""Whether a project file (path, sha256 of its content) is trusted."""

# All else executes, widens, or loses something: default_agent and models only choose among the
# user's own agents, and a system prompt is what any repository can say in its AGENTS.md.
_HARMLESS = {"default_agent", "models", "fallback", "tools_denied", "redact"}
_HARMLESS_IN_PROFILE = {
    *("agent", "model", "description", "color", "system", "tools_denied", "fallback", "done_pattern"),
}


def unsafe_keys(values: Mapping[str, Any], user: Mapping[str, Any]) -> list[Path]:
    """The keys of a project file that count only once it is trusted; `user` are the user file's values."""
    limits = {**msgspec.structs.asdict(Limits()), **user.get("limits", {})}
    unsafe: list[Path] = []
    for key, value in values.items():
        if key == "limits":
            unsafe += [(key, name) for name in _wider(value, limits)]
        elif key == "profiles":
            unsafe += _unsafe_profiles(value, user.get("profiles", {}), limits)
        elif key == "asks":
            unsafe += [(key, str(n)) for n, rule in enumerate(value, 1) if rule["answer"] == "allow"]
        elif key not in _HARMLESS and (key, value) != ("access", "read"):
            unsafe.append((key,))
    return unsafe


def _unsafe_profiles(profiles: Mapping[str, Any], users: Iterable[str], limits: Mapping[str, Any]) -> list[Path]:
    unsafe: list[Path] = []
    for name, profile in profiles.items():
        if name in users:  # the user's own profile must stay what the user means by it
            unsafe.append(("profiles", name))
            continue
        for key, value in profile.items():
            if key == "limits":
                unsafe += [("profiles", name, key, limit) for limit in _wider(value, limits)]
            elif key not in _HARMLESS_IN_PROFILE and (key, value) != ("access", "read"):
                unsafe.append(("profiles", name, key))
    return unsafe


def _wider(new: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The limits that would allow more than they do now."""
    size = {name: math.inf if value is None else value for name, value in now.items()}
    return [name for name, value in new.items() if (math.inf if value is None else value) > size[name]]


def without(layer: Layer, unsafe: Iterable[Path]) -> Layer:
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
    return hashlib.sha256(data).hexdigest()


def recorded_trust(list_file: str) -> Trust:
    """Asks the user's list of trusted project files: same path, same content."""
    known = _read(list_file)
    return lambda path, sha256: known.get(path) == sha256


def record_trust(list_file: str, path: str, sha256: str) -> None:
    """Adds a project file, as it is now, to the user's list."""
    os.makedirs(os.path.dirname(list_file), mode=0o700, exist_ok=True)
    new = f"{list_file}.{os.getpid()}"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as out:
        json.dump({**_read(list_file), path: sha256}, out, indent=1)
    os.replace(new, list_file)


def _read(list_file: str) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError), open(list_file, "rb") as file:
        known = json.load(file)
        return known if isinstance(known, dict) else {}
    return {}
