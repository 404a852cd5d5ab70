"""Whether an agent's own sandbox works on this machine: its programs may be there, and be allowed to do nothing."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ostler.agents import Agent
from ostler.agents.failures import last_line
from ostler.process import tree
from ostler.work.probe import ProbeCache, on_path, run

# What decides, beside the programs themselves, whether anybody may make a user namespace.
_RIGHTS = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
_USAGE = 2  # what a CLI ends with that does not know the command


class SandboxTrial(Struct, frozen=True):
    """How trying it went."""

    state: Literal["works", "broken", "unknown"]
    problem: str = ""


async def try_sandbox(agent: Agent, prefix: Sequence[str], env: Mapping[str, str], path: str) -> SandboxTrial:
    """Runs its check. `prefix` is the agent's own command; `path` is where programs are looked for."""
    assert agent.sandbox is not None
    argv = [word for part in agent.sandbox.check for word in ((part,) if part else prefix)]
    code, said = await run([on_path(argv[0], path) or argv[0], *argv[1:]], env)
    if code in (None, _USAGE):
        return SandboxTrial("unknown", "its check did not run")
    if code == 0:
        return SandboxTrial("works")
    return SandboxTrial("broken", last_line(said) or f"its check ended with exit code {code}")


async def broken_programs(agent: Agent, env: Mapping[str, str], path: str, cache: ProbeCache) -> frozenset[str]:
    """The programs of its sandbox, if all of them are there and it does not work: a wall has to keep the agent then.

    Tried once in a while: what was found is remembered until the programs, the kernel or its rules are others.
    """
    sandbox = agent.sandbox
    if sandbox is None or agent.state is None or not sandbox.check or "" in sandbox.check:
        return frozenset()
    found = [on_path(name, path) for name in sandbox.programs]
    if not found or None in found:
        return frozenset()
    key = _key(agent.name, [name for name in found if name])
    known = cache.get(key)
    if known is None:
        trial = await try_sandbox(agent, (), env, path)
        if trial.state == "unknown":
            return frozenset()  # it may have been too slow: it is tried again
        known = {"works": trial.state == "works"}
        await cache.put(key, known)
    return frozenset() if known.get("works") else frozenset(sandbox.programs)


def _key(name: str, programs: Sequence[str]) -> str:
    stats = [os.stat(program) for program in programs]
    parts = [f"{program} {found.st_ino} {found.st_mtime_ns}" for program, found in zip(programs, stats, strict=True)]
    parts += [tree.read_all(path).decode() for path in _RIGHTS]
    parts += [tree.boot_id(), str(os.geteuid())]
    return f"sandbox:{name}:{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}"
