"""Shadows: throw-away folders in the place of an agent's own state folder, for turns behind a wall.

What the agent has there is linked, so that it can be read and not changed; a link that the agent replaces is replaced
in the shadow alone. Logins are copied, and when the turn is over their tokens are brought back: a token that an agent
asked for and could not keep would log the user out.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.store.files import write_private
from ostler.work.turns.artifacts import LOGINS

_LARGEST = 16 * 1024 * 1024  # bytes of a file that is copied
_LARGEST_LOGIN = 256 * 1024

_log = logging.getLogger(__name__)


class Shadow(Struct, frozen=True, kw_only=True):
    """A shadow to be made: of which folder, where, and what is not linked."""

    real: str
    place: str
    beside: str = ""  # the folder that the shadow's parent stands for: its other entries are linked there
    copied: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    logins: dict[str, tuple[str, ...]] = {}


class Loan(Struct, frozen=True, kw_only=True):
    """A login that was copied into a shadow."""

    real: str
    copy: str
    fields: tuple[str, ...]


def make_shadow(shadow: Shadow) -> None:
    """Makes it. Raises OSError."""
    os.makedirs(shadow.place, mode=0o700)
    for name in _names(shadow.real):
        if any(fnmatchcase(name, pattern) for pattern in shadow.anew):
            continue
        source, target = os.path.join(shadow.real, name), os.path.join(shadow.place, name)
        if not ((name in shadow.copied or name in shadow.logins) and _copy(source, target)):
            os.symlink(source, target)
    if shadow.beside:
        around = os.path.dirname(shadow.place)
        for name in _names(shadow.beside):
            if name != os.path.basename(shadow.place):
                os.symlink(os.path.join(shadow.beside, name), os.path.join(around, name))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []  # the agent has never run


def _copy(source: str, target: str) -> bool:
    """Whether it was a file that can be copied; a large one is linked, and read-only."""
    try:
        found = os.stat(source)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        return False
    import shutil  # what a turn without a copy does not wait for

    shutil.copyfile(source, target)
    os.chmod(target, 0o600)
    return True


# -- logins -----------------------------------------------------------------------------------------


def lend(shadow: Shadow, scratch: str) -> str:
    """Notes, outside of what the agent can write, which logins it has; the path of that note, "" if there is none."""
    real, place = shadow.real, shadow.place
    loans = [
        Loan(real=os.path.realpath(f"{real}/{name}"), copy=f"{place}/{name}", fields=fields)
        for name, fields in shadow.logins.items()
        if os.path.lexists(os.path.join(shadow.place, name))
    ]
    if not loans:
        return ""
    write_private(scratch + LOGINS, msgspec.json.encode(loans))
    return scratch + LOGINS


def bring_back(paths: Iterable[str]) -> None:
    """Brings back the logins of which there is a note among these paths. Raises nothing: the turn is over."""
    for path in paths:
        if not path.endswith(LOGINS):
            continue
        try:
            with open(path, "rb") as file:
                loans = msgspec.json.decode(file.read(), type=list[Loan])
        except (OSError, msgspec.MsgspecError):
            continue  # brought back already
        for loan in loans:
            with contextlib.suppress(OSError, OstlerError):  # there is no login, or the folder cannot be written
                _return(loan)


def _return(loan: Loan) -> None:
    """Of what the agent left, only tokens count: the file may also say where they are sent."""
    old, new = _read(loan.real), _read(loan.copy)
    kept = merged(old, new, loan.fields)
    if kept is not None:
        _log.info("a login was renewed behind a wall: %s", os.path.basename(loan.real))
        write_private(loan.real, msgspec.json.format(msgspec.json.encode(kept), indent=2))


def merged(old: Any, new: Any, fields: Sequence[str]) -> Mapping[str, Any] | None:
    """The old login with the new one's tokens; None where nothing of them changed, or one of them is no login."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return None
    renewed = {name: new[name] for name in fields if isinstance(new.get(name), str | int | float) and name in old}
    if all(old[name] == value for name, value in renewed.items()) or _ends_sooner(old, renewed):
        return None
    return {**old, **renewed}


def _ends_sooner(old: Mapping[str, Any], renewed: Mapping[str, Any]) -> bool:
    """Another process has renewed it meanwhile, and later."""
    ends = [name for name in renewed if name.startswith("expir")]
    return any(isinstance(old[name], int | float) and old[name] > renewed[name] for name in ends)


def _read(path: str) -> Any:
    """What a file of JSON holds. It may be anything by now: a link, a pipe, a file of a terabyte."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = file.read(_LARGEST_LOGIN + 1)
    try:
        return msgspec.json.decode(data) if len(data) <= _LARGEST_LOGIN else None
    except (msgspec.MsgspecError, RecursionError):
        return None
