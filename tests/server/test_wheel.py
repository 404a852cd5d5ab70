"""The wheel carries the built page, whole, and is all that has to be installed."""

import json
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = "ostler/server/page"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return zipfile.ZipFile(found)


def test_the_wheel_has_the_page_whole_and_nothing_of_an_earlier_one(wheel: zipfile.ZipFile) -> None:
    """From index.html every asset is reached, through those that are fetched later too, and each one is there."""
    assets = {Path(name).name for name in wheel.namelist() if name.startswith(f"{PAGE}/assets/")}
    index = wheel.read(f"{PAGE}/index.html").decode()
    reached: set[str] = set()
    waiting = set(re.findall(r'"\./assets/([^"]+)"', index))
    assert {Path(name).suffix for name in waiting} == {".js", ".css"}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        text = wheel.read(f"{PAGE}/assets/{name}").decode()  # KeyError: it is missing
        waiting |= set(re.findall(r"[\w.-]+-[\w-]{8}\.(?:js|css)", text)) - reached
    assert reached == assets
    assert f"{PAGE}/favicon.svg" in wheel.namelist()


def test_the_page_has_no_script_of_its_own_and_names_no_other_origin(wheel: zipfile.ZipFile) -> None:
    """What the Content-Security-Policy forbids is not there in the first place."""
    index = wheel.read(f"{PAGE}/index.html").decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", index) == []
    assert re.findall(r'(?:src|href)="(?:https?:)?//', index) == []
    assert re.findall(r"\son\w+=", index) == []


def test_the_wheel_has_the_package_and_not_the_sources_of_the_page(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "ostler/server/app.py" in names
    assert [name for name in names if name.endswith((".svelte", ".ts")) or "node_modules" in name] == []


@pytest.mark.long
def test_installed_in_a_fresh_environment_it_runs_a_turn(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Its dependencies are those of this environment; ostler itself is the wheel's."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    install = [
        "-m",
        "pip",
        "--python",
        str(tmp_path / "venv"),
        "install",
        "--no-deps",
        "--no-index",
        "--ignore-installed",
    ]
    subprocess.run([sys.executable, *install, "--quiet", str(wheel.filename)], check=True, timeout=100)
    assert (packages / "ostler" / "server" / "page" / "index.html").exists()
    command = [str(tmp_path / "venv" / "bin" / "ostler"), "run", "script", "hello", "--json"]
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(command, check=False, cwd=tmp_path, env=env, capture_output=True, stdin=subprocess.DEVNULL)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(ran.stdout)["outcome"] == "done"
    where = [command[0].replace("/ostler", "/python"), "-c", "import ostler; print(ostler.__file__)"]
    assert subprocess.run(where, check=True, capture_output=True, text=True).stdout.startswith(str(packages))
