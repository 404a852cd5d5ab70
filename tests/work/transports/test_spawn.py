"""The process of an attempt, and the files that are placed for it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.agents.script.agent import AGENT, ScriptReader
from ostler.errors import OstlerError
from ostler.model import Launch, Turn
from ostler.process import Warden, chunks
from ostler.store import Redactor
from ostler.work.transports.spawn import spawn_attempt
from ostler.work.transports.transport import Attempt


@pytest.fixture
async def warden() -> AsyncIterator[Warden]:
    warden = await Warden.start()
    try:
        yield warden
    finally:
        await warden.close()


def attempt_of(folder: Path, *argv: str, stdin: int | None = None) -> Attempt:
    turn = Turn(id="t1", session="s1", agent="script", prompt="", folder=str(folder))
    files = {str(folder / "private" / "secret"): b"x"}
    return Attempt(
        turn=turn,
        agent=AGENT,
        reader=ScriptReader(turn),
        launch=Launch(argv=argv, stdin=b"of the launch", files=files, folder_files={"AGENTS.md": "y"}),
        env={"PATH": os.defpath},
        served_by="script",
        records_of="script",
        redactor=Redactor(),
        effective_turn=turn,
        transport="pipe",
        state=str(folder / "state"),
        stdin=stdin,
    )


async def test_it_runs_with_its_files_and_its_stdin(warden: Warden, tmp_path: Path) -> None:
    process, placed = await spawn_attempt(attempt_of(tmp_path, "/bin/cat", "-", "AGENTS.md"), warden, mark="t1")
    assert process.stdout_fd is not None
    said = b"".join([chunk async for chunk in chunks(process.stdout_fd)])
    assert said == b"of the launchy"
    assert {str(tmp_path / "private" / "secret"), str(tmp_path / "AGENTS.md")} <= {*placed}
    await process.wait()
    process.release()


async def test_a_descriptor_counts_before_the_stdin_of_the_launch(warden: Warden, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"of the user")
    os.close(write)
    process, _ = await spawn_attempt(attempt_of(tmp_path, "/bin/cat", stdin=read), warden, mark="t1")
    os.close(read)
    assert process.stdout_fd is not None
    assert b"".join([chunk async for chunk in chunks(process.stdout_fd)]) == b"of the user"
    await process.wait()
    process.release()


async def test_what_does_not_start_leaves_no_file_behind(warden: Warden, tmp_path: Path) -> None:
    with pytest.raises(OstlerError) as refused:
        await spawn_attempt(attempt_of(tmp_path, str(tmp_path / "gone")), warden, mark="t1")
    assert refused.value.kind == "missing"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
