"""What changed in a folder, told by git without a trace in the user's .git; the folder need not be in a repository.

git runs with a git folder of ours: of the user's repository it sees the work tree, a copy of the index and, to
print a diff, the objects. Elsewhere the index begins empty. The user's configuration is not read, so its filters,
hooks, monitors and text converters cannot run. Plumbing only: `git add` and `git status` look into submodules with
*their* configuration. Objects are hashed without sight of the user's, or git would touch their times.
"""

import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from ostler.model import FileChange
from ostler.work.diff.diff import Bounds, Deadline, Diff, Skipped
from ostler.work.diff.git import Git, GitFailed

PLAIN_SETTINGS = {
    "core.filemode",
    "core.autocrlf",
    "core.eol",
    "core.ignorecase",
    "core.symlinks",
    "core.precomposeunicode",
    "index.sparse",
    "extensions.objectformat",
}  # what changes how files are compared, and executes nothing
IGNORED = ("--no-literal-pathspecs", "check-ignore", "-q", "--")  # it knows no literal ones
COPIED = ("info/exclude", "info/attributes")
NOT_LOOKED_AT = "node_modules/\n.venv/\n"  # outside of repositories, where nobody says what is to be ignored
NO_ATTRIBUTES = "* !text !eol !crlf !ident !filter !working-tree-encoding !diff\n"  # comes before any .gitattributes
CHANGES: dict[str, Literal["add", "delete", "move"]] = {"A": "add", "D": "delete", "R": "move"}

_log = logging.getLogger(__name__)


class WorkTree(Struct, frozen=True, kw_only=True):
    """One repository, or a folder in none, as it was: its private git folder holds the index of that moment."""

    top: str
    scope: str  # the part of it that is looked at, relative to `top`; "" is all
    shown: str  # what stands before its paths in the diff: "" or "nested/"
    git: Git
    exclude: frozenset[str]  # relative to `top`
    large: dict[str, tuple[int, int]]  # files too large to be shown → size and time
    nested: dict[str, "WorkTree"]  # by path relative to `top`
    missed: int = 0  # nested repositories that were not looked at
    alone: bool = False  # in no repository: no .gitignore or .gitattributes counts, and the bounds are tighter


def look(
    folder: str, scratch: str, exclude: frozenset[str], env: dict[str, str], bounds: Bounds, state: str = ""
) -> WorkTree:
    """The folder as part of its repository; by itself where there is none, or none that can tell what changed.

    Raises GitFailed when git is missing or fails, Skipped beyond the bounds.
    """
    try:
        deadline = Deadline(bounds.git_seconds)
        if (tree := in_repository(folder, scratch, exclude, env, deadline)) is not None:
            leave_out(tree.git, state)
            return remembered(tree, deadline, bounds, [bounds.nested])
    except GitFailed as error:  # a broken repository; without git, the next try fails as well
        _log.debug("%s is compared without its repository: %s", folder, error)
    git = private_git(scratch, folder, env)
    write(os.path.join(git.folder, "info/exclude"), NOT_LOOKED_AT)
    leave_out(git, state)
    write(os.path.join(git.folder, "info/attributes"), NO_ATTRIBUTES)
    tree = WorkTree(top=folder, scope="", shown="", git=git, exclude=exclude, large={}, nested={}, alone=True)
    return remembered(tree, Deadline(bounds.plain_seconds), bounds, [bounds.nested])


def compare(before: WorkTree, bounds: Bounds) -> Diff:
    """The changes of the work tree and of the repositories within it. Raises GitFailed, Skipped."""
    deadline = Deadline(bounds.plain_seconds if before.alone else bounds.git_seconds)
    return joined(list(_compared(before, deadline, bounds)), bounds)


def in_repository(
    folder: str, scratch: str, exclude: frozenset[str], env: dict[str, str], deadline: Deadline
) -> WorkTree | None:
    """The work tree around the folder; None where there is none, or it ignores the folder."""
    found = repository(folder)
    if found is None:
        return None
    top, gitdir = found
    scope = "" if top == folder else os.path.relpath(folder, top)
    git = repository_git(private_git(scratch, top, env), gitdir, deadline, seeded=True)
    if scope and git.run(deadline, *IGNORED, os.path.join(".", scope), ok=(0, 1)).code == 0:
        return None  # it would never show a change
    exclude = frozenset(os.path.join(scope, name) for name in exclude)
    return WorkTree(top=top, scope=scope, shown="", git=git, exclude=exclude, large={}, nested={})


def leave_out(git: Git, state: str) -> None:
    """ostler's own folder, where it lies in the work tree: each turn changes it, and no agent does."""
    inside = os.path.relpath(state, git.top) if state else "."
    if inside not in (".", "..") and not inside.startswith("../") and "\n" not in inside:
        with open(os.path.join(git.folder, "info/exclude"), "ab") as file:
            file.write(b"\n/" + os.fsencode(re.sub(r"([\\*?\[\]!# ])", r"\\\1", inside)) + b"/\n")


# -- looking ----------------------------------------------------------------------------------------


def remembered(tree: WorkTree, deadline: Deadline, bounds: Bounds, budget: list[int]) -> WorkTree:
    """Bring the private index up to the work tree, and look at the repositories within."""
    changed = changes(tree, deadline)
    paths, large = sizes(tree, [*changed.modified, *changed.untracked], bounds)
    tree.git.store(deadline, paths)
    within = sorted(p for p in {*changed.nested, *submodules(tree, deadline)} if inner_git_folder(tree, p))
    looked: dict[str, WorkTree] = {}
    for path in within:
        try:
            if budget[0] > 0 and (child := nested(tree, path, deadline, seeded=True)) is not None:
                budget[0] -= 1
                looked[path] = remembered(child, deadline, bounds, budget)
        except GitFailed as error:  # a broken one: it counts as missed
            _log.debug("the repository %s is not compared: %s", os.path.join(tree.top, path), error)
    return msgspec.structs.replace(tree, large=large, nested=looked, missed=len(within) - len(looked))


class Changes(Struct, frozen=True):
    """How the work tree differs from the private index."""

    modified: dict[str, str]  # path → "mode object", as the index has it
    untracked: list[str]
    nested: list[str]  # untracked repositories


def changes(tree: WorkTree, deadline: Deadline) -> Changes:
    git, scope = tree.git, [tree.scope or "."]
    rules = f"--exclude-from={git.folder}/info/exclude" if tree.alone else "--exclude-standard"
    others = git.run(deadline, "ls-files", "-z", "--others", rules, "--", *scope).names()
    untracked = [path for path in others if not path.endswith("/") and path not in tree.exclude]
    return Changes(modified(tree, deadline), untracked, [path.rstrip("/") for path in others if path.endswith("/")])


def modified(tree: WorkTree, deadline: Deadline) -> dict[str, str]:
    """Path → "mode object" of the files that are not as the index has them."""
    git, scope = tree.git, [tree.scope or "."]
    if not os.path.exists(git.index):
        return {}
    # Entries whose times alone differ are settled first, or their content would be stored anew each time.
    git.run(deadline, "update-index", "-q", "--unmerged", "--ignore-missing", "--refresh", ok=(0, 1))
    listed = git.run(deadline, "diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty", "--", *scope)
    fields = listed.names()
    found: dict[str, str] = {}
    for entry, path in zip(fields[::2], fields[1::2], strict=False):
        mode, _, oid, _, status = entry.removeprefix(":").split(" ")
        if path not in tree.exclude and not (status == "U" and path in found):
            found[path] = f"{mode} {oid}"
    return found


def sizes(tree: WorkTree, paths: Sequence[str], bounds: Bounds) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """The paths that may be hashed, and those too large for it. Raises Skipped when the sum is too much."""
    kept, large, total = [], {}, 0
    for path in paths:
        try:
            info = os.lstat(os.path.join(tree.top, path))
        except OSError:
            kept.append(path)
            continue
        if stat.S_ISREG(info.st_mode) and info.st_size > bounds.git_file:
            large[path] = (info.st_size, info.st_mtime_ns)
            continue
        total += info.st_size
        kept.append(path)
    if tree.alone and len(kept) > bounds.plain_files:
        raise Skipped(f"no diff: the folder has more than {bounds.plain_files:,} files and is not in git")
    if tree.alone and total > bounds.plain_bytes:
        raise Skipped(f"no diff: the folder has more than {bounds.plain_bytes >> 20} MB of files and is not in git")
    if total > bounds.git_bytes:
        raise Skipped(f"no diff: more than {bounds.git_bytes >> 20} MB of files are changed or not tracked")
    return kept, large


def submodules(tree: WorkTree, deadline: Deadline) -> Iterator[str]:
    """Paths of the submodules that are checked out within the scope."""
    listing = os.path.join(tree.top, ".gitmodules")
    if not is_file(listing):
        return
    query = ("config", "-z", "--file", listing, "--get-regexp", r"^submodule\..*\.path$")
    for item in tree.git.run(deadline, *query, ok=(0, 1, 3, 128)).names():
        path = os.path.normpath(item.partition("\n")[2])
        inside = path == tree.scope or path.startswith(os.path.join(tree.scope, ""))
        if inside and not path.startswith(("/", "..")):
            yield path


def nested(tree: WorkTree, path: str, deadline: Deadline, *, seeded: bool) -> WorkTree | None:
    """A repository within the work tree. One that was not there before begins empty, not `seeded`."""
    gitdir = inner_git_folder(tree, path)
    if gitdir is None:
        return None
    top = os.path.join(tree.top, path)
    shown = tree.shown + os.path.relpath(path, tree.scope or ".") + "/"
    git = repository_git(private_git(tree.git.folder, top, tree.git.env), gitdir, deadline, seeded=seeded)
    return WorkTree(top=top, scope="", shown=shown, git=git, exclude=frozenset(), large={}, nested={})


def inner_git_folder(tree: WorkTree, path: str) -> str | None:
    """The git folder of a repository within the work tree; None where there is none, or a symlink leads out."""
    top = os.path.join(tree.top, path)
    return git_folder(os.path.join(top, ".git")) if os.path.realpath(top) == top else None


# -- comparing --------------------------------------------------------------------------------------


def _compared(tree: WorkTree, deadline: Deadline, bounds: Bounds) -> Iterator[Diff]:
    """The diff of this work tree, then those of the repositories within it."""
    if not os.path.isdir(tree.top):  # all of it is gone: compare with nothing
        gone = os.path.join(tree.git.folder, "gone")
        os.makedirs(gone, 0o700, exist_ok=True)
        tree = msgspec.structs.replace(tree, top=gone, git=msgspec.structs.replace(tree.git, top=gone))
    changed = changes(tree, deadline)
    paths, large = sizes(tree, [*changed.modified, *changed.untracked], bounds)
    if paths:
        before, after = two_trees(tree, changed, paths, deadline)
        yield printed(tree, before, after, deadline, bounds)
    yield Diff(files=tuple(large_changes(tree, changed, large)))
    for child in tree.nested.values():
        yield from _compared(child, deadline, bounds)
    if tree.missed:  # which of the others are new cannot be told
        yield Diff(notice=f"{tree.missed} repositories within the folder were not looked at")
        return
    for path in sorted({*changed.nested} - {*tree.nested}):
        if (new := nested(tree, path, deadline, seeded=False)) is not None:
            yield from _compared(new, deadline, bounds)


def two_trees(tree: WorkTree, changed: Changes, paths: Sequence[str], deadline: Deadline) -> tuple[str, str]:
    """Two small trees of nothing but the changed paths: as they were, as they are."""
    git = tree.git
    kept = set(paths)
    was = [f"{entry}\t{path}" for path, entry in changed.modified.items() if path in kept]
    before = git.with_index("before")
    before.run(deadline, "update-index", "-z", "--index-info", input=zero_ended(was))
    old = before.run(deadline, "write-tree", "--missing-ok").line()
    after = git.with_index("after")
    if os.path.exists(before.index):
        shutil.copy2(before.index, after.index)
    after.store(deadline, paths)
    return old, after.run(deadline, "write-tree", "--missing-ok").line()


def printed(tree: WorkTree, before: str, after: str, deadline: Deadline, bounds: Bounds) -> Diff:
    git = tree.git.seeing_objects()
    renames = ("-M", "-l400", "--no-rename-empty")
    base = ["diff-tree", "-r", *renames, "--no-ext-diff", "--no-textconv", "--ignore-submodules=none"]
    if tree.scope:
        base.append(f"--relative={tree.scope}/")
    listed = git.run(deadline, *base, "-z", "--raw", before, after)
    files = tuple(file_changes(tree.shown, listed.names()))
    prefixes = [f"--src-prefix=a/{tree.shown}", f"--dst-prefix=b/{tree.shown}"]
    try:
        patch = git.run(deadline, *base, "-p", *prefixes, before, after, limit=bounds.text)
    except GitFailed as failure:  # the objects of a removed repository are gone with it
        return Diff(files=files, notice=f"the text of the diff is missing: {failure}")
    if patch.cut:
        return Diff(files=files, notice=f"the text of the diff is left out: it is over {bounds.text >> 20} MB")
    return Diff(text=patch.text(), files=files)


def file_changes(shown: str, fields: list[str]) -> Iterator[FileChange]:
    """The records of `--raw -z`: a header, then one path, or two for a rename."""
    rest = iter(fields)
    for header in rest:
        status = header.rsplit(" ", 1)[-1][:1]
        path = next(rest)
        if status == "R":
            yield FileChange(path=clean(shown + path), change="delete")
            path = next(rest)
        yield FileChange(path=clean(shown + path), change=CHANGES.get(status, "update"))


def clean(path: str) -> str:
    """A file name that can be written as UTF-8, whatever bytes it has."""
    return os.fsencode(path).decode("utf-8", "replace")


def large_changes(tree: WorkTree, changed: Changes, large: dict[str, tuple[int, int]]) -> Iterator[FileChange]:
    """Files too large to be shown."""
    for path in sorted({*large, *tree.large}):
        name = clean(tree.shown + os.path.relpath(path, tree.scope or "."))
        if path not in large and not os.path.lexists(os.path.join(tree.top, path)):
            yield FileChange(path=name, change="delete")
        elif path in large and large[path] != tree.large.get(path):
            known = path in tree.large or path in changed.modified
            yield FileChange(path=name, change="update" if known else "add")


def joined(parts: Iterable[Diff], bounds: Bounds) -> Diff:
    parts = list(parts)
    files = sorted({(change.path, change.change): change for part in parts for change in part.files}.items())
    notices = [part.notice for part in parts if part.notice]
    text = "".join(part.text for part in parts)
    if len(text) > bounds.text:
        text, notices = "", [*notices, f"the text of the diff is left out: it is over {bounds.text >> 20} MB"]
    return Diff(text, tuple(change for _, change in files), "; ".join(notices))


# -- the repository and our git folder --------------------------------------------------------------


def repository(folder: str) -> tuple[str, str] | None:
    """The work tree and the git folder around a folder, found without asking git."""
    top = folder
    while True:
        if (gitdir := git_folder(os.path.join(top, ".git"))) is not None:
            return top, gitdir
        parent = os.path.dirname(top)
        if parent == top or os.path.basename(top) == ".git":
            return None
        top = parent


def git_folder(dot_git: str) -> str | None:
    """The git folder behind `.git`, which is that folder or a file that names it."""
    if is_file(dot_git):
        with open(dot_git, encoding="utf-8", errors="surrogateescape") as file:
            named = file.read(8192)
        if not named.startswith("gitdir:"):
            return None
        dot_git = os.path.join(os.path.dirname(dot_git), named.removeprefix("gitdir:").strip())
    return os.path.realpath(dot_git) if os.path.isfile(os.path.join(dot_git, "HEAD")) else None


def common_folder(gitdir: str) -> str:
    """Where the objects and settings of a linked work tree live."""
    link = os.path.join(gitdir, "commondir")
    if not is_file(link):
        return gitdir
    with open(link, encoding="utf-8", errors="surrogateescape") as file:
        return os.path.realpath(os.path.join(gitdir, file.read(8192).strip()))


def private_git(scratch: str, top: str, env: dict[str, str]) -> Git:
    """A git folder of ours for any folder, with an empty index."""
    program, folder = Git.found(env["PATH"]), tempfile.mkdtemp(prefix="git-", dir=scratch)
    for name in ("objects", "refs", "info"):
        os.mkdir(os.path.join(folder, name), 0o700)
    write(os.path.join(folder, "HEAD"), "ref: refs/heads/none\n")
    write(os.path.join(folder, "config"), configuration({}))
    return Git(program=program, folder=folder, top=top, env=env, index=os.path.join(folder, "index"))


def repository_git(git: Git, gitdir: str, deadline: Deadline, *, seeded: bool) -> Git:
    """The same with the user's objects, ignore rules and ways to compare; `seeded` with a copy of the user's index."""
    common = common_folder(gitdir)
    for name in COPIED:
        copy(os.path.join(common, name), os.path.join(git.folder, name))
    settings = {
        **plain_settings(git, os.path.join(common, "config"), deadline),
        **plain_settings(git, os.path.join(gitdir, "config.worktree"), deadline),
    }
    write(os.path.join(git.folder, "config"), configuration(settings))
    if seeded:
        copy(os.path.join(gitdir, "index"), git.index)
        for name in os.listdir(gitdir):
            if name.startswith("sharedindex."):
                copy(os.path.join(gitdir, name), os.path.join(git.folder, name))
    objects = os.path.join(common, "objects")
    return msgspec.structs.replace(git, objects=objects, sparse=settings.get("index.sparse") == "true")


def plain_settings(git: Git, config: str, deadline: Deadline) -> dict[str, str]:
    if not is_file(config):
        return {}
    listed = git.run(deadline, "config", "-z", "--no-includes", "--file", config, "--list", ok=(0, 1, 3, 128))
    pairs = dict(item.partition("\n")[::2] for item in listed.names())
    return {name: value for name, value in pairs.items() if name in PLAIN_SETTINGS and value.isalnum()}


def configuration(settings: dict[str, str]) -> str:
    """Our git folder's settings: quick writes, readable names, and how the user's files are to be compared."""
    version = 1 if "extensions.objectformat" in settings else 0
    ours = {
        "core.repositoryformatversion": str(version),
        "core.bare": "false",
        "core.quotepath": "false",
        "core.looseCompression": "0",
        "core.safecrlf": "false",
        "core.fsync": "none",
        "diff.renames": "true",
    }
    lines = []
    for name, value in {**settings, **ours}.items():
        section, _, key = name.partition(".")
        lines.append(f"[{section}]\n\t{key} = {value}\n")
    return "".join(lines)


def is_file(path: str) -> bool:
    """A regular file: a pipe or device that a repository plants must not be opened."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def copy(source: str, target: str) -> None:
    """Copy a file with its times, which git compares with those of the entries."""
    if is_file(source):
        shutil.copyfile(source, target)
        shutil.copystat(source, target)
        os.chmod(target, 0o600)


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def zero_ended(items: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(item) + b"\0" for item in items)
