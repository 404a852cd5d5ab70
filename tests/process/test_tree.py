import os
import subprocess
import sys

from ostler.process import tree
from ostler.process.warden import descendants, processes, stat
from waiting import wait_until


def test_a_boot_has_one_id():
    assert len(tree.boot_id()) == 36
    assert tree.boot_id() == tree.boot_id()


def test_identity_is_the_start_time_and_none_for_the_dead():
    mine = tree.identity(os.getpid())
    assert mine == stat(os.getpid())[3]
    assert not tree.gone(os.getpid(), mine)
    assert tree.gone(os.getpid(), mine + 1)
    child = subprocess.Popen(["sleep", "600"])
    born = tree.identity(child.pid)
    assert born >= mine
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert stat(child.pid)[1] == b"Z"
    assert tree.gone(child.pid, born)
    child.wait()
    assert tree.identity(child.pid) is None


def test_now_is_a_start_time():
    child = subprocess.Popen(["sleep", "600"])
    assert tree.identity(os.getpid()) <= tree.now()
    child.kill()
    child.wait()


def test_a_name_with_parentheses_and_spaces_does_not_confuse(tmp_path):
    odd = tmp_path / ") R 1 (x"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "600"])
    assert stat(child.pid)[0] == os.getpid()
    child.kill()
    child.wait()


def test_descendants_of_a_table():
    table = {pid: (parent, b"S", 0, 0) for pid, parent in {2: 1, 3: 2, 4: 3, 5: 1, 6: 5}.items()}
    assert sorted(descendants(table, [2])) == [3, 4]
    assert sorted(descendants(table, [1])) == [2, 3, 4, 5, 6]
    assert descendants(table, [9]) == []


def test_the_walk_finds_us():
    table = processes()
    assert table[os.getpid()][0] == os.getppid()
    assert os.getpid() in descendants(table, [os.getppid()])


def test_children_without_a_walk(until):
    child = subprocess.Popen(["sleep", "600"])
    assert child.pid in tree.children(os.getpid())
    child.kill()
    child.wait()
    assert child.pid not in tree.children(os.getpid())


def test_marks_are_compared_whole(mark):
    child = subprocess.Popen(["sleep", "600"], env={"A": "x", "OSTLER_TURN": mark, "Z": "x"})
    try:
        wait_until(lambda: tree.marked(mark) == [child.pid])  # on a busy machine it may not have its environment yet
        assert tree.marked(mark[:-1]) == []
        assert tree.marked(mark, since=tree.identity(child.pid) + 1) == []
        assert tree.mark_of(child.pid) == mark
    finally:
        child.kill()
        child.wait()


def test_end_marked_ends_stubborn_ones_with_their_children(mark):
    code = """
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "617"], env={})
print(child.pid, flush=True)
time.sleep(600)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={"OSTLER_TURN": mark}, stdout=subprocess.PIPE, text=True
    )
    child = int(process.stdout.readline())
    wait_until(lambda: tree.command(child) == "sleep 617")  # a moment after exec its name is not there yet
    names = tree.end_marked([mark], grace=0.1)
    assert sorted(int(name.split()[0]) for name in names) == sorted([process.pid, child])
    assert f"{child} sleep 617" in names
    assert (tree.identity(process.pid), tree.identity(child)) == (None, None)
    process.wait()
    process.stdout.close()
    assert tree.end_marked([mark]) == ()


def test_end_marked_looks_again_for_one_that_just_executes(mark, monkeypatch):
    """While a process executes, its environment cannot be read: one look that finds nothing proves nothing."""
    child = subprocess.Popen(["sleep", "600"], env={"OSTLER_TURN": mark})
    looks = []

    def trees_of(*args, **named):
        looks.append(named)
        return set() if len(looks) <= 2 else look(*args, **named)

    look = tree.trees_of
    monkeypatch.setattr(tree, "trees_of", trees_of)
    tree.end_marked([mark], grace=0.1)
    assert tree.identity(child.pid) is None
    child.wait()
