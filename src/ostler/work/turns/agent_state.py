"""What an agent has to do outside of its wall before a turn behind it: make its state, renew its login."""

import logging
import os
from collections.abc import Mapping, Sequence

from ostler import clock
from ostler.agents import Agent
from ostler.agents.adapter import State, state_path
from ostler.work.probe import run

SOON = 600.0  # seconds: a login that ends before is renewed, since behind the wall it could not be
PATIENCE = 60.0
_LARGEST = 256 * 1024

_log = logging.getLogger(__name__)


async def make_ready(agent: Agent, prefix: Sequence[str], env: Mapping[str, str]) -> None:
    """Runs the agent's own commands where they are needed; one that fails is left to the turn, which says more."""
    needs, home = agent.state, env.get("HOME", "")
    for arguments in _wanted(agent, needs, home, env) if needs is not None else ():
        code, _ = await run([*prefix, *arguments], env, PATIENCE)
        _log.info("%s %s ended with %s", agent.name, " ".join(arguments), code)


def _wanted(agent: Agent, needs: State, home: str, env: Mapping[str, str]) -> list[tuple[str, ...]]:
    missing = [name for name in needs.prepared if not os.path.exists(state_path(agent, name, home, env))]
    wanted = [needs.prepare] if needs.prepare and missing else []
    return [*wanted, needs.renew] if needs.renew and _ends_soon(agent, needs, home, env) else wanted


def _ends_soon(agent: Agent, needs: State, home: str, env: Mapping[str, str]) -> bool:
    if any(env.get(name) for name in agent.keys):
        return False  # it does not use that login
    try:
        with open(state_path(agent, agent.login_files[0], home, env), "rb") as file:
            ends = needs.expires(file.read(_LARGEST))
    except OSError:
        return False  # there is none
    return ends is not None and ends < clock.now() + SOON
