"""The files of a terminal: its recording, and the screen it ended with. Imports little: every turn has one."""

from pathlib import Path

from ostler.store.files import private_folder, session_folder
from ostler.terminal.cast import CastWriter
from ostler.words import TerminalRow


def recording_path(store_folder: Path, row: TerminalRow) -> Path:
    """Where the recording of a terminal goes; its folders are made."""
    private_folder(store_folder / "sessions")
    top = private_folder(session_folder(store_folder, row.session))
    return private_folder(top / "terminals") / f"{row.id}.cast"


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
