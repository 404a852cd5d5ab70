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
    from ostler.work.walls import Enclosure


def place_files(attempt: Attempt) -> tuple[str, ...]:
    """Writes the private files and those in the folder (never over an existing one); the paths to remove at the end."""
    files = attempt.launch.files
    beside = {name: text.encode() for name, text in attempt.launch.folder_files.items()}
    scratch = attempt.enclosure.scratch if attempt.enclosure else ""
    if not (files or beside or scratch):
        return ()
    in_folder = {os.path.join(attempt.turn.folder, name): data for name, data in beside.items()}
    placed: list[str] = []
    behind = {scratch + LOGINS: b"", scratch: b""} if scratch else {}
    fleeting = attempt.enclosure.fleeting if attempt.enclosure else ()
    noted = note(attempt.state, {**behind, **files, **in_folder}, folders=fleeting)
    try:
        if attempt.enclosure:
            placed += _enclose(attempt.enclosure, attempt.agent.name)
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


def _enclose(enclosure: "Enclosure", agent: str) -> list[str]:
    """Makes what has to be there before a wall is built; what of it goes at the end. Raises denied."""
    try:
        os.makedirs(enclosure.scratch, mode=0o700)
        for folder in (*enclosure.folders, *enclosure.fleeting):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        for file in enclosure.files:
            os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
            os.close(os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if enclosure.shadow is None:
            return [enclosure.scratch, *enclosure.fleeting]
        from ostler.work.shadows import lend, make_shadow

        make_shadow(enclosure.shadow)
        lent = lend(enclosure.shadow, enclosure.scratch)
    except OSError as error:
        remove_files((enclosure.scratch,))
        what = f"build the wall around {agent}" if enclosure.wall else f"prepare a private state folder for {agent}"
        why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        hint = f"Nothing was started. {agent} must be able to write there; see `ostler doctor`"
        raise OstlerError("denied", f"cannot {what}: {why}", hint) from error
    # What is brought back is so before its copy goes.
    return [*([lent] if lent else []), enclosure.scratch, *enclosure.fleeting]
