"""The examples are run as a user runs them, and what they print is compared."""

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED = {
    "one_turn.py": """\
It keeps a stable.
done by claude, cost: 0.0042
go on with: ostler run --session ID
""",
    "stream_events.py": """\
thinks: A small script will do.
> write greet.sh
  ok: wrote 27 characters
> shell sh greet.sh
  ok: hello from the stable
greet.sh greets.
done; changed: ['add greet.sh']
""",
    "schema.py": "4/5 the gate is open\n",
    "sessions.py": """\
resumed: Remember the word harness.
forked: Remember the word harness. | What did I ask you before?
{False: 1, True: 2}
""",
    "limits.py": """\
timed_out - the turn took longer than 1 s
cancelled - what it said is kept: one
""",
}


def run(tmp_path: Path, *command: str, **env: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a Python program in a scratch home and folder."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        cwd=tmp_path / "project",
        env={"HOME": str(tmp_path / "home"), "PATH": os.defpath, "LANG": "C.UTF-8", "OSTLER_SCRIPT_SPEED": "0", **env},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, tmp_path: Path) -> None:
    scripted = {"OSTLER_ONLY": "script", "OSTLER_SCENARIO": str(EXAMPLES / "scenario.toml")}
    code, out, err = run(tmp_path, str(EXAMPLES / name), "claude", **scripted)
    assert (code, re.sub(r"(--session )\w+", r"\1ID", out), err) == (0, EXPECTED[name], "")


def test_fallback(tmp_path: Path) -> None:
    """Not under OSTLER_ONLY: the agents are missing indeed, since none is on this PATH."""
    scenario = str(EXAMPLES / "scenario.toml")
    code, out, err = run(tmp_path, str(EXAMPLES / "fallback.py"), PATH=str(tmp_path), OSTLER_SCENARIO=scenario)
    expected = """\
claude: `claude` is not on PATH; codex takes the turn
codex: `codex` is not on PATH; script takes the turn
script: It keeps a stable.
"""
    assert (code, out, err) == (0, expected, "")


def test_serve(tmp_path: Path) -> None:
    """What `make run` does: a server, a turn at work in it, a terminal, a link; and nothing of it is left."""
    code, out, err = run(tmp_path, str(EXAMPLES / "serve.py"), "--once", TMPDIR=str(tmp_path))
    assert (code, err) == (0, "")
    link = re.search(r"open   http://127\.0\.0\.1:(\d+)/#t=\S+", out)
    assert link, out
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(link[1]))) != 0
    assert list(tmp_path.glob("ostler-demo-*")) == []
    assert "an agent in its own screen" in out  # which `show_agent` began


def test_first_turn(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, str(EXAMPLES / "first_turn.py"), OSTLER_ONLY="script", TMPDIR=str(tmp_path))
    assert (code, err) == (0, "")
    assert [line for line in ("✓ done", "1 file changed", "What to try next") if line not in out] == []


def test_the_example_tests_pass(tmp_path: Path) -> None:
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_your_code.py"))
    code, out, _ = run(tmp_path, *command, PYTHONDONTWRITEBYTECODE="1")
    assert (code, re.search(r"\d+ passed", out)[0]) == (0, "3 passed"), out  # type: ignore[index]


def test_the_tests_of_the_plug_in_pass(tmp_path: Path) -> None:
    tests = EXAMPLES / "plug_in" / "test_pony.py"
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tests.parent}", str(tests))
    code, out, _ = run(tmp_path, *command, PYTHONDONTWRITEBYTECODE="1")
    assert (code, re.search(r"\d+ passed", out)[0]) == (0, "2 passed"), out  # type: ignore[index]


@pytest.mark.parametrize(
    ("flag", "prompt", "said", "evidence"),
    [
        ("--access=read", "a letter", "I carried: a letter", "end, ok"),
        ("--dialog", "[[say:carried by ACP]]", "carried by ACP", "stop reason end_turn"),
    ],
)
def test_the_plug_in_drives_its_agent(flag: str, prompt: str, said: str, evidence: str, tmp_path: Path) -> None:
    """Installed as `pip install` would: an entry point, and the made-up CLI on PATH."""
    folder = EXAMPLES / "plug_in"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / "ostler_pony-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ostler-pony\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["ostler.agents"].items())
    (info / "entry_points.txt").write_text(f"[ostler.agents]\n{points}")
    program = tmp_path / "pony"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {folder / "pony.py"} "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.defpath}"
    env = {"PYTHONPATH": f"{tmp_path / 'site'}:{folder}", "PYTHONDONTWRITEBYTECODE": "1", "PATH": path}
    code, out, err = run(tmp_path, "-m", "ostler", "run", "pony", prompt, flag, "--json", **env)
    envelope = json.loads(out)
    assert (code, envelope["text"], envelope["evidence"]) == (0, said, [evidence]), err


def test_every_example_is_told_and_tested() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == {*EXPECTED, "fallback.py", "first_turn.py", "serve.py", "test_your_code.py"}
    text = (EXAMPLES / "README.md").read_text()
    assert "[plug_in/](plug_in/)" in text
    assert [name for name in programs if f"[{name}]({name})" not in text] == []
