"""What the tests start at once is what ostler would have started."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from forker import AGENT, known_answers
from ostler.process import Warden, chunks
from ostler.process.pipes import Size
from ostler.work import probe
from prefork import quick_starts
from waiting import until

LIBC_SIGNALS = 0b11 << 31  # 32 and 33: no program can say what becomes of them


@pytest.fixture(scope="module", autouse=True)
def parts() -> None:
    """Each test says how it starts them."""


@pytest.mark.parametrize("tty", [None, Size(rows=24, cols=80)], ids=["pipes", "terminal"])
async def test_a_scripted_agent_that_was_forked_looks_like_one_that_was_executed(
    tty: Size | None, tmp_path: Path
) -> None:
    executed = await seen_from_outside(nullcontext, tty, tmp_path)
    assert await seen_from_outside(quick_starts, tty, tmp_path) == executed
    assert executed["leads its session"] and "--access=full" in str(executed["cmdline"])


async def seen_from_outside(
    started: Callable[[], AbstractContextManager[None]], tty: Size | None, folder: Path
) -> dict[str, object]:
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OSTLER_SCRIPT_HOME": str(folder / "home")}
    with started():
        warden = await Warden.start()
    try:
        process = await warden.spawn(
            [*AGENT, "--access=full"], cwd=str(folder), env=env, mark="t1", keep_stdin=True, tty=tty
        )
        about = Path(f"/proc/{process.pid}")
        await until(lambda: "SigCgt:\t0000000000004002\n" in (about / "status").read_text())  # it reads its prompt
        status = dict(line.split(":\t") for line in (about / "status").read_text().splitlines() if ":\t" in line)
        stat = (about / "stat").read_text().rpartition(")")[2].split()
        seen = {
            "cmdline": (about / "cmdline").read_bytes().rstrip(b"\0"),
            "environ": sorted((about / "environ").read_bytes().rstrip(b"\0").split(b"\0")),
            "descriptors": sorted(os.listdir(about / "fd")),
            "folder": os.readlink(about / "cwd"),
            "of the warden": int(stat[1]) == warden.pid,
            "leads its session": int(stat[3]) == process.pid,
            "has a terminal": int(stat[4]) != 0,
            **{name: status[name] for name in ("Name", "SigBlk", "SigCgt", "Uid", "Groups")},
            "ignored signals": int(status["SigIgn"], 16) & ~LIBC_SIGNALS,
        }
        process.release()
        return seen
    finally:
        await warden.close()


async def test_the_scripted_agent_says_of_itself_what_is_known_of_it() -> None:
    env = {"PATH": os.environ["PATH"]}
    for question in ("--version", "--help"):
        line = [*AGENT, question]
        assert await known_answers(None)(line, env) == await probe.run(line, env)


async def test_what_is_too_long_to_be_shown_is_executed(tmp_path: Path) -> None:
    with quick_starts():
        warden = await Warden.start()
    try:
        line = [*AGENT, f"--system={'x' * 20_000}", "--access=read"]
        env = {"PATH": os.environ["PATH"], "OSTLER_SCRIPT_HOME": str(tmp_path / "home")}
        process = await warden.spawn(line, cwd=str(tmp_path), env=env, mark="t1", stdin=b"[[echo:system]]")
        assert process.stdout_fd is not None
        said = b"".join([chunk async for chunk in chunks(process.stdout_fd)])
        assert b"x" * 20_000 in said
        process.release()
    finally:
        await warden.close()
