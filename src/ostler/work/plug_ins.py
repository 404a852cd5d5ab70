"""Agents of other packages, by the entry point `ostler.agents`: looked for when one is first needed, once a process."""

import asyncio
import logging
import os
import sys
import threading
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from msgspec import Struct

from ostler import clock
from ostler.agents import AGENTS, Agent
from ostler.errors import quoted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ostler.agents"
PATIENCE = 10.0  # seconds for all of them: an import that hangs must not keep the other agents from working
SLOW = 2.0  # seconds after which a plug-in is told to be slow

_log = logging.getLogger(__name__)


class PlugIns(Struct, frozen=True):
    """What the plug-ins brought, and why some of them (by the names of their entry points) could not be used."""

    agents: dict[str, Agent] = {}
    problems: dict[str, str] = {}


_lock = threading.Lock()
_loaded: PlugIns | None = None


async def load_plug_ins() -> None:
    """From then on `plug_ins` holds nobody up: imports may take long, and an event loop must not wait for them."""
    if _loaded is None:
        await asyncio.to_thread(plug_ins)


def plug_ins() -> PlugIns:
    """All of them, loaded by the first call, which may take as long as the slowest import."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _load() -> PlugIns:
    if not _are_installed():
        return PlugIns()
    from importlib.metadata import entry_points

    loads = [_Load(point) for point in dict.fromkeys(entry_points(group=GROUP))]
    deadline = clock.monotonic() + PATIENCE
    for load in loads:
        load.thread.join(max(0.0, deadline - clock.monotonic()))
    agents: dict[str, Agent] = {}
    problems: dict[str, str] = {}
    for load in loads:
        agent, problem = load.outcome({**AGENTS, **agents})
        if agent is not None:
            agents[agent.name] = agent
        if problem:
            problems[load.point.name] = problem
            _log.warning("the plug-in %s: %s", load.point.name, problem)
        else:
            _log.debug("the plug-in %s is loaded", load.point.name)
    return PlugIns(agents, problems)


def _are_installed() -> bool:
    """Whether any may be. Hardly anyone has some, and to ask importlib.metadata is a tenth of a server's start."""
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path):
        return True  # packages come from elsewhere, too
    return any(_may_hold_some(folder or ".") for folder in sys.path)


def _may_hold_some(folder: str) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:
        return os.path.isfile(folder)  # an archive has to be looked into
    installed = (name for name in names if name.lower().endswith((".dist-info", ".egg-info")))
    return folder.endswith(".egg") or any(_names_some(f"{folder}/{name}/entry_points.txt") for name in installed)


def _names_some(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:
        return False  # most packages have none


class _Load:
    """One import, in a thread of its own: it cannot be ended, only left alone."""

    def __init__(self, point: "EntryPoint") -> None:
        self.point = point
        self._found: object = None
        self._error = ""
        self._seconds = 0.0
        self.thread = threading.Thread(target=self._run, name=f"ostler-plug-in-{point.name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        began = clock.monotonic()
        try:
            self._found = self.point.load()
        except BaseException as error:  # whatever a foreign package does, SystemExit too, the other agents stay
            self._error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self._seconds = clock.monotonic() - began

    def outcome(self, taken: dict[str, Agent]) -> tuple[Agent | None, str]:
        """The agent, if it can be used, and what is wrong with it."""
        if self.thread.is_alive():
            return None, f"{self.point.value} did not load within {PATIENCE:g} s"
        if self._error:
            return None, f"{self.point.value} cannot be loaded ({self._error})"
        if not isinstance(self._found, Agent):
            return None, f"{self.point.value} is not an ostler.agents.Agent"
        if self._found.name in taken:
            return None, f"there is an agent named {quoted(self._found.name)} already"
        slow = f"{self.point.value} took {self._seconds:.1f} s to load" if self._seconds > SLOW else ""
        return self._found, slow
