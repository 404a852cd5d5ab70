"""The files of a terminal: its recording, and the screen it ended with. Imports little: every turn has one."""

from pathlib import Path

from ostler.model import TerminalRow
from ostler.store.files import turn_path
from ostler.terminal.cast import CastWriter


def recording_path(store_folder: Path, row: TerminalRow) -> str:
    """Where the recording of a terminal goes; its folders are made."""
    return f"{turn_path(store_folder, row.session, 'terminals')}/{row.id}.cast"


def new_recording(row: TerminalRow, limit_mb: float) -> CastWriter:
    return CastWriter(
        row.recording,
        cols=row.cols,
        rows=row.rows,
        title=row.name,
        limit_bytes=int(limit_mb * (1 << 20)),
        timestamp=round(row.created_at, 3),
    )


def remove_files(row: TerminalRow) -> None:
    if row.recording:
        for path in (Path(row.recording), screen_path(row)):
            path.unlink(missing_ok=True)


def screen_path(row: TerminalRow) -> Path:
    return Path(row.recording).with_suffix(".screen")
