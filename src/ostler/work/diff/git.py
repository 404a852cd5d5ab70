"""git as a careful caller runs it: a private git folder, no configuration of anyone's, a deadline."""

import os
import select
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

import msgspec
from msgspec import Struct

from ostler.work.diff.diff import Deadline

SAFE = {
    "LC_ALL": "C",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "MALLOC_TOP_PAD_": "16777216",  # else glibc gives memory back after each file: 5,000 of them take four times
}
IN_ONE_PACK = ("-c", "core.bigFileThreshold=0", "-c", "core.compression=0")  # a file for each object takes ten times
OPTIONS = ("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")


class GitFailed(Exception):
    """git is missing, or it failed; says how."""


class GitOutput(Struct, frozen=True):
    """What git printed and how it ended."""

    code: int
    out: bytes
    cut: bool = False  # there was more than the limit

    def names(self) -> list[str]:
        """The fields of `-z` output, as file names."""
        return [os.fsdecode(item) for item in self.out.split(b"\0") if item]

    def line(self) -> str:
        return self.out.decode("ascii", "replace").strip()

    def text(self) -> str:
        return self.out.decode("utf-8", "replace")


class Git(Struct, frozen=True, kw_only=True):
    """One private git folder for one work tree."""

    program: str
    folder: str
    top: str
    env: dict[str, str]
    index: str
    objects: str = ""  # the user's, which only a diff needs
    sparse: bool = False  # an index that cannot be read without the user's objects
    visible: bool = False

    @staticmethod
    def found(path: str) -> str:
        """The git on PATH, relative entries left out: the folder of a turn is not to be searched."""
        absolute = os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
        program = shutil.which("git", path=absolute)
        if program is None:
            raise GitFailed("no diff: git is not on PATH")
        return program

    def with_index(self, name: str) -> "Git":
        return msgspec.structs.replace(self, index=os.path.join(self.folder, name))

    def seeing_objects(self) -> "Git":
        return msgspec.structs.replace(self, visible=True)

    def run(
        self,
        deadline: Deadline,
        *args: str,
        input: bytes = b"",
        ok: Sequence[int] = (0,),
        limit: int = 1 << 30,
    ) -> GitOutput:
        """Run one git command. Raises GitFailed for an exit code not in `ok`, Skipped at the deadline."""
        with tempfile.TemporaryFile(dir=self.folder) as fed, tempfile.TemporaryFile(dir=self.folder) as errors:
            fed.write(input)
            fed.seek(0)
            code, out, cut = self._spawn(args, fed, errors, deadline, limit)
            if cut or code in ok:
                return GitOutput(code, out, cut)
            errors.seek(0)
            said = errors.read(65536).decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(f"git {args[0]} failed: {said[-1][:300] if said else f'exit code {code}'}")

    def store(self, deadline: Deadline, paths: Sequence[str]) -> None:
        """Bring paths of the index up to the work tree; what cannot be read keeps its entry."""
        real: dict[str, bool] = {}
        by: dict[str, list[bytes]] = {"there": [], "gone": [], "closed": []}
        for path in paths:
            by[presence(self.top, path, real)].append(os.fsencode(path) + b"\0")
        if by["gone"]:
            self.run(deadline, "update-index", "-z", "--force-remove", "--stdin", input=b"".join(by["gone"]))
        if by["there"]:
            how = (*IN_ONE_PACK, "update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            self.run(deadline, *how, input=b"".join(by["there"]))

    def _spawn(
        self, args: Sequence[str], fed: IO[bytes], errors: IO[bytes], deadline: Deadline, limit: int
    ) -> tuple[int, bytes, bool]:
        """Exit code, output, and whether the output was cut. The process group is gone afterwards."""
        deadline.left()
        try:
            process = subprocess.Popen(
                [self.program, *OPTIONS, *args],
                cwd=self.top,
                env=self._environment(),
                stdin=fed,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise GitFailed(f"no diff: git does not start: {error.strerror}") from error
        with process:
            try:
                text, cut = read_until(process.stdout, deadline, limit)
                return 0 if cut else process.wait(deadline.left()), text, cut
            except subprocess.TimeoutExpired:
                raise deadline.passed() from None
            finally:
                end(process)

    def _environment(self) -> dict[str, str]:
        env = {**self.env, **SAFE, "GIT_DIR": self.folder, "GIT_WORK_TREE": self.top, "GIT_INDEX_FILE": self.index}
        if self.objects and (self.visible or self.sparse):
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = path_entry(self.objects)
        return env


def presence(top: str, path: str, real: dict[str, bool]) -> str:
    """Whether a path of the work tree is "there", "gone" (also: behind a symlink now), or "closed" to us.

    `real` remembers which folders have no symlink on their way.
    """
    full = os.path.join(top, path)
    parent = os.path.dirname(full)
    try:
        info = os.lstat(full)
    except OSError:
        return "gone"
    if parent not in real:
        real[parent] = os.path.realpath(parent) == parent
    if not real[parent]:
        return "gone"
    if stat.S_ISDIR(info.st_mode):
        return "there" if os.path.lexists(os.path.join(full, ".git")) else "gone"
    if stat.S_ISLNK(info.st_mode):
        return "there"
    return "there" if stat.S_ISREG(info.st_mode) and os.access(full, os.R_OK) else "closed"


def read_until(stream: IO[bytes] | None, deadline: Deadline, limit: int) -> tuple[bytes, bool]:
    """All that comes, or the first `limit` bytes of it and True. Raises Skipped at the deadline."""
    assert stream is not None
    chunks: list[bytes] = []
    size = 0
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    while size <= limit:
        if not poll.poll(deadline.left() * 1000):
            raise deadline.passed()
        chunk = os.read(stream.fileno(), 1 << 20)
        if not chunk:
            return b"".join(chunks), False
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)[:limit], True


def path_entry(path: str) -> str:
    """A path as one entry of a colon-separated list."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of the process and wait for it; after a normal exit there is nothing left."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended meanwhile
        process.wait()
