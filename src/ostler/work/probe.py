"""Finding an agent's binary, and what it can do: asked of the binary itself, once."""

import asyncio
import os
import re
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from ostler.agents import Agent
from ostler.errors import OstlerError, kind_of_os_error
from ostler.settings import Settings
from ostler.work.environment import child_environment

SECONDS = 20.0
MAX_OUTPUT = 1024 * 1024
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")

Login = Literal["yes", "no", "unknown"]


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
    """What the settings say to run for this agent."""
    return settings.commands.get(agent) or settings.acp.get(agent)


def find(agent: Agent, path: str, override: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """The argv prefix that starts the agent: by the settings, or its first binary on `path`; None without one."""
    if override:
        first = on_path(override[0], path)
        return (first, *override[1:]) if first is not None else None
    if agent.name == "script":
        # -P: a folder of the turn that has a package named ostler must not be imported.
        return (sys.executable, "-P", "-m", "ostler.testing.agent")
    located = (on_path(name, path) for name in agent.binaries)
    return next(((program,) for program in located if program is not None), None)


def on_path(name: str, path: str) -> str | None:
    """The absolute path of a program. Relative entries of PATH are left out: they mean the turn's folder."""
    if os.path.isabs(name):
        return name if is_program(name) else None
    if os.sep in name:
        return None
    folders = [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]
    return next((full for entry in folders if is_program(full := os.path.join(entry, name))), None)


def is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False


async def probe(agent: Agent, executable: Sequence[str], env: Mapping[str, str], cache: ProbeCache) -> Probe:
    """What the binary can do. Raises missing if it does not start, unsupported if it lacks a flag we need."""
    found = await ask(agent, executable, env, cache)
    if found.problem:
        raise OstlerError("missing", f"`{found.path}` does not work: {found.problem}", f"Install: {agent.install}")
    if missing := lacking(agent, found):
        raise OstlerError("unsupported", missing, f"Update: {agent.install}")
    return found


async def ask(agent: Agent, executable: Sequence[str], env: Mapping[str, str], cache: ProbeCache) -> Probe:
    """Run `--version` and the help commands, or remember what they said. Raises nothing."""
    key = cache_key(agent, executable)
    known = _known(cache.get(key))
    if known is not None:
        return known
    quiet = {**env, "NO_COLOR": "1", "COLUMNS": "200"}
    answers = await asyncio.gather(*(run([*executable, *args], quiet) for args in (("--version",), *agent.help)))
    (code, said), helps = answers[0], answers[1:]
    text = "\n".join(output for _, output in helps)
    if code != 0:
        return Probe(path=executable[0], help=text, problem=last_line(said) or spoken(code))
    found = Probe(path=executable[0], version=version_of(said), help=text)
    if all(code is not None for code, _ in helps):
        await cache.put(key, msgspec.to_builtins(found))
    return found


def lacking(agent: Agent, found: Probe) -> str:
    """The flags that a launch needs and the help does not name, as one line; "" if there are none."""
    gone = [flag for flag in agent.needs if not has_flag(found.help, flag)]
    return f"{agent.name} {found.version} has no {', '.join(gone)}" if gone else ""


def has_flag(help: str, flag: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help) is not None


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
    """Exit code and merged output. The code is None when it had to be killed, 127 when it did not start."""
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
        pass
    finally:
        if code is None:
            await end(process)
    return code, _ANSI.sub("", output.decode("utf-8", "replace"))


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
        pass
    await process.wait()


def version_of(output: str) -> str:
    """The version number in what `--version` printed, else its last line."""
    match = _VERSION.search(output)
    return match[0].rstrip(".") if match else last_line(output)[:60]


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def spoken(code: int | None) -> str:
    return f"no answer within {SECONDS:g} s" if code is None else f"--version ended with exit code {code}"


# -- reports ----------------------------------------------------------------------------------------


class AgentReport(Struct, frozen=True, kw_only=True):
    """What `ostler agents` and `ostler doctor` tell of one agent. Names of variables, never values."""

    name: str
    title: str
    installed: bool
    login: Login
    install: str
    path: str | None = None
    version: str = ""
    keys_set: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    abilities: dict[str, str | bool] = {}
    problem: str = ""
    dialog: bool = False  # it can ask before it acts
    steer: bool = False  # and be told more while it works


async def report(agent: Agent, environ: Mapping[str, str], settings: Settings, cache: ProbeCache) -> AgentReport:
    """Everything that can be told of an agent without a network call. Raises nothing."""
    environment = child_environment(environ, agent, add=settings.env, pass_patterns=settings.env_pass, launch_env={})
    prefix = find(agent, environ.get("PATH", os.defpath), chosen(settings, agent.name))
    found = None
    if prefix is not None:
        found = await ask(agent, prefix, environment.env, cache) if agent.one_shot else Probe(path=prefix[0])
    program = (chosen(settings, agent.name) or agent.binaries)[0]
    problem = f"`{program}` is not on PATH" if found is None else found.problem or lacking(agent, found)
    return AgentReport(
        name=agent.name,
        title=agent.title,
        installed=found is not None,
        login=login(agent, environment.env, environ.get("HOME", "")),
        install=agent.install,
        path=found.path if found is not None else None,
        version=found.version if found is not None else "",
        keys_set=tuple(key for key in agent.keys if environment.env.get(key)),
        withheld=environment.withheld,
        abilities=abilities(agent),
        problem=problem,
        dialog=agent.dialog is not None,
        steer=agent.dialog is not None and agent.dialog.steers,
    )


def login(agent: Agent, environ: Mapping[str, str], home: str) -> Login:
    """Whether the agent is logged in, as far as variables and files tell."""
    if not (agent.keys or agent.login_files or agent.login_elsewhere):
        return "yes"  # there is nothing to log in to
    if any(environ.get(key) for key in agent.keys):
        return "yes"
    if home and any(os.path.isfile(os.path.join(home, name)) for name in agent.login_files):
        return "yes"
    return "unknown" if agent.login_elsewhere else "no"


def abilities(agent: Agent) -> dict[str, str | bool]:
    return {
        "resume": agent.resumes,
        "fork": agent.forks,
        "own id": agent.chooses_id,
        "schema": agent.schema,
        "system prompt": agent.system,
        "tool lists": agent.tool_lists,
        "images": agent.images,
        "live text": agent.deltas,
        "tokens": agent.tokens,
        "cost": agent.cost,
        "dialog": agent.dialog.protocol if agent.dialog else False,
        "steer": bool(agent.dialog and agent.dialog.steers),
    }


# -- tables for the documentation -------------------------------------------------------------------


def abilities_table(agents: Sequence[Agent]) -> str:
    """Agents and what they can do, as a Markdown table."""
    words = list(abilities(agents[0])) if agents else []
    rows = [[f"`{agent.name}`", *(cell(value) for value in abilities(agent).values())] for agent in agents]
    return table(["agent", *words], rows)


def access_table(agents: Sequence[Agent]) -> str:
    """By which flags each access is enforced, and what it leaves open, as a Markdown table."""
    rows = []
    for agent in agents:
        for access in ("read", "write", "full"):
            by, open_ = agent.access.get(access, ""), agent.unconfined.get(access, "")
            if access in agent.unpromised:
                by = f"`denied` unless accepted (`loose`): {agent.unpromised[access]}. Then {by}"
            rows.append([f"`{agent.name}`", f"`{access}`", by or "not offered", open_ or "–"])
    return table(["agent", "access", "enforced by", "not confined"], rows)


def cell(value: str | bool) -> str:
    return {True: "yes", False: "–", "no": "–"}.get(value, str(value))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    escaped = [[" ".join(text.split()).replace("|", "\\|") for text in row] for row in rows]
    lines = [head, ["---"] * len(head), *escaped]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
