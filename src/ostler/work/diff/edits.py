"""Diffs for file edits whose agent names the paths only (codex)."""

import asyncio
import difflib
import logging
import os

from msgspec import structs

from ostler.model import AnyEvent, ToolEnded
from ostler.work.diff.compare import Before
from ostler.work.diff.diff import Deadline, Skipped
from ostler.work.diff.git import GitFailed

_LIMIT = 512 * 1024

_log = logging.getLogger(__name__)


class Edits:
    """Remembers the last known text of each edited file, so that every edit shows its own diff."""

    def __init__(self, folder: str, before: Before) -> None:
        self._folder = folder
        self._before = before
        self._known: dict[str, str] = {}

    async def with_diffs(self, events: list[AnyEvent]) -> list[AnyEvent]:
        if not any(_wants(event) for event in events):
            return events
        return await asyncio.to_thread(lambda: [self._with_diff(event) for event in events])

    def _with_diff(self, event: AnyEvent) -> AnyEvent:
        if not isinstance(event, ToolEnded) or not _wants(event):
            return event
        return structs.replace(event, diff="".join(self._edit(change.path) for change in event.files))

    def _edit(self, path: str) -> str:
        relative = os.path.relpath(os.path.join(self._folder, path), self._folder)
        if relative.split("/", 1)[0] == "..":
            return ""
        old = self._known.get(relative)
        if old is None:
            old = _text_before(self._before, relative)
        new = _text(os.path.join(self._folder, relative))
        self._known[relative] = new
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{relative}", f"b/{relative}"
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _wants(event: AnyEvent) -> bool:
    return isinstance(event, ToolEnded) and bool(event.files) and not event.diff and event.ok


def _text_before(before: Before, path: str) -> str:
    """The text a file had when the turn began; empty where there was none."""
    if before.tree is None:
        return ""
    name = os.path.join(before.tree.scope, path)
    try:
        git = before.tree.git.seeing_objects()
        return git.run(Deadline(5.0), "cat-file", "blob", f":{name}", limit=_LIMIT).text()
    except (OSError, GitFailed, Skipped) as error:
        _log.debug("what %s was before cannot be read: %s", path, error)
        return ""


def _text(path: str) -> str:
    try:
        if os.path.islink(path) or os.path.getsize(path) > _LIMIT:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
