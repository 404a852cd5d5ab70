"""Walls: which turns get one, and what it leaves open. Decided here, built by the warden (process/landlock.py)."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from ostler.access import Access
from ostler.agents import Agent
from ostler.agents.adapter import State, state_path
from ostler.errors import OstlerError
from ostler.model import Enforcement, Wall
from ostler.process import landlock
from ostler.settings import Settings

if TYPE_CHECKING:
    from ostler.work.shadows import Shadow

_SHARED_MEMORY = "/dev/shm"  # process pools and browsers need it; there is nothing of the user's in it
_LARGEST_POINTER = 4096  # bytes of a `.git` that is a file
# They run programs from a cache that they have to write, in which one could be planted.
LAUNCHERS = ("npx", "pnpx", "bunx", "uvx", "pipx")
_LARGEST_LOGIN = 256 * 1024
_CACHES = {"npm_config_cache": ".npm", "UV_CACHE_DIR": ".cache/uv", "GOCACHE": ".cache/go-build"}


class Enclosure(Struct, frozen=True, kw_only=True):
    """What a process is kept in: a wall, a temporary folder of its own, and what has to be there before it starts.

    Without a wall it has a shadow alone, for settings that its launch adds to the agent's own.
    """

    wall: Wall | None
    scratch: str
    env: dict[str, str]  # the variables that lead there
    outside: dict[str, str] = {}  # what those that lead to a shadow are outside
    folders: tuple[str, ...] = ()  # of the agent's state
    fleeting: tuple[str, ...] = ()  # of these, those that go with the turn
    files: tuple[str, ...] = ()
    shadow: "Shadow | None" = None

    @property
    def shape(self) -> tuple[object, ...]:
        """What of it is the same for every turn that may share a process: without what is one turn's own."""
        if self.wall is None:
            return ()
        wall, own = self.wall, {self.scratch, *self.fleeting}
        opened = tuple(path for path in wall.writable if path not in own)
        return opened, wall.editable, wall.readable is not None, wall.sockets


def wall_around(
    settings: Settings,
    agent: Agent,
    access: Access,
    folder: str,
    *,
    state: str,
    environ: Mapping[str, str],
    programs: Collection[str] = (),
    session: str | None = None,
) -> Enclosure | None:
    """The wall for a turn; None where there is none. Raises denied.

    `state` is ostler's state folder, `session` the agent's own id of the conversation.
    """
    if missing := why_no_wall(settings, agent, access, programs):
        if settings.walls == "required" and access != "full" and not has_own_sandbox(agent, access, programs):
            raise OstlerError("denied", f"walls are required, and {missing}", 'Set walls = "auto" to do without')
        return None
    home = environ.get("HOME") or os.path.expanduser("~")
    if access == "write":
        _check_folder(folder, (os.path.expanduser("~"), home), state)
    scratch = os.path.join(state, "tmp", os.urandom(4).hex())  # short: programs bind sockets in it
    own = (folder, *git_folders(folder)) if access == "write" else ()
    opened = [home + path[1:] if path == "~" or path.startswith("~/") else path for path in settings.wall_paths]
    needs = agent.state or State()
    folders, files = (_paths(agent, names, home, environ) for names in (needs.kept, needs.edited))
    logins = [path for path in _paths(agent, needs.oauth, home, environ) if _is_renewed(path)]
    own_names = [name.format(session=session) for name in needs.fleeting if session]
    fleeting = _paths(agent, own_names, home, environ)
    shadow, leads = _shadow(agent, home, environ, f"{scratch}/home")
    return Enclosure(
        wall=Wall(
            writable=(*own, scratch, _SHARED_MEMORY, *folders, *fleeting, *opened),
            editable=(*files, *logins),
            readable=None if settings.read_secrets else _but_secrets(agent, home, environ),
            sockets=agent.name in settings.wall_sockets,
        ),
        scratch=scratch,
        env={"TMPDIR": scratch, **_caches(scratch, home, opened, environ), **leads},
        outside={variable: environ.get(variable, "") for variable in leads},
        folders=folders,
        fleeting=fleeting,
        files=files,
        shadow=shadow,
    )


def shadow_alone(agent: Agent, *, state: str, environ: Mapping[str, str]) -> Enclosure:
    """A shadow of the agent's state folder without a wall: all in it is linked, and what is new there is kept."""
    home = environ.get("HOME") or os.path.expanduser("~")
    scratch = os.path.join(state, "tmp", os.urandom(4).hex())
    shadow, leads = _shadow(agent, home, environ, f"{scratch}/home")
    if shadow is not None:
        shadow = structs.replace(shadow, copied=(), anew=(), logins={}, keeps_new=True)
    return Enclosure(
        wall=None,
        scratch=scratch,
        env=leads,
        outside={variable: environ.get(variable, "") for variable in leads},
        folders=_paths(agent, (agent.state or State()).kept, home, environ),
        shadow=shadow,
    )


def why_no_wall(settings: Settings, agent: Agent, access: Access, programs: Collection[str]) -> str:
    """Why a turn of this agent has no wall; "" if it has one. `programs`: those of the agent's that are on PATH."""
    if access == "full":
        return "--access full has no wall"
    if settings.walls == "off":
        return 'walls are "off" in your settings'
    if has_own_sandbox(agent, access, programs):
        return f"{agent.name} has a sandbox of its own"
    if agent.state is None:
        return f"{agent.name} has not been tried behind a wall"
    if launcher := _unknown_launcher(settings, agent):
        runs = f"{launcher} runs programs from a cache it has to write"
        return f"{runs}: install {agent.name} and point your settings at its program"
    if agent.name in settings.loose and not agent.state.is_known and settings.walls != "required":
        return f"{agent.name} is listed under `loose` in your settings"
    return why_no_walls()


def _unknown_launcher(settings: Settings, agent: Agent) -> str:
    """What the settings start it with, if that starts whatever it has in a cache, and nobody can tell what that is."""
    plain = settings.agents.get(agent.name)
    by = settings.commands.get(agent.name) or settings.acp.get(agent.name) or (plain.command if plain else ())
    name = os.path.basename(by[0]) if by else ""
    if name not in LAUNCHERS:
        return ""
    from ostler.work.launchers import launcher_call

    return name if launcher_call(by) is None else ""


def kept(settings: Settings, agent: Agent, access: Access, programs: Collection[str]) -> Enforcement:
    """What keeps an agent to an access here, and if no wall does, why."""
    why = why_no_wall(settings, agent, access, programs)
    if not why:
        return Enforcement(by="wall")
    if has_own_sandbox(agent, access, programs):
        return Enforcement(by="sandbox")
    refused = settings.walls == "required" or (access in agent.unpromised and agent.name not in settings.loose)
    return Enforcement(by="denied" if refused else "flags", why=why)


def has_own_sandbox(agent: Agent, access: Access, programs: Collection[str]) -> bool:
    """Whether the agent keeps this access by a sandbox of its own, as far as its programs are there."""
    sandbox = agent.sandbox
    return sandbox is not None and access in sandbox.keeps and {*sandbox.programs} <= {*programs}


def why_no_walls() -> str:
    """Why this machine cannot build walls; "" if it can."""
    version = landlock.abi()
    if version >= landlock.LEAST_ABI:
        return ""
    if not version:
        return "this kernel has no Landlock"
    return f"this kernel has Landlock version {version}; walls need {landlock.LEAST_ABI}"


def described_walls() -> tuple[bool, str]:
    """Whether there are walls on this machine, and what they hold, for people."""
    if missing := why_no_walls():
        return False, f"none: {missing}"
    if failed := _tried():
        return False, f"none: {failed}"
    version = landlock.abi()
    held = "files, signals, unix sockets" if version >= 6 else "files, unix sockets; not signals"
    return True, f"Landlock version {version}: {held}"


def _tried() -> str:
    """What is wrong with a wall that was built around `/bin/sh`; "" if it held."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ostler-wall-") as folder:
        line = ["/bin/sh", "-c", f"exec 2>/dev/null; echo x > {folder}/outside"]
        try:
            pid = landlock.start_behind(((), (), None, False), lambda: os.posix_spawn("/bin/sh", line, {}))
        except OSError as error:
            return f"it could not be built: {error.strerror}"
        os.waitpid(pid, 0)
        return "it did not hold" if os.listdir(folder) else ""


def _check_folder(folder: str, homes: Sequence[str], state: str) -> None:
    """A folder that holds HOME, or ostler's own state, is no wall around anything."""
    held = {"your home folder": homes, "ostler's own state": (state,)}
    for what, paths in held.items():
        if any(Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)) for path in paths):
            message = f"{folder} holds {what}: under --access write everything in it could be changed"
            raise OstlerError("denied", message, "Work in a subfolder, or use --access full")


def _paths(agent: Agent, names: Sequence[str], home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(state_path(agent, name, home, environ) for name in names)


def _but_secrets(agent: Agent, home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    from ostler.work.secret_files import all_but, hidden_paths

    return tuple(all_but(hidden_paths(agent, home, environ)))


def _is_renewed(login: str) -> bool:
    """Whether a file holds a login that its agent renews: one that is spent has to be kept."""
    try:
        with open(login, "rb") as file:
            return b"oauth" in file.read(_LARGEST_LOGIN)
    except OSError:
        return False  # there is none


def _shadow(agent: Agent, home: str, environ: Mapping[str, str], place: str) -> "tuple[Shadow | None, dict[str, str]]":
    """What stands in for the agent's state folder, and the variable that leads there."""
    needs = agent.state
    if needs is None or not needs.shadowed:
        return None, {}
    from ostler.work.shadows import Shadow

    real = state_path(agent, needs.shadowed, home, environ)
    ((variable, stands_for),) = agent.homes.items()
    inner = os.path.relpath(needs.shadowed, stands_for or ".")
    shadow = Shadow(
        real=real,
        place=place if inner == "." else os.path.join(place, inner),
        beside="" if inner == "." else environ.get(variable) or home,
        settings_file=needs.settings,
        copied=needs.copied,
        anew=needs.anew,
        logins=dict(needs.logins),
    )
    return shadow, {variable: place}


def _caches(scratch: str, home: str, opened: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Tools that fail where they cannot write their cache get one in the turn's own folder, unless theirs is opened."""
    return {
        variable: os.path.join(scratch, os.path.basename(usual).lstrip("."))
        for variable, usual in _CACHES.items()
        if not any(Path(environ.get(variable) or os.path.join(home, usual)).is_relative_to(path) for path in opened)
    }


def git_folders(folder: str) -> list[str]:
    """Where git keeps what belongs to a linked work tree: outside of the folder, or commits fail.

    Only where the repository itself says that this is a work tree of it: the folder could name any path.
    """
    pointer = os.path.join(folder, ".git")
    own = _pointed_to(pointer, "gitdir: ")
    if own is None or _pointed_to(os.path.join(own, "gitdir")) != os.path.realpath(pointer):
        return []
    common = _pointed_to(os.path.join(own, "commondir"))
    return [common] if common is not None else []


def _pointed_to(file: str, prefix: str = "") -> str | None:
    """The path that a file of git holds, resolved; None if it is not such a file."""
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read(_LARGEST_POINTER)
    except (OSError, UnicodeDecodeError):
        return None
    if not text.startswith(prefix) or "\0" in text:
        return None
    return os.path.realpath(os.path.join(os.path.dirname(file), text.removeprefix(prefix).rstrip("\n")))
