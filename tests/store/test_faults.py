"""Each trouble is a typed error with a hint, never a hang, and the store recovers without a restart."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.model import Raw
from ostler.store import Store, schema

Script = Callable[..., "subprocess.Popen[str]"]


def refused(folder: Path, says: str) -> OstlerError:
    with pytest.raises(OstlerError, match=says) as caught:
        Store.open(folder, timeout=0.2)
    assert caught.value.kind == "store"
    assert caught.value.hint
    return caught.value


# -- a database that cannot be used -----------------------------------------------------------------


@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ostler.db").write_bytes(content)
    refused(tmp_path, "damaged")
    assert (tmp_path / "ostler.db").read_bytes() == content


async def test_damage_found_later_is_told_by_each_call(tmp_path: Path, make: SimpleNamespace) -> None:
    with Store.open(tmp_path / "s") as store:
        await store.add_session(make.session())
        await store.append("k3", [Raw(seq=seq, line="x" * 2000) for seq in range(1, 100)])
    path = tmp_path / "s" / "ostler.db"
    data = bytearray(path.read_bytes())
    tables = 32 * 4096  # the first pages: what tables there are, and where they begin
    data[tables:] = b"\xa5" * (len(data) - tables)
    path.write_bytes(data)
    with Store.open(tmp_path / "s") as store:
        with pytest.raises(OstlerError, match="damaged") as read:
            store.events("k3")
        with pytest.raises(OstlerError, match="damaged") as write:
            await store.append("k3", [Raw(seq=100, line="y")])
    assert (read.value.kind, write.value.kind) == ("store", "store")


def test_a_store_of_a_newer_version(tmp_path: Path) -> None:
    Store.open(tmp_path / "s").close()
    with sqlite3.connect(tmp_path / "s" / "ostler.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert "Upgrade ostler" in refused(tmp_path / "s", r"newer ostler \(store version 99").hint


class MadeMeanwhile:
    """A connection to a new store, which another process makes after the first look at it."""

    def __init__(self, path: Path) -> None:
        self.path, self.db, self.looks = path, sqlite3.connect(path), 0

    def execute(self, query: str) -> sqlite3.Cursor:
        if "application_id" in query or "sqlite_master" in query:
            self.looks += 1
            if self.looks == 2:
                Store.open(self.path.parent).close()
        return self.db.execute(query)


def test_a_store_that_another_process_makes_between_two_looks(tmp_path: Path) -> None:
    """It was taken for another program's: it had no id at the first look, and tables at the second."""
    opened = MadeMeanwhile(tmp_path / "ostler.db")
    schema._check(opened, opened.path)  # type: ignore[arg-type]
    assert opened.looks == 2
    opened.db.close()


def test_a_database_of_another_program(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ostler.db") as db:
        db.execute("CREATE TABLE birds (name)")
    db.close()
    before = (tmp_path / "ostler.db").read_bytes()
    refused(tmp_path, "not a store of ostler")
    assert (tmp_path / "ostler.db").read_bytes() == before


# -- a folder that cannot be used -------------------------------------------------------------------


def test_a_folder_that_is_a_symlink_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "link", "link")
    refused(tmp_path / "file", "file")
    refused(tmp_path / "file" / "below", "below")
    assert list((tmp_path / "real").iterdir()) == []


def test_a_database_that_is_a_symlink_or_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir(0o700)
    (tmp_path / "a" / "ostler.db").symlink_to("../planted")
    (tmp_path / "b" / "ostler.db").mkdir()
    refused(tmp_path / "a", "not a file of ours")
    refused(tmp_path / "b", "not a file of ours")
    assert not (tmp_path / "planted").exists()


@needs("root")
def test_a_folder_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(0o700)
    os.chown(tmp_path / "s", 65534, 65534)
    refused(tmp_path / "s", "another user")


async def test_a_read_only_disk(disk: Path, make: SimpleNamespace) -> None:
    with Store.open(disk / "s") as store:
        await store.add_session(make.session())
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert "OSTLER_HOME" in refused(disk / "s", "not writable").hint
    refused(disk / "other", "Read-only")
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    with Store.open(disk / "s") as store:
        assert store.sessions() == [make.session()]


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder of a user whom permissions concern: root steps down for the test."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-test-"))
    user = os.geteuid()
    if user == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    shutil.rmtree(folder)


def test_a_folder_or_database_without_write_permission(as_nobody: Path) -> None:
    as_nobody.chmod(0o500)
    assert "OSTLER_HOME" in refused(as_nobody, "Permission denied").hint
    as_nobody.chmod(0o700)
    Store.open(as_nobody).close()
    (as_nobody / "ostler.db").chmod(0o400)
    refused(as_nobody, "not writable")
    as_nobody.chmod(0o500)
    refused(as_nobody, "not writable")


# -- locked -----------------------------------------------------------------------------------------

HOLD = """
import sqlite3
db = sqlite3.connect(folder + "/ostler.db", isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
db.execute("COMMIT")
print("free", flush=True)
"""


async def test_a_lock_that_stays_is_an_error_and_one_that_goes_is_not(
    tmp_path: Path, make: SimpleNamespace, script: Script
) -> None:
    Store.open(tmp_path / "s").close()
    holder = script(HOLD, tmp_path / "s")
    assert holder.stdout.readline() == "held\n", holder.communicate()
    with Store.open(tmp_path / "s", timeout=0.3) as store:  # opening an existing store only reads
        calls = [store.add_session(make.session(f"s{n}")) for n in range(5)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert {(type(result), getattr(result, "kind", "")) for result in results} == {(OstlerError, "store")}
        assert all("locked" in str(result) for result in results)
        assert store.sessions() == []  # reading works meanwhile
        holder.stdin.write("go\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "free\n"
        await store.add_session(make.session())
        assert store.sessions() == [make.session()]


async def test_a_write_waits_for_another_process(store: Store, make: SimpleNamespace, script: Script) -> None:
    holder = script(HOLD, store.folder)
    assert holder.stdout.readline() == "held\n", holder.communicate()
    waiting = asyncio.create_task(store.add_session(make.session()))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    holder.stdin.write("go\n")
    holder.stdin.flush()
    await waiting
    assert store.sessions() == [make.session()]


# -- disk full --------------------------------------------------------------------------------------


@pytest.fixture
def disk(mounted: Callable[[int], Path]) -> Path:
    return mounted(2)


async def test_a_full_disk_fails_the_write_and_no_other_and_recovers(disk: Path, make: SimpleNamespace) -> None:
    with Store.open(disk / "s") as store:
        await store.add_session(make.session())
        await store.begin_turn(make.row("t1"))
        ballast = disk / "ballast"
        _fill(ballast)
        written, error = await _until_error(store)
        assert (error.kind, bool(error.hint)) == ("store", True)
        assert "full" in str(error)
        assert [event.seq for event in store.events("k3")] == list(range(1, written + 1))
        with pytest.raises(OstlerError):
            await store.append("k3", [Raw(seq=written + 1, line="x" * 100_000)])
        ballast.unlink()
        await store.append("k3", [Raw(seq=written + 1, line="x" * 100_000)])
        last = [make.ended(written + 2)]
        assert await store.end_turn("t1", last=last, envelope=make.envelope("t1"))
        assert [event.seq for event in store.events("k3")] == list(range(1, written + 3))
    with sqlite3.connect(disk / "s" / "ostler.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_opening_on_a_full_disk(disk: Path) -> None:
    (disk / "s").mkdir(0o700)
    _fill(disk / "ballast")
    assert "full" in str(refused(disk / "s", "s"))
    (disk / "ballast").unlink()
    Store.open(disk / "s").close()


async def test_a_limit_on_file_size_is_a_typed_error(tmp_path: Path, script: Script) -> None:
    """What a disk quota looks like to someone who is not root."""
    process = script(
        """
import resource
from ostler.errors import OstlerError
async def main():
    with Store.open(folder) as store:
        await store.add_session(session())
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        seq = 0
        try:
            while seq < 100:
                await store.append("k3", [Raw(seq=seq + 1, line="x" * 50_000)])
                seq += 1
        except OstlerError as error:
            print(error.kind, bool(error.hint), seq == store.last_seq("k3"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.append("k3", [Raw(seq=seq + 1, line="after")])
        print(0 < seq < 100, store.last_seq("k3") == seq + 1)
asyncio.run(main())
""",
        tmp_path / "s",
    )
    assert process.communicate(timeout=60) == ("store True True\nTrue True\n", "")


def _fill(path: Path) -> None:
    """Leaves next to nothing free."""
    free = shutil.disk_usage(path.parent).free
    path.write_bytes(b"\0" * max(0, free - 8192))


async def _until_error(store: Store) -> tuple[int, OstlerError]:
    for seq in range(1, 1000):
        try:
            await store.append("k3", [Raw(seq=seq, line="x" * 3000)])
        except OstlerError as error:
            return seq - 1, error
    raise AssertionError("the disk never became full")
