"""The wall around an agent, and what a turn is told where there is none."""

import os
from typing import TYPE_CHECKING

from msgspec import structs

from ostler.access import Access
from ostler.agents import Agent
from ostler.model import Launch, Turn
from ostler.work.turns.agent_environment import environment_outside, with_config
from ostler.work.turns.environment import child_environment
from ostler.work.turns.setup import NotesCache, Setup, programs_of

if TYPE_CHECKING:
    from ostler.work.walls import Enclosure


def wall_of(setup: Setup, turn: Turn, agent: Agent) -> "Enclosure | None":
    """The wall around it, where its adapter says what must be writable behind one. Raises denied."""
    if turn.access == "full" or setup.settings.walls == "off":
        return None
    from ostler.work.walls import wall_around

    return wall_around(
        setup.settings,
        agent,
        turn.access,
        turn.folder,
        state=str(setup.store.folder),
        environ=_environ(setup, turn, agent),
        programs=programs_of(setup, agent, turn.access),
        session=None if turn.fork else turn.agent_session,
    )


def with_settings(
    walled: "Enclosure | None", setup: Setup, turn: Turn, agent: Agent, launch: Launch
) -> "Enclosure | None":
    """The same with the settings that the launch adds to the agent's own; without a wall these need a shadow, too."""
    if not launch.settings:
        return walled
    from ostler.work.walls import shadow_alone

    enclosure = walled or shadow_alone(agent, state=str(setup.store.folder), environ=_environ(setup, turn, agent))
    assert enclosure.shadow is not None, f"{agent.name} has no shadow to put settings in"
    return structs.replace(enclosure, shadow=structs.replace(enclosure.shadow, settings=launch.settings))


def _environ(setup: Setup, turn: Turn, agent: Agent) -> dict[str, str]:
    """The environment, which may say where the agent's state is."""
    return {**with_config(setup, agent), **setup.settings.env, **turn.env}


async def without_launcher(setup: Setup, turn: Turn, agent: Agent, argv: tuple[str, ...]) -> tuple[str, ...]:
    """What `npx` or `uvx` would start, which cannot work behind a wall themselves. Raises missing."""
    from ostler.work.walls import LAUNCHERS

    if os.path.basename(argv[0]) not in LAUNCHERS:
        return argv
    from ostler.work.launchers import launcher_call, started_itself

    if launcher_call(argv) is None:
        return argv
    return await started_itself(argv, environment_outside(setup, turn, agent), setup.probes or NotesCache(setup.store))


def notices_without_wall(setup: Setup, turn: Turn, agent: Agent, walled: "Enclosure | None") -> tuple[str, ...]:
    """Said where a turn would have a wall on another machine; what an agent does without one, its launch says."""
    if walled is not None or turn.access == "full":
        return ()
    from ostler.work.walls import why_no_wall, why_no_walls

    if not setup.settings.read_secrets:
        why = why_no_wall(setup.settings, agent, turn.access, programs_of(setup, agent, turn.access))
        said = f"read_secrets is false, but {turn.agent} runs without a wall and can read your keys and logins"
        return (f"{said}: {why}",)
    if agent.module or not (missing := why_no_walls()):
        return ()
    if why_no_wall(setup.settings, agent, turn.access, programs_of(setup, agent, turn.access)) != missing:
        return ()
    return (f"there is no wall around {turn.agent}: {missing}. Its own flags keep it to --access {turn.access}",)


async def with_tried_sandbox(setup: Setup, agent: Agent, access: Access) -> Setup:
    """The setup with what is known of the agent's own sandbox, where the access relies on it."""
    if agent.sandbox is None or agent.state is None or access not in agent.sandbox.keeps:
        return setup
    from ostler.work.own_sandbox import broken_programs

    env = child_environment(setup.environ, agent, add={}, pass_patterns=(), launch_env={})
    path, cache = setup.environ.get("PATH", os.defpath), setup.probes or NotesCache(setup.store)
    broken = await broken_programs(agent, env, path, cache)
    return structs.replace(setup, broken=broken) if broken else setup
