"""Finding an agent's binary, and what it can do: asked of the binary itself, once."""

import asyncio
import logging
import os
import re
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

import ostler
from ostler.access import ACCESS_ORDER, Access
from ostler.agents import Agent
from ostler.agents.adapter import located
from ostler.agents.failures import last_line
from ostler.agents.launches import has_flag, version_numbers
from ostler.errors import OstlerError, kind_of_os_error
from ostler.model import Enforcement, TransportName
from ostler.settings import Settings
from ostler.work.transports.choose import transports_of
from ostler.work.transports.tasks import all_of
from ostler.work.turns.environment import child_environment, withheld

SECONDS = 60.0  # gemini took more than 20 on a busy machine
MAX_OUTPUT = 1024 * 1024
_PACKAGES = os.path.dirname(os.path.dirname(ostler.__file__))
_ANSI = r"\x1b\[[0-9;?]*[ -/]*[@-~]"
_VERSION = r"\d+\.\d+[\w.+-]*"

LoginState = Literal["yes", "no", "unknown"]

_log = logging.getLogger(__name__)


class Probe(Struct, frozen=True, kw_only=True):
    """What a binary said of itself."""

    path: str
    version: str = ""
    help: str = ""
    problem: str = ""  # why it said nothing


class ProbeCache(Protocol):
    """Where probes are kept between processes."""

    def get(self, key: str) -> Any: ...

    async def put(self, key: str, value: Any) -> None: ...


def chosen(settings: Settings, agent: str) -> tuple[str, ...] | None:
    """What the settings say to run for this agent. The arguments of a plain agent come with its launch."""
    plain = settings.agents.get(agent)
    return settings.commands.get(agent) or settings.acp.get(agent) or (plain.command[:1] if plain else None)


def find(agent: Agent, path: str, override: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """The argv prefix that starts the agent: by the settings, or its first binary on `path`; None without one."""
    if override:
        first = on_path(override[0], path)
        return (first, *override[1:]) if first is not None else None
    if agent.module:
        # A file of ours, and -I: a folder of the turn that has a package named ostler must not be imported.
        return (sys.executable, "-IS", os.path.join(_PACKAGES, *agent.module.split(".")) + ".py")
    programs = (on_path(name, path) for name in agent.binaries)
    return next(((program,) for program in programs if program is not None), None)


def on_path(name: str, path: str) -> str | None:
    """The absolute path of a program. Relative entries of PATH are left out: they mean the turn's folder."""
    if os.path.isabs(name):
        return name if is_program(name) else None
    if os.sep in name:
        return None
    return next((full for entry in _folders(path) if is_program(full := f"{entry}{name}")), None)


@lru_cache(maxsize=16)
def _folders(path: str) -> tuple[str, ...]:
    """The absolute entries of PATH, each with a slash at its end."""
    return tuple(os.path.join(entry, "") for entry in path.split(os.pathsep) if os.path.isabs(entry))


def is_program(path: str) -> bool:
    try:
        # First what says no without an exception: of the folders on PATH most do not have it.
        return os.access(path, os.X_OK) and stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def is_probed(agent: Agent) -> bool:
    """Whether its binary is asked what it can do. The protocol of a dialog tells that by itself."""
    return agent.probed and agent.one_shot


async def probe(agent: Agent, executable: Sequence[str], env: Mapping[str, str], cache: ProbeCache) -> Probe:
    """What the binary can do. Raises missing if it does not start, unsupported if it lacks a flag we need, too_many
    where the machine has no room for it.
    """
    return judged(agent, await _ask(agent, executable, env, cache))


def judged(agent: Agent, found: Probe) -> Probe:
    """What was found. Raises as `probe` does."""
    if found.problem:
        raise OstlerError("missing", f"`{found.path}` does not work: {found.problem}", f"Install: {agent.install}")
    if missing := lacking(agent, found):
        raise OstlerError("unsupported", missing, f"Update: {agent.install}")
    return found


async def ask(agent: Agent, executable: Sequence[str], env: Mapping[str, str], cache: ProbeCache) -> Probe:
    """What it says of itself, or why it does not. Raises nothing."""
    try:
        return await _ask(agent, executable, env, cache)
    except OstlerError as error:
        return Probe(path=executable[0], problem=error.message)


async def _ask(agent: Agent, executable: Sequence[str], env: Mapping[str, str], cache: ProbeCache) -> Probe:
    """Run `--version` and the help commands, or remember what they said. Raises as `run` does."""
    known = remembered(agent, executable, cache)
    if known is not None:
        return known
    quiet = {**env, "NO_COLOR": "1", "COLUMNS": "200"}
    answers = await all_of(run([*executable, *args], quiet) for args in (("--version",), *agent.help))
    (code, said), helps = answers[0], answers[1:]
    text = "\n".join(output for _, output in helps)
    _log.debug("asked %s for its version and help: %s", executable[0], "no answer" if code is None else f"exit {code}")
    if code != 0:
        why = (code is not None and last_line(said)) or no_version(
            code
        )  # one that was killed may have said much by then
        return Probe(path=executable[0], help=text, problem=why)
    found = Probe(path=executable[0], version=version_of(said), help=text)
    if all(code is not None for code, _ in helps):
        await cache.put(cache_key(agent, executable), msgspec.to_builtins(found))
    return found


def remembered(agent: Agent, executable: Sequence[str], cache: ProbeCache) -> Probe | None:
    """What this very binary said before."""
    return _known(cache.get(cache_key(agent, executable)))


def lacking(agent: Agent, found: Probe) -> str:
    """The flags that a launch needs and the help does not name, as one line; "" if there are none."""
    gone = [flag for flag in agent.needs if not has_flag(found.help, flag)]
    return f"{agent.name} {found.version} has no {', '.join(gone)}" if gone else ""


def cache_key(agent: Agent, executable: Sequence[str]) -> str:
    """A new binary, or another question to it, is another key."""
    try:
        info = os.stat(executable[0])
        mark = [info.st_size, info.st_mtime_ns]
    except OSError:
        mark = []
    return msgspec.json.encode([list(executable), mark, agent.help]).decode()


def _known(value: Any) -> Probe | None:
    try:
        return msgspec.convert(value, Probe)
    except msgspec.ValidationError:
        return None


# -- running ----------------------------------------------------------------------------------------


async def run(argv: Sequence[str], env: Mapping[str, str], seconds: float = SECONDS) -> tuple[int | None, str]:
    """Exit code and merged output. The code is None when it had to be killed, 127 when it did not start.

    Raises too_many where the machine has no room for it.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=dict(env),
            cwd="/",  # not the turn's folder: a binary may read settings there
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and kind_of_os_error(error, "missing") != "missing":
            raise OstlerError(kind_of_os_error(error, "missing"), f"{argv[0]} could not be started: {error}") from error
        return 127, str(error)
    output = bytearray()
    code: int | None = None
    try:
        async with asyncio.timeout(seconds):
            await read_all(process, output)
            code = await process.wait()
    except TimeoutError:
        _log.debug("%s did not answer within %g s: it is killed", argv[0], seconds)
    finally:
        if code is None:
            await end(process)
    return code, re.sub(_ANSI, "", output.decode("utf-8", "replace"))


async def read_all(process: asyncio.subprocess.Process, output: bytearray) -> None:
    """Read to the end, or to the most that is kept; the rest is read and dropped."""
    assert process.stdout is not None
    while chunk := await process.stdout.read(65536):
        output += chunk[: MAX_OUTPUT - len(output)]


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill the process group: also what a finished leader left behind with the pipe in its hands."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all of it has ended
    await process.wait()


def version_of(output: str) -> str:
    """The version number in what `--version` printed, else its last line."""
    match = re.search(_VERSION, output)
    return match[0].rstrip(".") if match else last_line(output)[:60]


def no_version(code: int | None) -> str:
    return f"no answer within {SECONDS:g} s" if code is None else f"--version ended with exit code {code}"


# -- reports ----------------------------------------------------------------------------------------


class OnlineAnswer(Struct, frozen=True, kw_only=True):
    """What came of asking an agent for one word."""

    ok: bool
    text: str


class AgentReport(Struct, frozen=True, kw_only=True):
    """What `ostler agents` and `ostler doctor` tell of one agent. Names of variables, never values."""

    name: str
    title: str
    description: str = ""
    built_in: bool = False  # it comes with ostler
    monogram: str = ""  # two letters and a hue (0 to 360), by which the page tells agents apart
    hue: int | None = None
    installed: bool
    login: LoginState
    install: str
    path: str | None = None
    version: str = ""
    keys_set: tuple[str, ...] = ()
    keys_unset: tuple[str, ...] = ()
    login_command: str = ""
    withheld: tuple[str, ...] = ()
    abilities: dict[str, str | bool] = {}
    problem: str = ""
    untested: str = ""  # how its version lies outside of those that ostler is tested with
    dialog: bool = False  # it can ask before it acts
    steer: bool = False  # and be told more while it works
    transports: tuple[TransportName, ...] = ()
    sandbox: Literal["", "works", "broken", "unknown"] = ""  # its own, where it was tried and is relied on
    sandbox_problem: str = ""
    kept: dict[Access, Enforcement] = {}  # what keeps it to an access here
    online: OnlineAnswer | None = None  # where it was asked
    project_config: str = ""  # what the folder that was asked about holds for it
    trusted: bool = False  # and whether that counts


async def report(agent: Agent, environ: Mapping[str, str], settings: Settings, cache: ProbeCache) -> AgentReport:
    """Everything that can be told of an agent without a network call. Raises nothing."""
    env = child_environment(environ, agent, add=settings.env, pass_patterns=settings.env_pass, launch_env={})
    prefix = find(agent, environ.get("PATH", os.defpath), chosen(settings, agent.name))
    found = None
    if prefix is not None:
        found = await ask(agent, prefix, env, cache) if is_probed(agent) else Probe(path=prefix[0])
    program = (chosen(settings, agent.name) or agent.binaries)[0]
    problem = f"`{program}` is not on PATH" if found is None else found.problem or lacking(agent, found)
    return AgentReport(
        name=agent.name,
        title=agent.title,
        description=agent.description,
        built_in=bool(agent.module),
        monogram=agent.monogram or agent.name[:2],
        hue=agent.hue,
        installed=found is not None,
        login=login(agent, env, environ.get("HOME", "")),
        install=agent.install,
        path=found.path if found is not None else None,
        version=found.version if found is not None else "",
        keys_set=tuple(key for key in agent.keys if env.get(key)),
        keys_unset=tuple(key for key in agent.keys if not env.get(key)),
        login_command=agent.login_command,
        withheld=withheld(environ, env, agent),
        abilities=abilities(agent),
        problem=problem,
        untested=untested(found.version, agent.tested) if found is not None else "",
        dialog=agent.dialog is not None,
        steer=agent.dialog is not None and agent.dialog.steers,
        transports=transports_of(agent),
        kept=await _kept(agent, environ, env, settings, cache),
    )


async def _kept(
    agent: Agent, environ: Mapping[str, str], env: Mapping[str, str], settings: Settings, cache: ProbeCache
) -> dict[Access, Enforcement]:
    """What keeps it to each access but `full`; `env` is the agent's own environment."""
    from ostler.work.own_sandbox import broken_programs
    from ostler.work.walls import kept

    path = environ.get("PATH", os.defpath)
    broken = await broken_programs(agent, env, path, cache)
    programs = frozenset(name for name in agent.programs if on_path(name, path)) - broken
    return {access: kept(settings, agent, access, programs) for access in ACCESS_ORDER[:-1]}


def untested(version: str, tested: tuple[str, str] | None) -> str:
    """How a version lies outside of the tested ones; "" where it does not, or where nothing is known."""
    if tested is None or not (ours := version_numbers(version)):
        return ""
    oldest, newest = map(version_numbers, tested)
    if oldest <= ours <= newest:
        return ""
    return f"{version} is {'older' if ours < oldest else 'newer'} than what ostler is tested with: {span(tested)}"


def span(tested: tuple[str, str]) -> str:
    return " to ".join(dict.fromkeys(tested))


def login(agent: Agent, environ: Mapping[str, str], home: str) -> LoginState:
    """Whether the agent is logged in, as far as variables and files tell."""
    if not (agent.keys or agent.login_files or agent.login_elsewhere):
        return "yes"  # there is nothing to log in to
    if any(environ.get(key) for key in agent.keys):
        return "yes"
    if home and any(os.path.isfile(os.path.join(*located(agent, name, home, environ))) for name in agent.login_files):
        return "yes"
    return "unknown" if agent.login_elsewhere else "no"


def abilities(agent: Agent) -> dict[str, str | bool]:
    return {
        "resume": agent.resumes,
        "fork": agent.forks,
        "own id": agent.chooses_id,
        "schema": agent.schema,
        "system prompt": f"{agent.system}, replace" if agent.replaces_system else agent.system,
        "tool lists": agent.tool_lists,
        "images": agent.images,
        "live text": agent.deltas,
        "tokens": agent.tokens,
        "cost": agent.cost,
        "dialog": agent.dialog.protocol if agent.dialog else False,
        "steer": bool(agent.dialog and agent.dialog.steers),
        "own screen": agent.tui is not None,
    }


# -- tables for the documentation -------------------------------------------------------------------


def abilities_table(agents: Sequence[Agent]) -> str:
    """Agents and what they can do, as a Markdown table."""
    words = list(abilities(agents[0])) if agents else []
    rows = [[f"`{agent.name}`", *(cell(value) for value in abilities(agent).values())] for agent in agents]
    return table(["agent", *words], rows)


def access_table(agents: Sequence[Agent]) -> str:
    """By what each access is kept, and what that leaves open, as a Markdown table."""
    rows = []
    for agent in agents:
        for access in ACCESS_ORDER:
            flags, walled = agent.access.get(access, "") or "not offered", is_walled(agent, access)
            open_ = agent.unconfined.get(access, "")
            without = " ".join(filter(None, (_unless_accepted(agent, access), open_))) if walled else ""
            if walled and agent.sandbox is not None and access in agent.sandbox.keeps:
                open_, without = f"{open_ or 'nothing'}. Behind a wall: {left_open(agent)}", ""
            elif walled:
                open_ = left_open(agent)
            cells = [kept_by(agent, access), flags, open_, without]
            rows.append([f"`{agent.name}`", f"`{access}`", *(text or "–" for text in cells)])
    return table(["agent", "access", "kept by", "its flags", "not confined", "not confined without a wall"], rows)


def is_walled(agent: Agent, access: Access) -> bool:
    """Whether there may be a wall around its turns."""
    return agent.state is not None and access != "full"


def kept_by(agent: Agent, access: Access) -> str:
    """What keeps an agent to an access on Linux, for people."""
    if access == "full":
        return "nothing"
    if agent.sandbox is not None and access in agent.sandbox.keeps:
        missing = f"; a wall where {' or '.join(agent.sandbox.programs)} is missing or does not work"
        return "its own sandbox" + (missing if agent.state is not None else "")
    return "a wall" if agent.state is not None else "its flags alone"


def left_open(agent: Agent) -> str:
    """What of an agent's own can be changed behind its wall."""
    if agent.state is None:
        return ""
    named = [f"`~/{path}`" for path in (*agent.state.kept, *agent.state.edited)]
    logins = [f"`~/{path}` where it holds a login that is renewed" for path in agent.state.oauth]
    return ", ".join((*named, *logins))


def _unless_accepted(agent: Agent, access: Access) -> str:
    why = agent.unpromised.get(access)
    return f"`denied` unless accepted (`loose`): {why}." if why else ""


def cell(value: str | bool) -> str:
    return {True: "yes", False: "–", "no": "–"}.get(value, str(value))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    escaped = [[" ".join(text.split()).replace("|", "\\|") for text in row] for row in rows]
    lines = [head, ["---"] * len(head), *escaped]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
