"""Shadows: throw-away folders in the place of an agent's own state folder.

What the agent has there is linked. Behind a wall it can be read and not changed; a link that the agent replaces is
replaced in the shadow alone. Logins are copied, and when the turn is over their tokens are brought back: a token that
an agent asked for and could not keep would log the user out. Without a wall all that the agent made or replaced is
brought back. The file with its settings is a copy to which those of the launch are added.
"""

import contextlib
import logging
import os
import re
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
_COMMENT = re.compile(rb'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)

_log = logging.getLogger(__name__)


class Shadow(Struct, frozen=True, kw_only=True):
    """A shadow to be made: of which folder, where, and what is not linked."""

    real: str
    place: str
    beside: str = ""  # the folder that the shadow's parent stands for: its other entries are linked there
    copied: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    logins: dict[str, tuple[str, ...]] = {}
    keeps_new: bool = False  # what the agent made in it is brought back
    settings_file: str = ""
    settings: dict[str, Any] = {}  # added to those in that file


class Loan(Struct, frozen=True, kw_only=True):
    """A login that was copied into a shadow; or, without fields, a shadow of which all is kept that is `new`."""

    real: str
    copy: str
    fields: tuple[str, ...] = ()
    but: tuple[str, ...] = ()  # names in it that are ostler's own


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
    if shadow.settings:
        _add_settings(shadow)


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


# -- settings ---------------------------------------------------------------------------------------


def _add_settings(shadow: Shadow) -> None:
    """Where the user's own are broken, they stay as they are: the agent says so, and does not start."""
    path = os.path.join(shadow.place, shadow.settings_file)
    try:
        with open(path, "rb") as file:
            own = msgspec.json.decode(without_comments(file.read(_LARGEST)))
    except FileNotFoundError:
        own = {}
    except (msgspec.MsgspecError, RecursionError):
        own = None
    if isinstance(own, dict):
        write_private(path, msgspec.json.encode(added(own, shadow.settings)))
    else:
        _log.warning("%s is not valid JSON: nothing is added to it", os.path.join(shadow.real, shadow.settings_file))


def without_comments(data: bytes) -> bytes:
    """JSON as people write it, for a parser that takes no comments."""
    return _COMMENT.sub(lambda found: found[0] if found[0].startswith(b'"') else b" ", data)


def added(own: Any, more: Any) -> Any:
    """Tables are joined, lists too; of other values the one that is added counts."""
    if isinstance(own, dict) and isinstance(more, dict):
        return {**own, **{key: added(own[key], value) if key in own else value for key, value in more.items()}}
    if isinstance(own, list) and isinstance(more, list):
        return [*own, *more]
    return more


# -- what is brought back ---------------------------------------------------------------------------


def lend(shadow: Shadow, scratch: str) -> str:
    """Notes, outside of what the agent can write, which logins it has; the path of that note, "" if there is none."""
    real, place = shadow.real, shadow.place
    if shadow.keeps_new:
        write_private(scratch + LOGINS, msgspec.json.encode([Loan(real=real, copy=place, but=(shadow.settings_file,))]))
        return scratch + LOGINS
    loans = [
        Loan(real=os.path.realpath(f"{real}/{name}"), copy=f"{place}/{name}", fields=fields)
        for name, fields in shadow.logins.items()
        if os.path.lexists(os.path.join(shadow.place, name))
    ]
    if not loans:
        return ""
    write_private(scratch + LOGINS, msgspec.json.encode(loans))
    return scratch + LOGINS


def bring_back(paths: Iterable[str], *, ended: bool) -> None:
    """Brings back that of which there is a note among these paths; what is new only once the process has `ended`.

    Raises nothing: the turn is over.
    """
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
                if loan.fields:
                    _return(loan)
                elif ended:
                    _keep_new(loan)


def _keep_new(shadow: Loan) -> None:
    """What the agent made or replaced in it goes to the real folder."""
    for name in _names(shadow.copy):
        made, real = os.path.join(shadow.copy, name), os.path.join(shadow.real, name)
        if name in shadow.but or os.path.islink(made):
            continue
        if os.path.isfile(made):
            with open(made, "rb") as file:
                write_private(real, file.read())
        elif not os.path.lexists(real):
            import shutil  # few turns have a folder to keep

            shutil.move(made, real)


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
