"""What is known of each session's pane: a private file, so that whichever ostler comes next finds it again."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from ostler.process import tree
from ostler.process.tmux import TmuxPlace
from ostler.store.files import private_folder, write_private

Shows = Literal["tui", "output"]


class Bookmark(Struct, frozen=True, kw_only=True):
    """Where the records of a turn begin in the file of its conversation."""

    path: str | None = None
    offset: int = 0
    others: tuple[str, ...] = ()  # files that were there before


class PaneNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pane: where it is, whose, and how far its last turn had come when it began."""

    session: str
    agent: str
    place: TmuxPlace
    pane: str
    pid: int  # of its warden
    start_time: int
    boot_id: str
    mark: str
    shows: Shows
    made_for: str = ""  # of what it was started with, a hash
    placed: tuple[str, ...] = ()  # files that go with it
    turn: str = ""  # the last one that ran in it
    bookmark: Bookmark = Bookmark()
    used_at: float = 0.0

    @property
    def lives(self) -> bool:
        return self.boot_id == tree.boot_id() and not tree.gone(self.pid, self.start_time)


class PaneNotes:
    """The notes of a state folder."""

    def __init__(self, state: str | Path) -> None:
        self.folder = Path(state) / "tmux"

    def make_folder(self, session: str) -> Path:
        """The pane's own folder, private."""
        return private_folder(private_folder(private_folder(self.folder) / "panes") / session)

    def pane_folder(self, session: str) -> Path:
        return self.folder / "panes" / session

    def get(self, session: str) -> PaneNote | None:
        try:
            return msgspec.json.decode((self.pane_folder(session) / "pane.json").read_bytes(), type=PaneNote)
        except (OSError, msgspec.MsgspecError):
            return None  # there is none, or another version wrote it

    def put(self, note: PaneNote) -> PaneNote:
        write_private(self.pane_folder(note.session) / "pane.json", msgspec.json.encode(note))
        return note

    def change(self, session: str, **fields: object) -> PaneNote | None:
        note = self.get(session)
        return self.put(structs.replace(note, **fields)) if note is not None else None

    def remove(self, session: str) -> None:
        import shutil  # which no turn without a pane needs

        shutil.rmtree(self.pane_folder(session), ignore_errors=True)

    def all(self) -> Iterator[PaneNote]:
        for name in self.names():
            if (note := self.get(name)) is not None:
                yield note

    def names(self) -> list[str]:
        """Of all sessions that have a folder here."""
        with suppress(OSError):  # no pane was ever made
            return sorted(os.listdir(self.folder / "panes"))
        return []
