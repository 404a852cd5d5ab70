"""What an edit would change, out of the input of a tool call that has not run yet."""

from typing import Any

from ostler.agents.paths import relative_to
from ostler.agents.tool_input import paths_in
from ostler.agents.values import tables, text
from ostler.model import FileChange


def proposed(input: dict[str, Any], folder: str) -> tuple[tuple[FileChange, ...], str]:
    """The file that an edit is about, and its change as a diff; nothing for what is no edit.

    Line numbers are those of the passage: where it stands in the file is not known here.
    """
    path = next(iter(paths_in(input)), "")
    pieces = _pieces(input)
    if not path or not pieces:
        return (), ""
    shown = relative_to(path, folder)
    adds = all(old is None for old, _ in pieces)
    changes = (FileChange(path=path, change="add" if adds else "update"),)
    return changes, "".join(unified(shown, old, new) for old, new in pieces)


def unified(path: str, old: str | None, new: str) -> str:
    """A change as a unified diff; `old` None is a new file."""
    import difflib  # of all turns few come here

    before, after = (old or "").splitlines(), new.splitlines()
    name = "/dev/null" if old is None else f"a/{path}"
    return "".join(f"{line}\n" for line in difflib.unified_diff(before, after, name, f"b/{path}", lineterm=""))


def _pieces(input: dict[str, Any]) -> list[tuple[str | None, str]]:
    """What stands in for what; None for a new file, which an edit of nothing makes."""
    edits = tables(input.get("edits")) or [input]
    if any("old_string" in edit or "oldString" in edit for edit in edits):
        pieces = [
            (text(e.get("old_string", e.get("oldString"))), text(e.get("new_string", e.get("newString"))))
            for e in edits
        ]
        return list(pieces) if any(old for old, _ in pieces) else [(None, new) for _, new in pieces]
    content = input.get("content", input.get("new_source"))
    return [("", content)] if isinstance(content, str) else []  # whether there is such a file is not known here
