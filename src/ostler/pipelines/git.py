"""Git worktrees for nodes: made from a base, committed, merged or kept, and cleaned up."""

import asyncio
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from ostler.errors import OstlerError
from ostler.pipelines.model import MergeMode

# A repository's own hooks and watchers are not run by what only keeps the work of a node.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
_AUTHOR = ("-c", "user.name=ostler", "-c", "user.email=ostler@localhost", "-c", "commit.gpgsign=false")

_AGAIN = 0.05  # seconds before a lock is tried again


class GitWorktree:
    """The worktree of one node, on a branch of its own. What is there already is used again."""

    def __init__(
        self, repository: str, path: str, branch: str, base: str, environ: Mapping[str, str], locks: str
    ) -> None:
        """`locks`: a folder for locks, the same for all who merge."""
        self.repository, self.path, self.branch, self.base = repository, path, branch, base
        self._environ = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
        self._locks = locks
        self._locked: int | None = None

    async def make(self) -> None:
        """Raises bad_request for a folder outside of git, or a base that it does not have."""
        if os.path.isdir(self.path):
            return
        await self._git("rev-parse", "--git-dir", message=f"{self.repository} is not in a git repository")
        base = await self._git(
            "rev-parse", "--verify", f"{self.base}^{{commit}}", message=f"there is no {self.base} here"
        )
        await self._git("worktree", "prune")
        new = [self.path, self.branch] if await self.has_branch() else ["-b", self.branch, self.path, base.strip()]
        await self._git("worktree", "add", "--quiet", *new)

    async def is_there(self) -> bool:
        """Whether it was ever made."""
        return os.path.isdir(self.path) or await self.has_branch()

    async def has_branch(self) -> bool:
        return await self._ok("rev-parse", "--verify", "--quiet", f"refs/heads/{self.branch}")

    async def commit(self, message: str) -> str:
        """Commits what was changed; the diff from the base, '' if there is none."""
        if os.path.isdir(self.path):
            await self._git("add", "--all", at=self.path)
            if not await self._ok("diff", "--cached", "--quiet", at=self.path):
                await self._git("commit", "--quiet", "--no-verify", "-m", message, at=self.path)
        return await self._git("diff", f"{self.base}...{self.branch}")

    async def finish(self, then: MergeMode) -> str:
        """Merges, keeps or drops the branch and removes the worktree; a sentence on what became of it.

        All of it is committed. It may come again after a crash: a branch that is gone by then was merged or dropped.
        Raises busy when it cannot be merged: then the branch stays.
        """
        async with self._alone():
            problem = await self._merge() if then == "merge" and await self.has_branch() else ""
            await self._remove()
            if problem:
                hint = f"Its work is kept: git merge {self.branch}"
                raise OstlerError("busy", f"{self.branch} could not be merged: {problem}", hint)
            if then != "keep" and await self.has_branch():
                await self._git("branch", "-d" if then == "merge" else "-D", self.branch)
        if then == "keep":
            return f"its work is on the branch {self.branch}"
        return f"the branch {self.branch} was dropped" if then == "drop" else f"{self.branch} was merged"

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One at a time for each repository, whichever process it is: git fails where another merges.

        What git does goes on if this process is killed, and keeps the lock until it is done.
        """
        folder = await self._git("rev-parse", "--git-common-dir")
        name = hashlib.sha256(os.path.realpath(os.path.join(self.repository, folder.strip())).encode()).hexdigest()
        self._locked = os.open(f"{self._locks}/git-{name[:16]}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _takes(self._locked):
                await asyncio.sleep(_AGAIN)
            yield
        finally:
            os.close(self._locked)
            self._locked = None

    async def _merge(self) -> str:
        """Why it could not be merged; "" if it was."""
        await self._abort()  # what a crash has left
        merged = await self._run("merge", "--no-edit", "--no-verify", "--quiet", self.branch)
        if not merged.returncode:
            return ""
        await self._abort()
        why = (merged.stderr or merged.stdout).strip().splitlines()
        return why[0] if why else "git refused"

    async def _abort(self) -> None:
        """Ends a merge of this branch, and no other: somebody may be in the middle of one."""
        merging = await self._run("rev-parse", "--verify", "--quiet", "MERGE_HEAD")
        if not merging.returncode and merging.stdout == await self._git("rev-parse", f"refs/heads/{self.branch}"):
            await self._run("merge", "--abort")

    async def _remove(self) -> None:
        """The worktree; a crash may have left half of it."""
        if os.path.isdir(self.path) and not await self._ok("worktree", "remove", "--force", self.path):
            await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)
        await self._git("worktree", "prune")

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
        keep = () if self._locked is None else (self._locked,)
        run = partial(subprocess.run, capture_output=True, text=True, errors="replace", check=False)
        try:
            return await asyncio.to_thread(run, argv, env=self._environ, pass_fds=keep)
        except FileNotFoundError:
            raise OstlerError("missing", "git is not on PATH", "Install git") from None


def _takes(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
