"""`ostler …` as a real process in a home of its own, served by the scripted agent."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefork import start_ostler


class Shell:
    """Runs ostler as a user would, with an environment that holds nothing of ours."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.folder = base / "work"
        self.home.mkdir()
        self.folder.mkdir()
        self.environ = {
            "HOME": str(self.home),
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "OSTLER_ONLY": "script",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *args: str, **options: object) -> "subprocess.Popen[bytes]":
        defaults: dict[str, object] = {
            "cwd": self.folder,
            "env": {**self.environ, **options.pop("env", {})},  # type: ignore[dict-item]
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        process = start_ostler(args, **{**defaults, **options})
        self.started.append(process)
        return process

    def __call__(self, *args: str, stdin: bytes | None = None, **options: object) -> "subprocess.CompletedProcess[str]":
        if stdin is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*args, **options)
        out, err = process.communicate(stdin, timeout=60)
        return subprocess.CompletedProcess(args, process.returncode, out.decode(), err.decode())

    def toml(self, text: str) -> Path:
        path = self.home / ".config/ostler/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    for process in shell.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
