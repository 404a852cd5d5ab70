"""A terminal whose program is gone: its last screen, its text, and viewers that come too late."""

from collections.abc import AsyncIterator

from msgspec import structs

from ostler.terminal.lease import Author
from ostler.terminal.screen import Screens
from ostler.terminal.screen_words import Snapshot
from ostler.terminal.shot import shot_of
from ostler.terminal.viewing import Frame, Gone, Hello, Rights, Shown, told
from ostler.words import TerminalRow
from ostler.work.terminal_files import kept_screen, recorded_text


class EndedTerminal:
    """From what was kept of it on disk, whichever process it lived in."""

    def __init__(self, row: TerminalRow, screens: Screens) -> None:
        self.row = row
        self._screens = screens

    async def snapshot(self, history: bool = False) -> Snapshot:
        return (await kept_screen(self.row, self._screens)).snapshot(history)

    async def text(self, limit: int | None = None) -> str:
        return await recorded_text(self.row, limit)

    async def view(self, author: Author, rights: Rights, offset: int | None) -> "EndedViewing":
        return EndedViewing(self.row, author, rights, await self.snapshot(history=True), offset)


class EndedViewing:
    """The last screen with its scrollback, then `exit`; a viewer that has seen all of it gets `exit` alone."""

    def __init__(self, row: TerminalRow, author: Author, rights: Rights, last: Snapshot, offset: int | None) -> None:
        resumed = offset is not None and offset == last.offset
        hello = Hello(terminal=row, viewer=author.id, rights=rights, resumed=resumed)
        gone = Gone(exit=row.exit, offset=last.offset)
        self._frames = [told(hello), *([] if resumed else [told(shown(last))]), told(gone)]

    async def frames(self) -> AsyncIterator[Frame]:
        while self._frames:
            yield self._frames.pop(0)

    def hear(self, frame: Frame) -> None:
        """There is nothing that it could change."""

    async def close(self) -> None:
        self._frames.clear()


def shown(last: Snapshot) -> Shown:
    """A last screen: nothing follows that could complete half a character at its end."""
    return structs.replace(shot_of(last, resizes=0, history=True).shown, offset=last.offset)
