"""What an agent does outside of its wall before a turn behind it."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from ostler import clock
from ostler.agents import AGENTS
from ostler.agents.adapter import State
from ostler.work.turns.agent_state import SOON, make_ready

SAYS = '#!/bin/sh\necho "$@" >> "$HOME/said"; mkdir -p "$HOME/.claw/db"\n'
NEEDS = State(prepare=("agent", "list"), prepared=(".claw/db",), renew=("auth", "status"), expires=json.loads)
CLAW = structs.replace(AGENTS["script"], homes={}, keys=("CLAW_KEY",), login_files=(".claw/login",), state=NEEDS)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "claw"
    path.write_text(SAYS)
    path.chmod(0o755)
    return path


async def said(program: Path, **env: str) -> list[str]:
    home = program.parent
    (home / "said").unlink(missing_ok=True)
    await make_ready(CLAW, [str(program)], {"HOME": str(home), "PATH": "/usr/bin:/bin", **env})
    return (home / "said").read_text().splitlines() if (home / "said").exists() else []


async def test_what_is_missing_is_made_once(program: Path) -> None:
    assert await said(program) == ["agent list"]
    assert await said(program) == []


async def test_a_login_is_renewed_where_it_is_about_to_end(program: Path) -> None:
    await said(program)
    login = program.parent / ".claw" / "login"
    for ends, expected in ((SOON + 60, []), (SOON - 60, ["auth status"]), (-60, ["auth status"])):
        login.write_text(str(clock.now() + ends))
        assert await said(program) == expected
    assert await said(program, CLAW_KEY="a key is no login") == []


async def test_a_command_that_fails_is_left_to_the_turn(tmp_path: Path) -> None:
    assert await said(tmp_path / "nowhere") == []
