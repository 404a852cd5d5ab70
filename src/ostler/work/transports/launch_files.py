"""The files that a launch needs on disk before its process starts."""

import os
from typing import TYPE_CHECKING

from msgspec import structs

from ostler.errors import OstlerError
from ostler.store.files import create_exclusive, write_private
from ostler.work.leftovers import note
from ostler.work.transports.transport import Attempt
from ostler.work.turns.artifacts import LOGINS, remove_files

if TYPE_CHECKING:
    from ostler.work.walls import Walled


def place_files(attempt: Attempt) -> tuple[str, ...]:
    """Writes the private files and those in the folder (never over an existing one); the paths to remove at the end."""
    files = attempt.launch.files
    beside = {name: text.encode() for name, text in attempt.launch.folder_files.items()}
    scratch = attempt.walled.scratch if attempt.walled else ""
    if not (files or beside or scratch):
        return ()
    in_folder = {os.path.join(attempt.turn.folder, name): data for name, data in beside.items()}
    placed: list[str] = []
    behind = {scratch + LOGINS: b"", scratch: b""} if scratch else {}
    fleeting = attempt.walled.fleeting if attempt.walled else ()
    noted = note(attempt.state, {**behind, **files, **in_folder}, folders=fleeting)
    try:
        if attempt.walled:
            placed += _behind_wall(attempt.walled, attempt.agent.name)
        for path, data in files.items():
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_private(path, data)
            placed.append(path)
        for name, data in beside.items():
            placed.append(str(create_exclusive(attempt.turn.folder, name, data)))
    except BaseException:
        remove_files((*placed, noted))
        raise
    return (*placed, noted)


def place_wall(attempt: Attempt) -> tuple[str, ...]:
    """What has to be there before its wall is built, without the launch's files; the paths to remove at the end."""
    launch = structs.replace(attempt.launch, files={}, folder_files={})
    return place_files(structs.replace(attempt, launch=launch))


def _behind_wall(walled: "Walled", agent: str) -> list[str]:
    """Makes what has to be there before a wall is built; what of it goes at the end. Raises denied."""
    try:
        os.makedirs(walled.scratch, mode=0o700)
        for folder in (*walled.folders, *walled.fleeting):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        for file in walled.files:
            os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
            os.close(os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if walled.shadow is None:
            return [walled.scratch, *walled.fleeting]
        from ostler.work.shadows import lend, make_shadow

        make_shadow(walled.shadow)
        lent = lend(walled.shadow, walled.scratch)
    except OSError as error:
        remove_files((walled.scratch,))
        why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        hint = f"Nothing was started. {agent} must be able to write there; see `ostler doctor`"
        raise OstlerError("denied", f"cannot build the wall around {agent}: {why}", hint) from error
    return [*([lent] if lent else []), walled.scratch, *walled.fleeting]  # a login is brought back before its copy goes
