"""Who is asked about settings in a folder, and how it is trusted ahead."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.in_pty import InPty

SCRIPTED = [sys.executable, "-P", "-m", "ostler.testing.agent", "--acp"]
REAL = {"OSTLER_ONLY": ""}
RUN = ("run", "mine", "[[say:hello]]", "--access", "full", "--quiet")


@pytest.fixture
def mine(shell: Any) -> Any:
    """A shell with an agent of which nobody knows what it takes from a folder, and a folder that brings something."""
    shell.toml(f"[acp]\nmine = {json.dumps(SCRIPTED)}\n")
    (shell.folder / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    return shell


@pytest.fixture
def terminal(mine: Any) -> Iterator[Callable[..., InPty]]:
    started: list[InPty] = []

    def start(*args: str) -> InPty:
        started.append(InPty(list(args), cwd=mine.folder, env={**mine.environ, **REAL}, cols=300))
        return started[-1]

    yield start
    for pty in started:
        pty.close()


def question(mine: Any) -> bytes:
    return f"{mine.folder} has settings for mine: 1 MCP server (.mcp.json).\r\n".encode()


def test_without_a_terminal_nobody_is_asked(mine: Any) -> None:
    ran = mine(*RUN, env=REAL)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"mine would load settings from {mine.folder} that you have not trusted: .mcp.json" in ran.stderr
    assert "ostler trust" in ran.stderr


def test_a_person_is_asked_once_and_a_no_is_remembered(mine: Any, terminal: Callable[..., InPty]) -> None:
    pty = terminal(*RUN)
    pty.until(question(mine))
    pty.until(b"Trust it? It can run programs as you [y/N]: ")
    pty.type(b"\r")
    assert pty.end() == 1 and b"mine would load" in pty.seen
    again = terminal(*RUN)
    assert again.end() == 1 and b"Trust it?" not in again.seen and b"mine would load" in again.seen
    (mine.folder / ".mcp.json").write_text("{}")
    changed = terminal(*RUN)
    changed.until(b"has settings for mine: .mcp.json.\r\n")
    changed.until(b"[y/N]: ")
    changed.type(b"y\r")
    assert changed.end() == 0 and b"hello" in changed.seen
    assert mine(*RUN, env=REAL).stdout == "hello\n"


def test_a_person_is_asked_about_those_who_may_take_over_too(mine: Any, terminal: Callable[..., InPty]) -> None:
    pty = terminal("run", "script", "[[fail:limited]]", "--fallback", "mine", "--access", "full", "--quiet")
    pty.until(question(mine))
    pty.until(b"[y/N]: ")
    pty.type(b"y\r")
    pty.end()
    assert b"mine would load" not in pty.all
    assert mine(*RUN, env=REAL).stdout == "hello\n"


def test_a_profiles_fallback_is_asked_about(mine: Any, terminal: Callable[..., InPty]) -> None:
    mine.toml(f"[acp]\nmine = {json.dumps(SCRIPTED)}\n[profiles.twice]\nagent = 'script'\nfallback = ['mine']\n")
    pty = terminal("run", "twice", "[[say:hello]]", "--quiet")
    pty.until(question(mine))
    pty.until(b"[y/N]: ")
    pty.type(b"\r")
    assert pty.end() == 0


def test_chat_asks_before_its_first_line(mine: Any, terminal: Callable[..., InPty]) -> None:
    pty = terminal("chat", "mine", "--access", "full")
    pty.until(question(mine))
    pty.until(b"[y/N]: ")
    pty.type(b"y\r")
    pty.until_last_row(">")
    pty.type(b"[[say:hello there]]\r")
    pty.until(b" done")
    pty.until_last_row(">")
    pty.type(b"\x04")
    assert pty.end() == 0


def test_trust_lists_the_settings_of_a_folder_for_whom(mine: Any) -> None:
    (mine.folder / "ostler.toml").write_text('access = "write"\n')
    ran = mine("trust", stdin=b"n\n", env=REAL)
    lines = ran.stdout.splitlines()
    assert (ran.returncode, lines[:2]) == (1, [f"{mine.folder}/ostler.toml would set:", '  access = "write"'])
    line = f"{mine.folder} has settings for {{}}: 1 MCP server (.mcp.json)"
    assert {line.format(name) for name in ("claude", "qwen", "copilot", "mine")} <= {*lines}
    assert lines[-1] == "Trust it? [y/N]: not trusted"
    assert mine(*RUN, env=REAL).returncode == 1
    assert mine("trust", "--yes", env=REAL).returncode == 0
    assert mine(*RUN, env=REAL).stdout == "hello\n"
    (mine.folder / ".mcp.json").write_text("{ }")
    ran = mine(*RUN, env=REAL)
    assert ran.returncode == 1 and "that you have not trusted" in ran.stderr


def test_trust_of_a_folder_from_elsewhere(mine: Any, tmp_path: Any) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = mine("trust", str(mine.folder), stdin=b"y\n", env=REAL, cwd=elsewhere)
    assert f"{mine.folder} has settings for mine: 1 MCP server (.mcp.json)" in ran.stdout.splitlines()
    assert ran.returncode == 0 and ran.stdout.endswith("trusted\n")
    assert mine(*RUN, env=REAL).stdout == "hello\n"
    assert mine("trust", "--yes", env=REAL, cwd=elsewhere).returncode != 0  # nothing is there


def test_trust_without_an_ostler_toml(mine: Any) -> None:
    ran = mine("trust", "--yes", env=REAL)
    assert ran.returncode == 0 and ran.stdout.endswith("\ntrusted\n") and "ostler.toml" not in ran.stdout


def test_a_link_is_told_and_never_trusted(mine: Any) -> None:
    (mine.folder / ".mcp.json").unlink()
    (mine.folder / ".mcp.json").symlink_to("/etc/hostname")
    ran = mine("trust", "--yes", env=REAL)
    assert "It cannot be trusted: .mcp.json cannot be read as a file of this folder" in ran.stdout
    assert ran.returncode == 1
    assert ran.stdout.endswith("\ntrusted, except that .mcp.json cannot be read as a file of this folder\n")
    assert mine(*RUN, env=REAL).returncode == 1


def test_doctor_lists_it(mine: Any) -> None:
    ran = mine("doctor", "claude", "script", env=REAL)
    told = [line.strip() for line in ran.stdout.splitlines() if "MCP server" in line]
    assert told == ["folder     has 1 MCP server (.mcp.json): not trusted, run `ostler trust`"]
    mine("trust", "--yes", env=REAL)
    ran = mine("doctor", "claude", "--json", env=REAL)
    [report] = json.loads(ran.stdout)
    assert (report["project_config"], report["trusted"]) == ("1 MCP server (.mcp.json)", True)
