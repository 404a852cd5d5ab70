"""The files of a terminal: its recording, and the screen it ended with. Imports little: every turn has a terminal."""

from pathlib import Path
from typing import TYPE_CHECKING

from ostler.model import TerminalRow
from ostler.store.files import session_folder, turn_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.terminal.cast import CastWriter

_FOLDER = "terminals"


def recording_path(store_folder: Path, row: TerminalRow) -> str:
    """Where the recording of a terminal goes; its folder need not exist."""
    return f"{session_folder(store_folder, row.session)}/{_FOLDER}/{row.id}.cast"


def new_recording(
    store_folder: Path,
    row: TerminalRow,
    limit_mb: float,
    *,
    path: str = "",
    clock: "Callable[[], float] | None" = None,
) -> "CastWriter":
    """A recording that is begun, in a folder that is made if it is missing. `path`: elsewhere than the row says."""
    from ostler.terminal.cast import CastWriter

    turn_path(store_folder, row.session, _FOLDER)
    return CastWriter(
        path or row.recording,
        cols=row.cols,
        rows=row.rows,
        title=row.name,
        limit_bytes=int(limit_mb * (1 << 20)),
        timestamp=round(row.created_at, 3),
        **({"clock": clock} if clock else {}),
    )


def remove_files(row: TerminalRow) -> None:
    if row.recording:
        for path in (Path(row.recording), part_path(row), screen_path(row)):
            path.unlink(missing_ok=True)


def screen_path(row: TerminalRow) -> Path:
    return Path(row.recording).with_suffix(".screen")


def part_path(row: TerminalRow) -> Path:
    """What was drawn of a turn that was not over."""
    return Path(row.recording).with_suffix(".part")
