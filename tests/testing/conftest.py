"""What the tests of `ostler.testing` share: the scripted agent as a real process, a plain HTTP client."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ostler.testing import ScriptedAgent, agent


class Ran(NamedTuple):
    """How the scripted agent ended."""

    code: int
    records: list[Any]
    out: bytes
    err: str

    @property
    def kinds(self) -> list[str]:
        return [record.get("kind") or record.get("type") for record in self.records]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if kind in (record.get("kind"), record.get("type"))]

    @property
    def result(self) -> dict[str, Any]:
        assert self.kinds.count("result") == 1 and self.kinds[-1] == "result"
        return dict(self.records[-1])


Play = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


@pytest.fixture
def play(scripted_agent: ScriptedAgent, folder: Path) -> Play:
    """Runs the scripted agent to its end; `steps` is a reply to every prompt."""

    def run(prompt: str, *flags: str, steps: list[dict[str, Any]] | None = None, **env: str) -> Ran:
        if steps is not None:
            scripted_agent.plays(steps)
        done = subprocess.run(
            command(*flags),
            check=False,
            input=prompt.encode(),
            cwd=folder,
            capture_output=True,
            env={"PATH": os.environ["PATH"], **scripted_agent.env, **env},
            timeout=60,
        )
        lines = done.stdout.splitlines()
        return Ran(
            done.returncode, [r for r in map(decoded, lines) if isinstance(r, dict)], done.stdout, done.stderr.decode()
        )

    return run


def command(*flags: str) -> list[str]:
    return [sys.executable, "-IS", agent.__file__, *flags]


def decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str | None, Any]]:
        """The server-sent events: (name, data), data decoded where it is JSON."""
        assert self.headers["Content-Type"] == "text/event-stream"
        found: list[tuple[str | None, Any]] = []
        for block in self.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            if fields:
                data = fields["data"]
                found.append((fields.get("event"), data if data == "[DONE]" else json.loads(data)))
        return found


def post(url: str, body: Any, headers: dict[str, str] | None = None) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return Reply(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, dict(error.headers), error.read())


@pytest.fixture(name="post")
def post_fixture() -> Callable[..., Reply]:
    return post


@pytest.fixture(name="command")
def command_fixture() -> Callable[..., list[str]]:
    return command
