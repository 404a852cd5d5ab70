"""What a project folder holds for an agent: settings, hooks, plugins, MCP servers. Read as if an enemy had written it.

The names come from the adapter. Here they are looked for in the folder and in those above it, up to the git root,
and hashed: trust is for a content. The user's own home folder is left out: what is there is the user's.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from ostler.agents import Agent
from ostler.errors import OstlerError
from ostler.settings.trust import FolderAnswers, record_answer
from ostler.work.project_config_kinds import Kinds, described, kinds_of

MAX_FILES, MAX_BYTES, MAX_DEPTH = 2_000, 8 * 1024 * 1024, 8
MAX_TEXT = 128 * 1024  # of all instructions together
IMPORT = r"(?<![\w@`/.])@((?:\.{1,2}/)*[\w][\w./-]*)"


class ConfigPlace(Struct, frozen=True, kw_only=True):
    """A folder that holds something for an agent."""

    folder: str
    names: tuple[str, ...]  # what it holds, relative to it
    digest: str  # of all of it; "" where it cannot be vouched for
    problem: str = ""  # why not
    kinds: Kinds = {}


class ProjectConfig(Struct, frozen=True, kw_only=True):
    """All that a folder and those above it hold for an agent, and whether the user trusts it."""

    levels: tuple[str, ...]  # the folder and those above it, up to the git root
    places: tuple[ConfigPlace, ...] = ()
    trusted: bool = False  # by the user, all of it, as it is now
    answered: bool = False  # the user has said yes or no to all of it
    changed: bool = False  # the user trusted something else that was there before

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(os.path.join(place.folder, name) for place in self.places for name in place.names)

    def described(self) -> str:
        """`2 hooks, 1 MCP server (.claude/settings.json, .mcp.json)`."""
        kinds: Kinds = {}
        for place in self.places:
            kinds = {**kinds, **{kind: kinds.get(kind, 0) + count for kind, count in place.kinds.items()}}
        return described(kinds, [os.path.relpath(path, self.levels[0]) for path in self.paths])


def no_project_config(folder: str, agent: Agent, home: str) -> ProjectConfig | None:
    """Quick: what `read_project_config` returns where there is nothing at all to look at; else None."""
    above = _above(folder, home)
    if any(_has_any(level, (agent.project_config, agent.project_config_above)) for level in above):
        return None
    return ProjectConfig(levels=_levels(above) or (os.path.realpath(folder),), answered=True)


def _has_any(folder: str, groups: tuple[tuple[str, ...], ...]) -> bool:
    """Most folders have none of them: of `.claude/a` and `.claude/b`, `.claude` is looked for first."""
    return any(
        os.path.lexists(f"{folder}/{top}") and any(os.path.lexists(f"{folder}/{name}") for name in names)
        for top, names in _by_first_part(groups)
    )


@cache
def _by_first_part(groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for name in (name for names in groups for name in names):
        top = name.partition("/")[0]
        found[top] = (*found.get(top, ()), name)
    return tuple(found.items())


def read_project_config(folder: str, agent: Agent, home: str, answers: FolderAnswers) -> ProjectConfig:
    """What the folder holds for the agent, and what the user said of it."""
    above = _above(folder, home)
    levels = _levels(above) or (os.path.realpath(folder),)
    in_git = _is_git_root(levels[-1])
    places = []
    for level in above:
        counts = agent.project_config if level in levels or (agent.without_git and not in_git) else ()
        root = levels[-1] if in_git and level in levels else level  # links may lead no further
        places.append(_place(level, (*counts, *agent.project_config_above), agent.installs, root))
    found = tuple(place for place in places if place is not None)
    said = [answers(place.folder, place.digest) for place in found]
    return ProjectConfig(
        levels=levels,
        places=found,
        trusted=bool(found) and all(answer == "yes" for answer in said),
        answered=all(answer in ("yes", "no") for answer in said),
        changed="other" in said,
    )


def remember_answer(config: ProjectConfig, agent: Agent, list_file: str, trusted: bool) -> None:
    """Keeps the user's answer to what a folder holds for the agent, as it is now."""
    for place in config.places:
        if place.digest:
            record_answer(list_file, place.folder, agent.name, place.digest, trusted)


def _levels(above: list[str]) -> tuple[str, ...]:
    """Up to the git root; all of them where that is the home folder, or above it."""
    at = next((n for n, level in enumerate(above) if _is_git_root(level)), None)
    if at is None:
        at = len(above) - 1 if above and _is_in_git(os.path.dirname(above[-1])) else 0
    return tuple(above[: at + 1])


def _above(folder: str, home: str) -> list[str]:
    """The folder and all above it; none from the home folder on."""
    level, home, found = os.path.realpath(folder), _real_home(home), list[str]()
    while level != home:
        found.append(level)
        if level == os.path.dirname(level):
            break
        level = os.path.dirname(level)
    return found


@cache
def _real_home(home: str) -> str:
    return os.path.realpath(home)


def _is_git_root(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, ".git"))


def _is_in_git(folder: str) -> bool:
    return _is_git_root(folder) or (folder != os.path.dirname(folder) and _is_in_git(os.path.dirname(folder)))


# -- one folder -------------------------------------------------------------------------------------


def _place(folder: str, names: tuple[str, ...], installs: tuple[str, ...], root: str) -> ConfigPlace | None:
    present = tuple(dict.fromkeys(name for name in names if _holds_something(folder, name, installs)))
    if not present:
        return None
    reading = _FolderReading(root, installs)
    for name in present:
        reading.take(os.path.relpath(os.path.join(folder, name), root), name)
    return ConfigPlace(
        folder=folder, names=present, digest=reading.digest(), problem=reading.problem, kinds=dict(reading.kinds)
    )


def _holds_something(folder: str, name: str, installs: tuple[str, ...]) -> bool:
    """Whether anything is there. Folders without a file hold nothing; a link, or what cannot be read, may."""
    path, installed = os.path.join(folder, name), {os.path.join(folder, each) for each in installs}
    if not os.path.isdir(path) or os.path.islink(path):
        return os.path.lexists(path)
    try:
        for number, (at, folders, files) in enumerate(os.walk(path, onerror=_raise)):
            folders[:] = [each for each in folders if os.path.join(at, each) not in installed]
            linked = any(os.path.islink(os.path.join(at, each)) for each in folders)
            if linked or number > MAX_FILES or any(os.path.join(at, each) not in installed for each in files):
                return True
    except OSError:
        return True
    return False


def _raise(error: OSError) -> None:
    raise error


class _FolderReading:
    """Reads and hashes what one folder holds, within bounds."""

    def __init__(self, root: str, installs: tuple[str, ...]) -> None:
        from hashlib import sha256  # takes a while, and most folders hold nothing

        self.root = root
        self._installs = installs
        self.problem = ""
        self.kinds: Kinds = {}
        self._sha256 = sha256
        self._hash = sha256()
        self._files, self._bytes = 0, 0

    def digest(self) -> str:
        return "" if self.problem else self._hash.hexdigest()

    def take(self, path: str, name: str, depth: int = 0) -> None:
        self._files += 1
        if self._files > MAX_FILES or depth > MAX_DEPTH:
            self.problem = self.problem or f"{name} holds more files than ostler looks at"
        if self.problem:
            return
        from ostler.store.beneath import open_beneath

        try:
            descriptor = open_beneath(self.root, path)
        except (OstlerError, OSError):
            self.problem = f"{name} cannot be read as a file of this folder"
            return
        with open(descriptor, "rb", closefd=True) if _is_file(descriptor) else _folder(descriptor) as opened:
            if isinstance(opened, list):
                self._add(name, b"folder")
                for entry in opened:
                    if f"{name}/{entry}" not in self._installs:
                        self.take(f"{path}/{entry}", f"{name}/{entry}", depth + 1)
                return
            data = opened.read(MAX_BYTES - self._bytes + 1)
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            self.problem = f"{name} is larger than ostler looks at"
            return
        self._add(name, data)
        for kind, count in kinds_of(name, data).items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count

    def _add(self, name: str, data: bytes) -> None:
        self._hash.update(self._sha256(os.fsencode(name)).digest() + self._sha256(data).digest())


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


@contextlib.contextmanager
def _folder(descriptor: int) -> Iterator[list[str]]:
    """The names in an open folder, at most one more than are looked at."""
    try:
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MAX_FILES + 1), strict=False)]
        yield sorted(names)
    finally:
        os.close(descriptor)


# -- instructions -----------------------------------------------------------------------------------


class Instructions(Struct, frozen=True):
    """What a folder tells an agent; `cut` names the files of which a part, or all, was left out."""

    text: str = ""
    cut: tuple[str, ...] = ()


def has_instructions(levels: tuple[str, ...], groups: tuple[tuple[str, ...], ...]) -> bool:
    """Quick: whether there is anything to read for `instructions`."""
    return any(_has_any(level, groups) for level in levels)


def instructions(levels: tuple[str, ...], groups: tuple[tuple[str, ...], ...]) -> Instructions:
    """The instructions that a folder and those above it hold for an agent, the nearest last.

    Of each group of names, the first that is there counts. What a text names by `@file` goes with it.
    """
    found: dict[str, str] = {}
    cut: list[str] = []
    for level in reversed(levels):
        for names in groups:
            present = next((name for name in names if os.path.lexists(os.path.join(level, name))), None)
            if present is not None:
                _read_text(levels[-1], os.path.relpath(os.path.join(level, present), levels[-1]), found, cut)
    texts = [f'<instructions file="{path}">\n{text.strip()}\n</instructions>' for path, text in found.items() if text]
    whole = "\n\n".join(["Instructions of this project, from its own files:", *texts]) if texts else ""
    return Instructions(whole, tuple(cut))


def _read_text(root: str, path: str, found: dict[str, str], cut: list[str], depth: int = 0) -> None:
    path = os.path.normpath(path)
    left = MAX_TEXT - sum(len(text) for text in found.values())
    if path in found or depth > 4:
        return
    from ostler.store.beneath import open_beneath  # most folders hold nothing to read

    try:
        descriptor = open_beneath(root, path)
    except (OstlerError, OSError):
        return
    if not _is_file(descriptor):
        with _folder(descriptor) as names:
            for name in (each for each in names if each.endswith(".md")):
                _read_text(root, f"{path}/{name}", found, cut, depth + 1)
        return
    with open(descriptor, "rb") as file:
        data, more = file.read(max(left, 0)), bool(file.read(1))
    if more:
        cut.append(path)
    if not data or b"\0" in data:
        return
    found[path] = data.decode("utf-8", "replace")
    for named in re.findall(IMPORT, found[path]):
        _read_text(root, os.path.join(os.path.dirname(path), named.rstrip(".")), found, cut, depth + 1)
