"""What changed in a folder that is in no git repository: a bounded snapshot, then a second look."""

import difflib
import os
import stat
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from msgspec import Struct

from ostler.words import FileChange
from ostler.work.diff_words import Bounds, Deadline, Diff, Skipped

SKIPPED_FOLDERS = frozenset({".git", "node_modules", ".venv"})
LOOKED_FOR_ZERO = 8000  # bytes at the start in which a zero byte means binary, as git has it
QUICK = 4_000_000  # pairs of lines that difflib compares in bearable time
NO_NEWLINE = "\\ No newline at end of file\n"


class Seen(Struct, frozen=True):
    """A file as it was. Text lies in the snapshot's file from `start` on; binary content is not kept."""

    mark: tuple[int, ...]  # mode, size, inode and times: equal means unchanged
    start: int = -1
    size: int = 0
    link: str | None = None


class Snapshot(Struct, frozen=True, kw_only=True):
    folder: str
    contents: str  # the file that holds the text of all files, one after the other
    exclude: frozenset[str]
    files: dict[str, Seen]


def look(folder: str, scratch: str, exclude: frozenset[str], bounds: Bounds) -> Snapshot:
    """Remember every file. Raises Skipped beyond the bounds."""
    deadline, contents, total = Deadline(bounds.plain_seconds), os.path.join(scratch, "contents"), 0
    files: dict[str, Seen] = {}
    with open(os.open(contents, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as kept:
        for path, info in walk(folder, exclude, deadline, bounds):
            if stat.S_ISLNK(info.st_mode):
                files[path] = Seen(mark(info), link=read_link(os.path.join(folder, path)))
                continue
            text = read_text(os.path.join(folder, path), bounds.plain_bytes - total)
            start = -1 if text is None else kept.tell()
            kept.write(text or b"")
            total += len(text or b"")
            files[path] = Seen(mark(info), start, len(text or b""))
    return Snapshot(folder=folder, contents=contents, exclude=exclude, files=files)


def compare(before: Snapshot, bounds: Bounds) -> Diff:
    """The changes since the snapshot. Raises Skipped beyond the bounds."""
    deadline = Deadline(bounds.plain_seconds)
    now = dict(walk(before.folder, before.exclude, deadline, bounds)) if os.path.isdir(before.folder) else {}
    texts: list[str] = []
    changes: list[FileChange] = []
    with open(before.contents, "rb") as kept:
        for path in sorted({*before.files, *now}, key=os.fsencode):
            old, info = before.files.get(path), now.get(path)
            if old is not None and info is not None and old.mark == mark(info):
                continue
            deadline.left()
            left = was(old, kept) if old is not None else None
            right = now_is(before.folder, path, info, bounds) if info is not None else None
            text = patch(path, left, right)
            if text is not None:
                changes.append(
                    FileChange(
                        path=clean(path), change="add" if left is None else "delete" if right is None else "update"
                    )
                )
                texts.append(text)
    whole = "".join(texts)
    if len(whole) > bounds.text:
        return Diff("", tuple(changes), f"the text of the diff is left out: it is over {bounds.text >> 20} MB")
    return Diff(whole, tuple(changes))


# -- reading ----------------------------------------------------------------------------------------


def walk(
    folder: str, exclude: frozenset[str], deadline: Deadline, bounds: Bounds
) -> Iterator[tuple[str, os.stat_result]]:
    """Regular files and symlinks (not followed) below a folder, by relative path."""
    count, waiting = 0, [""]
    while waiting:
        deadline.left()
        here = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(folder, here)))
        except OSError:
            continue
        for entry in entries:
            path = os.path.join(here, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED_FOLDERS:
                    waiting.append(path)
            elif path not in exclude and (info := told(entry)) is not None:
                count += 1
                if count > bounds.plain_files:
                    raise Skipped(f"no diff: the folder has more than {bounds.plain_files:,} files and is not in git")
                yield path, info


def told(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return info if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode) else None


def mark(info: os.stat_result) -> tuple[int, ...]:
    return info.st_mode, info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns


def read_text(path: str, room: int) -> bytes | None:
    """The content, or None for what is binary or cannot be read. Raises Skipped when it is more than `room`."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            start = file.read(LOOKED_FOR_ZERO)
            if b"\0" in start:
                return None
            text = start + file.read(max(room - len(start), 0) + 1)
    except OSError:
        return None
    if len(text) > room:
        raise Skipped("no diff: the folder has too much text and is not in git")
    return text


def read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


# -- printing ---------------------------------------------------------------------------------------


class Version(Struct, frozen=True):
    """A file on one side of the diff; `text` is None where it is binary."""

    mode: str
    text: bytes | None
    mark: tuple[int, ...]


def was(old: Seen, kept: BinaryIO) -> Version:
    if old.link is not None:
        return Version("120000", os.fsencode(old.link), old.mark)
    if old.start < 0:
        return Version(mode_of(old.mark[0]), None, old.mark)
    kept.seek(old.start)
    return Version(mode_of(old.mark[0]), kept.read(old.size), old.mark)


def now_is(folder: str, path: str, info: os.stat_result, bounds: Bounds) -> Version:
    full = os.path.join(folder, path)
    if stat.S_ISLNK(info.st_mode):
        return Version("120000", os.fsencode(read_link(full)), mark(info))
    return Version(mode_of(info.st_mode), read_text(full, bounds.plain_bytes), mark(info))


def mode_of(mode: int) -> str:
    return "100755" if mode & stat.S_IXUSR else "100644"


def patch(path: str, old: Version | None, new: Version | None) -> str | None:
    """One file's part of the diff, in git's manner; None where its content and mode are the same."""
    same_text = old is not None and new is not None and old.text is not None and old.text == new.text
    if old is not None and new is not None and same_text and old.mode == new.mode:
        return None
    name = clean(path)
    lines = [f"diff --git a/{name} b/{name}\n"]
    if old is None or new is None:
        word, mode = ("new", new.mode) if new is not None else ("deleted", old.mode if old is not None else "")
        lines.append(f"{word} file mode {mode}\n")
    elif old.mode != new.mode:
        lines += [f"old mode {old.mode}\n", f"new mode {new.mode}\n"]
    if same_text:
        return "".join(lines)
    left = f"a/{name}" if old is not None else "/dev/null"
    right = f"b/{name}" if new is not None else "/dev/null"
    if (old is not None and old.text is None) or (new is not None and new.text is None):
        return "".join([*lines, f"Binary files {left} and {right} differ\n"])
    before, after = split(old), split(new)
    return "".join(chain(lines, unified(before, after, left, right)))


def split(version: Version | None) -> list[str]:
    """The lines with their ends, broken at newlines alone."""
    text = (version.text or b"" if version is not None else b"").decode("utf-8", "replace")
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def unified(before: list[str], after: list[str], left: str, right: str) -> Iterator[str]:
    """A unified diff. Where comparing line by line would take too long, all lines are replaced."""
    if len(before) * len(after) > QUICK and len(before) + len(after) - 2 * shared(before, after) > 4000:
        made: Iterator[str] = chain(
            (f"--- {left}\n", f"+++ {right}\n", f"@@ -1,{len(before)} +1,{len(after)} @@\n"),
            ("-" + line for line in before),
            ("+" + line for line in after),
        )
    else:
        made = difflib.unified_diff(before, after, left, right)
    for line in made:
        yield line if line.endswith("\n") else line + "\n" + NO_NEWLINE


def shared(before: list[str], after: list[str]) -> int:
    """How many lines at both ends are the same."""
    least = min(len(before), len(after))
    head = next((i for i in range(least) if before[i] != after[i]), least)
    tail = next((i for i in range(least - head) if before[-1 - i] != after[-1 - i]), least - head)
    return head + tail


def clean(path: str) -> str:
    """A file name that can be written as UTF-8, whatever bytes it has."""
    return os.fsencode(path).decode("utf-8", "replace")
