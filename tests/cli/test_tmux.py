"""`ostler tmux …`: panes listed, seen at once, attached to; what a kill left is found."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.in_pty import InPty
from ostler.process import tree
from waiting import wait_until
from work.conftest import stable
from work.panes.own_tmux import own_tmux, panes, tmux
from work.scripted import Stable

__all__ = ["stable"]


@pytest.fixture(autouse=True)
def server(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_tmux(stable.state, monkeypatch):
        yield


def ran(stable: Stable, *args: str, **env: str) -> tuple[int, str, str]:
    process = stable.cli(*args, **env)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def pane_for(stable: Stable, name: str) -> None:
    """A headless turn: it is the quickest way to a pane."""
    code, out, err = ran(
        stable, "run", "script", "go", "--name", name, "--transport", "tmux", OSTLER_TMUX_SHOWS="output"
    )
    assert code == 0, out + err


def test_panes_are_listed_tiled_attached_to_and_closed(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    assert ran(stable, "tmux", "list")[1].startswith("no panes")
    assert ran(stable, "tmux", "tile")[0] == 2
    for name in ("bay", "dun"):
        pane_for(stable, name)
    rows = json.loads(ran(stable, "tmux", "list", "--json")[1])
    assert [
        (row["name"], row["state"], row["server"], row["shows"]) for row in sorted(rows, key=lambda r: r["name"])
    ] == [
        ("bay", "idle", "own", "output"),
        ("dun", "idle", "own", "output"),
    ]
    attached(stable, "dun")
    assert ran(stable, "tmux", "tile")[1] == "2 panes in one window: ostler tmux attach\n"
    assert (
        tmux(stable.state, "list-windows", "-t", "ostler", "-F", "#{window_name} #{window_panes}").stdout == "all 2\n"
    )
    assert "needs a terminal" in ran(stable, "tmux", "attach")[2]
    ran(stable, "tmux", "tile", "--off")
    windows = tmux(stable.state, "list-windows", "-t", "ostler", "-F", "#{window_name}").stdout.split()
    assert sorted(windows) == ["bay", "dun"]
    for name in ("bay", "dun"):
        assert ran(stable, "close", name)[0] == 0
    assert panes(stable.state) == []


def attached(stable: Stable, name: str) -> None:
    """`ostler tmux attach` in a terminal: it shows the pane, and leaves it as it is."""
    window = InPty(["tmux", "attach", name], cwd=stable.folder, env=stable.env, cols=120, rows=30)
    try:
        window.until(b"Here.")
        window.type(b"\x02d")
        assert window.end() == 0
    finally:
        window.close()


def test_without_tmux_and_with_an_old_one(stable: Stable, tmp_path: Path) -> None:
    stable.script.plays([{"say": "Here."}])
    code, out, _ = ran(stable, "run", "script", "go", "--transport", "tmux", PATH=str(tmp_path))
    assert code == 1 and "`tmux` is not on PATH" in out and "--transport pty" in out
    old = tmp_path / "tmux"
    old.write_text("#!/bin/sh\necho tmux 2.9a\n")
    old.chmod(0o755)
    code, out, _ = ran(stable, "run", "script", "go", "--transport", "tmux", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert code == 1 and "tmux 2.9a is too old: panes need tmux 3.2 or newer" in " ".join(out.split())
    assert not (stable.state / "tmux" / "panes").exists()


def test_the_doctor_tells_of_tmux(stable: Stable, tmp_path: Path) -> None:
    def said(**env: str) -> str:
        [line] = [line for line in ran(stable, "doctor", **env)[1].splitlines() if line[2:].startswith("tmux ")]
        return line

    version = subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert said() == f"✓ tmux   {version}, no panes at work"
    assert said(PATH=str(tmp_path)) == "! tmux   `tmux` is not on PATH: no turns in panes"
    old = tmp_path / "tmux"
    old.write_text("#!/bin/sh\necho tmux 2.9a\n")
    old.chmod(0o755)
    too_old = "! tmux   tmux 2.9a is too old: panes need tmux 3.2 or newer: no turns in panes"
    assert said(PATH=f"{tmp_path}:{os.environ['PATH']}") == too_old
    old.write_text("#!/bin/sh\nexit 127\n")
    assert said(PATH=f"{tmp_path}:{os.environ['PATH']}").startswith("! tmux   ")


def test_prune_finds_what_is_left(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    pane_for(stable, "bay")
    [session] = json.loads(ran(stable, "sessions", "--json")[1])
    folder = stable.state / "tmux" / "panes"
    (folder / "gone").mkdir(mode=0o700)  # of a session that nobody knows
    ran(stable, "prune")
    assert [path.name for path in folder.iterdir()] == [session["id"]]
    server = int(tmux(stable.state, "display-message", "-p", "#{pid}").stdout)
    tmux(stable.state, "kill-server")
    wait_until(lambda: tree.identity(server) is None)
    code, *said = ran(stable, "run", "--session", "bay", "again", "--transport", "tmux", OSTLER_TMUX_SHOWS="output")
    assert code == 0, said
