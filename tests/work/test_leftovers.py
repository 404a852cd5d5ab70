"""What processes that are gone have left is removed; what lives, or was changed, stays."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from needs import needs
from ostler.process import cgroup, tree
from ostler.work import leftovers
from prefork import start_python
from waiting import until


def noted_by_another(state: Path, files: dict[str, bytes], group: str = "") -> None:
    """A note of a process that is gone."""
    code = "import sys; from ostler.work import leftovers; leftovers.note(sys.argv[1], eval(sys.argv[2]), sys.argv[3])"
    assert start_python(code, str(state), repr(files), group).wait() == 0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


def test_whether_something_is_left_is_known_at_a_glance(state: Path) -> None:
    assert not leftovers.something_left(state, ())
    leftovers.note(state, {})  # of a process that lives
    run = state / "run"
    run.mkdir()
    (run / "known.sock").touch()
    assert not leftovers.something_left(state, ("known",))
    assert leftovers.something_left(state, ())
    noted_by_another(state, {})
    assert leftovers.something_left(state, ("known",))
    leftovers.remove_leftovers(state)
    assert not leftovers.something_left(state, ("known",))
    (state / "leftovers" / "broken.json").write_text("{")
    assert leftovers.something_left(state, ("known",))


def test_files_of_the_dead_are_removed_unless_changed(state: Path, tmp_path: Path) -> None:
    same, changed, missing, link = (tmp_path / name for name in ("same", "changed", "missing", "link"))
    same.write_bytes(b"ours")
    changed.write_bytes(b"theirs")
    link.symlink_to(same)
    private = state / "private"
    private.write_bytes(b"changed by the agent")
    noted_by_another(state, {str(path): b"ours" for path in (link, same, changed, missing, private)})
    leftovers.remove_leftovers(state)
    assert not same.exists() and changed.read_bytes() == b"theirs" and link.is_symlink() and not private.exists()
    assert list((state / "leftovers").iterdir()) == []


def test_notes_of_the_living_stay(state: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(b"ours")
    path = leftovers.note(state, {str(mine): b"ours"})
    (state / "leftovers" / "broken.json").write_text("{")
    leftovers.remove_leftovers(state)
    assert mine.exists() and [str(each) for each in (state / "leftovers").iterdir()] == [path]


def test_a_large_file_is_known_again(state: Path, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    for name, written in (("ours", data), ("changed", data[:-1] + b"!!")):
        (tmp_path / name).write_bytes(written)
        note = f"{{{str(tmp_path / name)!r}: open({str(tmp_path / 'data')!r}, 'rb').read()}}"
        (tmp_path / "data").write_bytes(data)
        code = f"from ostler.work import leftovers; leftovers.note({str(state)!r}, {note})"
        assert start_python(code).wait() == 0
    leftovers.remove_leftovers(state)
    assert [(tmp_path / name).exists() for name in ("ours", "changed")] == [False, True]


@needs("cgroup")
async def test_who_lives_in_a_cgroup_of_the_dead_is_ended(state: Path) -> None:
    group = cgroup.make()
    sleeper = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
    try:
        inner = cgroup.make_beneath(group)
        Path(inner, "cgroup.procs").write_text(str(sleeper.pid))
        assert cgroup.pids(group) == [sleeper.pid]
        noted_by_another(state, {}, group)
        leftovers.remove_leftovers(state)
        await until(lambda: sleeper.poll() is not None)
        assert sleeper.returncode == -signal.SIGKILL and not os.path.exists(group)
    finally:
        sleeper.kill()
        sleeper.wait()
        cgroup.end(group)


async def test_who_is_listed_in_what_the_dead_had_for_a_cgroup_is_ended(state: Path, tmp_path: Path) -> None:
    """The same with a folder that only looks like a cgroup, for machines where none can be made."""
    group = tmp_path / "group"
    (group / "inner").mkdir(parents=True)
    listed = group / "inner" / "cgroup.procs"
    sleeper = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
    listed.write_text(f"{sleeper.pid}\n")

    def leave() -> None:  # what the kernel does
        sleeper.wait()
        listed.unlink()

    leaving = asyncio.create_task(asyncio.to_thread(leave))
    try:
        noted_by_another(state, {}, str(group))
        await asyncio.to_thread(leftovers.remove_leftovers, state)
        await leaving
        assert sleeper.returncode == -signal.SIGKILL and not group.exists()
    finally:
        sleeper.kill()


def test_only_sockets_that_nobody_listens_on_are_removed(state: Path) -> None:
    import socket

    names = {"listened": True, "known": False, "young": False, "stale": False}
    ends = []
    for name, listens in names.items():
        end = socket.socket(socket.AF_UNIX)
        end.bind(str(state / f"{name}.sock"))
        if listens:
            end.listen()
            ends.append(end)
        else:
            end.close()
        if name != "young":
            os.utime(state / f"{name}.sock", (1, 1))
    leftovers.remove_sockets(state, {"known"})
    assert sorted(path.stem for path in state.glob("*.sock")) == ["known", "listened", "young"]
    for end in ends:
        end.close()


def test_a_process_that_is_gone_is_not_taken_for_another(state: Path) -> None:
    """Its pid may be somebody else's by now: here it is ours."""
    gone = leftovers.Note(pid=os.getpid(), start_time=1, boot_id=tree.boot_id(), files={})
    assert leftovers._is_gone(gone)
