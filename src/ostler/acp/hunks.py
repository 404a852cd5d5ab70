"""Unified diffs as ACP has them: the old and the new text of each passage. Pure."""

import os
import re
from typing import Any

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def diffs_of(diff: str, folder: str) -> list[dict[str, Any]]:
    """One for each passage; `oldText` is absent for a new file. What is no diff gives none."""
    found: list[dict[str, Any]] = []
    old = new = ""
    lines = _LINE.findall(diff)
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("--- ") and number < len(lines) and lines[number].startswith("+++ "):
            old, new = _name(line), _name(lines[number])
            number += 1
        elif (hunk := _HUNK.match(line)) and (old or new):
            size_before, size_after = (int(part) if part is not None else 1 for part in (hunk[2], hunk[4]))
            before, after, number = _passage(lines, number, size_before, size_after)
            path, fresh = os.path.join(folder, new or old), not old or hunk[1] == "0"
            found.append({"type": "diff", "path": path, **({} if fresh else {"oldText": before}), "newText": after})
    return found


def _passage(lines: list[str], number: int, before: int, after: int) -> tuple[str, str, int]:
    """The texts of a hunk, counted by its head: a line of the text may look like a head itself."""
    old: list[str] = []
    new: list[str] = []
    last = ""
    while number < len(lines) and (len(old) < before or len(new) < after or lines[number].startswith("\\")):
        line = lines[number]
        mark, text = (" ", line) if line[0] in "\r\n" else (line[0], line[1:])  # an empty line may lose its mark
        if mark not in "-+ \\":
            break
        number += 1
        if mark == "\\":  # no newline at the end of the side that came last
            for side in (old, new) if last == " " else (old,) if last == "-" else (new,):
                side[-1:] = [side[-1].removesuffix("\n")] if side else []
            continue
        last = mark
        if mark in "- ":
            old.append(text)
        if mark in "+ ":
            new.append(text)
    return "".join(old), "".join(new), number


def _name(head: str) -> str:
    """The path of a `---` or `+++` line; empty for /dev/null."""
    path = head[4:].partition("\t")[0].rstrip("\r\n")
    return "" if path == "/dev/null" else re.sub(r"^[ab]/", "", path)
