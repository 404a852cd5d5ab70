"""Git worktrees for nodes: made from a base, committed, merged or kept, and cleaned up."""

import asyncio
import os
import subprocess
from collections.abc import Mapping

from ostler.errors import OstlerError
from ostler.pipelines.model import MergeMode

# A repository's own hooks and watchers are not run by what only keeps the work of a node.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
_AUTHOR = ("-c", "user.name=ostler", "-c", "user.email=ostler@localhost", "-c", "commit.gpgsign=false")


class GitWorktree:
    """The worktree of one node, on a branch of its own. What is there already is used again."""

    def __init__(self, repository: str, path: str, branch: str, base: str, environ: Mapping[str, str]) -> None:
        self.repository, self.path, self.branch, self.base = repository, path, branch, base
        self._environ = {name: value for name, value in environ.items() if not name.startswith("GIT_")}

    async def make(self) -> None:
        """Raises bad_request for a folder outside of git, or a base that it does not have."""
        if os.path.isdir(self.path):
            return
        await self._git("rev-parse", "--git-dir", message=f"{self.repository} is not in a git repository")
        base = await self._git(
            "rev-parse", "--verify", f"{self.base}^{{commit}}", message=f"there is no {self.base} here"
        )
        await self._git("worktree", "prune")
        exists = await self._ok("rev-parse", "--verify", "--quiet", f"refs/heads/{self.branch}")
        new = [self.path, self.branch] if exists else ["-b", self.branch, self.path, base.strip()]
        await self._git("worktree", "add", "--quiet", *new)

    async def commit(self, message: str) -> str:
        """Commits what was changed; the diff from the base, '' if there is none."""
        await self._git("add", "--all", at=self.path)
        if not await self._ok("diff", "--cached", "--quiet", at=self.path):
            await self._git("commit", "--quiet", "--no-verify", "-m", message, at=self.path)
        return await self._git("diff", f"{self.base}...{self.branch}")

    async def finish(self, then: MergeMode) -> str:
        """Merges, keeps or drops the branch and removes the worktree; a sentence on what became of it.

        Raises busy when it cannot be merged: then the branch stays.
        """
        await self._git("worktree", "remove", "--force", self.path)
        if then == "drop":
            await self._git("branch", "-D", self.branch)
            return f"the branch {self.branch} was dropped"
        if then == "keep":
            return f"its work is on the branch {self.branch}"
        merged = await self._run("merge", "--no-edit", "--no-verify", "--quiet", self.branch)
        if merged.returncode:
            await self._run("merge", "--abort")
            why = (merged.stderr or merged.stdout).strip().splitlines()
            raise OstlerError(
                "busy",
                f"{self.branch} could not be merged: {why[0] if why else 'git refused'}",
                f"Its work is kept: git merge {self.branch}",
            )
        await self._git("branch", "-d", self.branch)
        return f"{self.branch} was merged"

    async def _git(self, *args: str, at: str | None = None, message: str = "") -> str:
        ran = await self._run(*args, at=at)
        if ran.returncode:
            why = ran.stderr.strip().splitlines()
            text = message or f"git {args[0]} failed: {why[-1] if why else ran.returncode}"
            raise OstlerError("bad_request", text, "A node with a worktree needs a git repository with a commit")
        return ran.stdout

    async def _ok(self, *args: str, at: str | None = None) -> bool:
        return (await self._run(*args, at=at)).returncode == 0

    async def _run(self, *args: str, at: str | None = None) -> "subprocess.CompletedProcess[str]":
        argv = ["git", "-C", at or self.repository, *_QUIET, *_AUTHOR, *args]
        run = subprocess.run
        try:
            return await asyncio.to_thread(
                run, argv, env=self._environ, capture_output=True, text=True, errors="replace", check=False
            )
        except FileNotFoundError:
            raise OstlerError("missing", "git is not on PATH", "Install git") from None
