"""Diffs and changed files, out of the structured results of claude's tools."""

from typing import Any

from ostler.agents.paths import relative_to
from ostler.agents.values import items, number, table, tables, text
from ostler.model import FileChange


def files_of(detail: dict[str, Any]) -> tuple[FileChange, ...]:
    """The files that a tool result says it changed."""
    return tuple(
        FileChange(path=path, change="add" if created else "update") for path, created, _ in _changes(detail) if path
    )


def diff_of(detail: dict[str, Any], folder: str) -> str:
    """The changes of a tool result as a unified diff, paths relative to the folder; "" if there are none."""
    return "".join(_unified(relative_to(path, folder), created, hunks) for path, created, hunks in _changes(detail))


def _changes(detail: dict[str, Any]) -> list[tuple[str, bool, list[dict[str, Any]]]]:
    """(path, created, hunks) of an edit, of a new file, or of what a command did to files."""
    if "structuredPatch" in detail:
        hunks = tables(detail["structuredPatch"])
        created = detail.get("type") == "create"
        if created and not hunks:
            hunks = [_added(text(detail.get("content")))]
        return [(text(detail.get("filePath")), created, hunks)]
    return [
        (text(file.get("filePath")), bool(file.get("created")), tables(file.get("hunks")))
        for file in tables(table(detail.get("bashEditDiff")).get("files"))
    ]


def _added(content: str) -> dict[str, Any]:
    lines = ["+" + line for line in content.splitlines()]
    return {"oldStart": 0, "oldLines": 0, "newStart": 1 if lines else 0, "newLines": len(lines), "lines": lines}


def _unified(path: str, created: bool, hunks: list[dict[str, Any]]) -> str:
    body = "".join(_hunk(hunk) for hunk in hunks)
    if not body:
        return ""
    return f"--- {'/dev/null' if created else f'a/{path}'}\n+++ b/{path}\n{body}"


def _hunk(hunk: dict[str, Any]) -> str:
    old = f"-{number(hunk.get('oldStart')) or 0},{number(hunk.get('oldLines')) or 0}"
    new = f"+{number(hunk.get('newStart')) or 0},{number(hunk.get('newLines')) or 0}"
    lines = "".join(f"{text(line)}\n" for line in items(hunk.get("lines")))
    return f"@@ {old} {new} @@\n{lines}" if lines else ""
