"""A tmux that does not answer: whoever gives up on it leaves no process behind."""

import asyncio
import os

import pytest

from ostler.errors import OstlerError
from ostler.process import tmux
from ostler.process.tmux import TmuxClient, TmuxPlace, check_version, run_tmux


@pytest.fixture
def silent(tmp_path):
    """A program that says nothing, and who it is."""
    program = tmp_path / "tmux"
    program.write_text(f'#!/bin/sh\necho $$ > "{tmp_path}/new"; mv "{tmp_path}/new" "{tmp_path}/pid"; exec sleep 600\n')
    program.chmod(0o755)
    return TmuxPlace(program=str(program), folder=str(tmp_path), socket="s", session="x", env=dict(os.environ))


@pytest.mark.parametrize("what", ["start", "run", "version"])
async def test_a_cancelled_call_leaves_no_tmux(silent, what, tmp_path, until, pid_in):
    calls = {
        "start": lambda: TmuxClient.start(silent, ("new-session",), lambda: None),
        "run": lambda: run_tmux(silent, "list-panes"),
        "version": lambda: check_version(silent.program),
    }
    call = asyncio.create_task(calls[what]())
    pid = await until(lambda: pid_in(tmp_path / "pid"))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not os.path.exists(f"/proc/{pid}")


async def test_a_version_is_not_waited_for_for_ever(silent, monkeypatch):
    monkeypatch.setattr(tmux, "PATIENCE", 0.2)
    with pytest.raises(OstlerError, match="did not answer `-V` within") as caught:
        async with asyncio.timeout(20):
            await check_version(silent.program)
    assert caught.value.kind == "crashed"


async def test_a_tmux_that_cannot_run_is_not_called_too_old(tmp_path):
    program = tmp_path / "tmux"
    program.write_text("#!/bin/sh\necho 'libevent is missing' >&2; exit 127\n")
    program.chmod(0o755)
    with pytest.raises(OstlerError, match="/tmux -V` failed: libevent is missing") as caught:
        await check_version(str(program))
    assert caught.value.kind == "missing"
