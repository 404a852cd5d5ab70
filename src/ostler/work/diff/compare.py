"""What a turn changed in its folder: look before it, compare after it.

git does it with a git folder of ours, in a repository and anywhere else (`git_tree`).
Both calls block, never raise, and leave the folder and its .git as they are.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ostler.store.files import write_private
from ostler.work.diff import git_tree
from ostler.work.diff.diff import Bounds, Diff, Skipped
from ostler.work.diff.git import GitFailed

__all__ = ["Before", "Bounds", "Diff", "compare", "keep", "kept_before", "look"]

KEPT = "before.json"
GIT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Before(Struct, frozen=True, kw_only=True):
    """The folder as it was, kept in the scratch folder; `notice` says why nothing was kept."""

    bounds: Bounds
    kept: str  # our folder in the scratch folder; `compare` removes it
    tree: git_tree.WorkTree | None = None
    notice: str = ""


def look(
    folder: str,
    scratch: str,
    exclude: frozenset[str] = frozenset(),
    *,
    state: str = "",
    env: Mapping[str, str] | None = None,
    bounds: Bounds | None = None,
) -> Before:
    """Remember the folder. `scratch` is an existing private folder that lives until `compare`.

    `exclude` holds paths relative to the folder, `state` is ostler's own folder, which is never looked at. Of `env`
    only PATH, HOME and XDG_CONFIG_HOME are used.
    """
    bounds, kept = bounds or Bounds(), ""
    try:
        kept = tempfile.mkdtemp(prefix="diff-", dir=scratch)
        git_env, state = git_environment(env or {}), state and os.path.realpath(state)
        tree = git_tree.look(os.path.realpath(folder), kept, exclude, git_env, bounds, state)
        return Before(bounds=bounds, kept=kept, tree=tree)
    except (Skipped, GitFailed) as failure:
        return Before(bounds=bounds, kept=kept, notice=str(failure))
    except (OSError, ValueError, RecursionError) as error:
        return Before(bounds=bounds, kept=kept, notice=f"no diff: {error}")


def compare(before: Before) -> Diff:
    """The changes since `look`, once: what was kept is removed."""
    try:
        return git_tree.compare(before.tree, before.bounds) if before.tree else Diff(notice=before.notice)
    except (Skipped, GitFailed) as failure:
        return Diff(notice=str(failure))
    except (OSError, ValueError, RecursionError) as error:
        return Diff(notice=f"no diff: {error}")
    finally:
        if before.kept:
            shutil.rmtree(before.kept, ignore_errors=True)


def keep(before: Before, scratch: str) -> None:
    """So that another process can compare, once `kept_before` has found it. Raises OstlerError("store")."""
    try:
        data = msgspec.json.encode(before)
    except UnicodeEncodeError:
        return  # a file name that is not UTF-8: whoever comes next has no diff
    write_private(os.path.join(scratch, KEPT), data)


def kept_before(scratch: str) -> Before | None:
    """What `keep` kept; None where nothing was kept, or another version of ostler did it."""
    try:
        with open(os.path.join(scratch, KEPT), "rb") as file:
            return msgspec.json.decode(file.read(), type=Before)
    except (OSError, msgspec.MsgspecError):
        return None


def git_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What git gets to see of the user's environment: enough to be found and to find global ignore rules."""
    kept = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME") if env.get(name)}
    return {"PATH": env.get("PATH") or GIT_PATH, **kept}
