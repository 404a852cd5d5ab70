"""A sandbox of an agent's own that is there and does not work: found out once, and a wall stands in for it."""

from pathlib import Path
from typing import Any

import pytest

from needs import needs
from ostler.agents import AGENTS
from ostler.model import Turn
from ostler.process import landlock
from ostler.settings import Settings
from ostler.work.own_sandbox import broken_programs, try_sandbox
from ostler.work.probe import report
from ostler.work.turns.setup import programs_of
from ostler.work.turns.turn_walls import wall_of, with_tried_sandbox
from work.scripted import Stable

CLAUDE = AGENTS["claude"]
FORBIDDEN = "echo 'bwrap: setting up uid map: Permission denied'; exit 1"


class Remembered(dict[str, Any]):
    """A cache of probes."""

    async def put(self, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH in which bwrap counts how often it is started."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bwrap", "socat", "claude"):
        set_program(folder / name, "exit 0")
    return folder


def set_program(path: Path, does: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\necho x >> {path}.started\n{does}\n")
    path.chmod(0o755)


def started(programs: Path) -> int:
    path = programs / "bwrap.started"
    return len(path.read_text().split()) if path.exists() else 0


async def test_it_is_tried_once_and_again_when_it_has_changed(programs: Path) -> None:
    cache, path = Remembered(), f"{programs}:/usr/bin:/bin"
    for _ in range(2):
        assert await broken_programs(CLAUDE, {}, path, cache) == frozenset()
    assert started(programs) == 1
    set_program(programs / "bwrap", FORBIDDEN)
    for _ in range(2):
        assert await broken_programs(CLAUDE, {}, path, cache) == {"bwrap", "socat"}
    assert started(programs) == 2
    trial = await try_sandbox(CLAUDE, (), {}, path)
    assert (trial.state, trial.problem) == ("broken", "bwrap: setting up uid map: Permission denied")


async def test_what_cannot_be_known_is_not_remembered(programs: Path) -> None:
    cache, path = Remembered(), str(programs)
    set_program(programs / "bwrap", "exit 2")
    assert await broken_programs(CLAUDE, {}, path, cache) == frozenset() and cache == {}
    (programs / "socat").unlink()  # one that is missing is no riddle
    assert await broken_programs(CLAUDE, {}, path, cache) == frozenset() and started(programs) == 1
    assert await broken_programs(AGENTS["codex"], {}, path, cache) == frozenset()  # it has no wall to be put behind
    assert await broken_programs(AGENTS["gemini"], {}, path, cache) == frozenset()


@needs("landlock")
@pytest.mark.parametrize(("does", "by"), [("exit 0", "sandbox"), (FORBIDDEN, "wall")])
async def test_a_wall_stands_in_for_it(stable: Stable, programs: Path, does: str, by: str) -> None:
    set_program(programs / "bwrap", does)
    async with stable.ostler(PATH=f"{programs}:/usr/bin:/bin", OSTLER_WALLS="auto", OSTLER_ONLY="") as o:
        setup = o.setup_in(str(stable.folder))
        turn = Turn(id="t", session="s", agent="claude", prompt="x", folder=str(stable.folder), access="write")
        setup = await with_tried_sandbox(setup, CLAUDE, "write")
        assert (wall_of(setup, turn, CLAUDE) is not None) is (by == "wall")
        known = programs_of(setup, CLAUDE, "write")
        assert ({"bwrap", "socat"} <= known) is (by == "sandbox")
        told = await report(CLAUDE, setup.environ, Settings(), Remembered())
        assert (told.kept["read"].by, told.kept["write"].by) == ("wall", by)


async def test_without_walls_its_commands_are_off(
    stable: Stable, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    set_program(programs / "bwrap", FORBIDDEN)
    async with stable.ostler(PATH=f"{programs}:/usr/bin:/bin", OSTLER_WALLS="auto", OSTLER_ONLY="") as o:
        setup = await with_tried_sandbox(o.setup_in(str(stable.folder)), CLAUDE, "write")
        turn = Turn(id="t", session="s", agent="claude", prompt="x", folder=str(stable.folder), access="write")
        assert wall_of(setup, turn, CLAUDE) is None
        assert programs_of(setup, CLAUDE, "write") == frozenset()
