"""What an edit would change, out of the input of a tool call that has not run yet."""

import difflib
from typing import Any

from ostler.agents.values import tables, text
from ostler.words import FileChange

_PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")


def proposed(input: dict[str, Any], folder: str) -> tuple[tuple[FileChange, ...], str]:
    """The file that an edit is about, and its change as a diff; nothing for what is no edit.

    Line numbers are those of the passage: where it stands in the file is not known here.
    """
    path = next((found for name in _PATHS if (found := text(input.get(name)))), "")
    pieces = _pieces(input)
    if not path or not pieces:
        return (), ""
    shown = path.removeprefix(folder.rstrip("/") + "/")
    return (FileChange(path=path),), "".join(unified(shown, old, new) for old, new in pieces)


def inside(path: str, folder: str) -> bool:
    """Whether an absolute path lies in the folder, as far as it can be told without looking."""
    return path.startswith(folder.rstrip("/") + "/") and ".." not in path.split("/")


def unified(path: str, old: str | None, new: str) -> str:
    """A change as a unified diff; `old` None is a new file."""
    before, after = (old or "").splitlines(), new.splitlines()
    name = "/dev/null" if old is None else f"a/{path}"
    return "".join(f"{line}\n" for line in difflib.unified_diff(before, after, name, f"b/{path}", lineterm=""))


def _pieces(input: dict[str, Any]) -> list[tuple[str | None, str]]:
    edits = tables(input.get("edits")) or [input]
    if any("old_string" in edit or "oldString" in edit for edit in edits):
        return [
            (text(e.get("old_string", e.get("oldString"))), text(e.get("new_string", e.get("newString"))))
            for e in edits
        ]
    content = input.get("content", input.get("new_source"))
    return [(None, content)] if isinstance(content, str) else []
