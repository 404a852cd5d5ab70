"""What a turn changed in its folder: look before it, compare after it.

In a git repository by private indexes (`diff_git`), elsewhere by a bounded snapshot (`diff_plain`).
Both calls block, never raise, and leave the folder and its .git as they are.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping

from msgspec import Struct

from ostler.work import diff_git, diff_plain
from ostler.work.diff_words import Bounds, Diff, Skipped

__all__ = ["Before", "Bounds", "Diff", "compare", "look"]

GIT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Before(Struct, frozen=True, kw_only=True):
    """The folder as it was, kept in the scratch folder; `notice` says why nothing was kept."""

    bounds: Bounds
    kept: str  # our folder in the scratch folder; `compare` removes it
    git: diff_git.WorkTree | None = None
    plain: diff_plain.Snapshot | None = None
    notice: str = ""


def look(
    folder: str,
    scratch: str,
    exclude: frozenset[str] = frozenset(),
    *,
    env: Mapping[str, str] | None = None,
    bounds: Bounds | None = None,
) -> Before:
    """Remember the folder. `scratch` is an existing private folder that lives until `compare`.

    `exclude` holds paths relative to the folder. Of `env` only PATH, HOME and XDG_CONFIG_HOME are used.
    """
    bounds, kept = bounds or Bounds(), ""
    folder = os.path.realpath(folder)
    try:
        kept = tempfile.mkdtemp(prefix="diff-", dir=scratch)
        try:
            tree = diff_git.look(folder, kept, exclude, git_environment(env or {}), bounds)
        except diff_git.GitFailed:
            tree = None
        if tree is not None:
            return Before(bounds=bounds, kept=kept, git=tree)
        return Before(bounds=bounds, kept=kept, plain=diff_plain.look(folder, kept, exclude, bounds))
    except Skipped as skipped:
        return Before(bounds=bounds, kept=kept, notice=str(skipped))
    except (OSError, ValueError, RecursionError) as error:
        return Before(bounds=bounds, kept=kept, notice=f"no diff: {error}")


def compare(before: Before) -> Diff:
    """The changes since `look`, once: what was kept is removed."""
    try:
        if before.git is not None:
            return diff_git.compare(before.git, before.bounds)
        if before.plain is not None:
            return diff_plain.compare(before.plain, before.bounds)
        return Diff(notice=before.notice)
    except (Skipped, diff_git.GitFailed) as failure:
        return Diff(notice=str(failure))
    except (OSError, ValueError, RecursionError) as error:
        return Diff(notice=f"no diff: {error}")
    finally:
        if before.kept:
            shutil.rmtree(before.kept, ignore_errors=True)


def git_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What git gets to see of the user's environment: enough to be found and to find global ignore rules."""
    kept = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME") if env.get(name)}
    return {"PATH": env.get("PATH") or GIT_PATH, **kept}
