"""The environment of an agent's process, and the secrets that must not be shown."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ostler.agents import Agent
from ostler.model import Callback, Launch, Turn
from ostler.store import Redactor
from ostler.store.files import private_folder
from ostler.work.turns import mcp_servers as servers
from ostler.work.turns.environment import child_environment, secrets
from ostler.work.turns.setup import Setup

if TYPE_CHECKING:
    from ostler.work.walls import Enclosure


def environment_of(
    setup: Setup, turn: Turn, agent: Agent, launch: Launch, enclosure: "Enclosure | None"
) -> dict[str, str]:
    return child_environment(
        with_config(setup, agent),
        agent,
        add={**setup.settings.env, **turn.env},
        pass_patterns=setup.settings.env_pass,
        default_env=launch.default_env,
        launch_env={**launch.env, **_own_environment(setup, agent), **(enclosure.env if enclosure else {})},
    )


def environment_outside(setup: Setup, turn: Turn, agent: Agent) -> dict[str, str]:
    """The agent's environment as it is without a wall."""
    return child_environment(
        with_config(setup, agent),
        agent,
        add={**setup.settings.env, **turn.env},
        pass_patterns=setup.settings.env_pass,
        launch_env=_own_environment(setup, agent),
    )


def with_config(setup: Setup, agent: Agent) -> Mapping[str, str]:
    """The environment, with a HOME of the agent's own where the settings say that its config is private."""
    if setup.settings.config == "user":
        return setup.environ
    home = private_folder(private_folder(setup.store.folder / "homes") / agent.name)
    return {**{n: v for n, v in setup.environ.items() if not n.startswith("XDG_")}, "HOME": str(home)}


def _own_environment(setup: Setup, agent: Agent) -> dict[str, str]:
    """The scripted agent is ours: it alone gets the variables that steer it."""
    if not agent.module:
        return {}
    own = {name: value for name, value in setup.environ.items() if name.startswith("OSTLER_SCRIPT_")}
    if setup.settings.scenario:
        own["OSTLER_SCENARIO"] = setup.settings.scenario
    return own


def redactor_of(setup: Setup, turn: Turn, agent: Agent, env: Mapping[str, str], callback: Callback | None) -> Redactor:
    known = secrets(setup.environ, env, (*agent.keys, *setup.settings.redact))
    held = setup.callbacks().tokens_of(turn.session) if callback is not None and setup.callbacks is not None else ()
    return Redactor({*known, *servers.secrets(turn.mcp), *setup.settings.own_tokens, *held})
