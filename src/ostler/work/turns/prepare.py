"""Prepares an attempt at a turn: every check that can be made before anything is stored or spawned."""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from ostler.agents import Agent, decode
from ostler.agents.dialog import Dialog, DialogFace
from ostler.agents.launches import confirm
from ostler.errors import OstlerError
from ostler.model import Host, Launch, Plan, PlanStep, TransportName, Turn
from ostler.settings import Settings
from ostler.store.files import session_folder
from ostler.work.known_agents import the_agent
from ostler.work.probe import Probe, chosen, find, is_probed, judged, probe, remembered
from ostler.work.project_config import MAX_TEXT, ProjectConfig, has_instructions, instructions, no_project_config
from ostler.work.transports.choose import choose_transport, face_of, tui_of
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.transports.transport import Attempt
from ostler.work.turns import attachments
from ostler.work.turns import mcp_servers as servers
from ostler.work.turns.agent_environment import environment_of, environment_outside, redactor_of
from ostler.work.turns.checks import check_promise, turn_for
from ostler.work.turns.environment import child_environment
from ostler.work.turns.setup import NotesCache, Setup, programs_of, project_config_of, server_of
from ostler.work.turns.turn_hooks import callback_of, hook_environment, notices_without_hooks
from ostler.work.turns.turn_walls import (
    notices_without_wall,
    wall_of,
    with_settings,
    with_tried_sandbox,
    without_launcher,
)

if TYPE_CHECKING:
    from ostler.work.walls import Enclosure

_PLAN_WITHIN = 10_000  # events

_log = logging.getLogger(__name__)


async def prepare(setup: Setup, turn: Turn) -> Attempt:
    """The attempt, ready to run. Raises OstlerError for all that cannot work; writes nothing."""
    server = server_of(setup, turn.agent)
    setup = await with_tried_sandbox(setup, server, turn.access)
    turn = _by_transport(setup, turn, server)
    walled = wall_of(setup, turn, server)
    effective = _effective_turn(setup, turn, server, walled)
    prefix, found = await _binary(setup, server)
    if walled is not None:
        await _make_ready(setup, turn, server, prefix)
    config = await _project_config(setup, turn.folder, server)
    host = _host(setup, turn, server, Host(executable=prefix[-1], version=found.version, help=found.help), config)
    effective, cut = await _with_instructions(effective, server, host)
    host = structs.replace(host, callback=await callback_of(setup, turn, server))
    face, tui = face_of(server, turn.transport), tui_of(server, turn.transport, setup.settings.tmux_shows)
    if face is not None and face.images:
        effective = structs.replace(effective, attachments=attachments.with_images(effective.attachments))
    own = face or tui
    launch, host = _launched(own.launch if own else _launch_of(server, turn.transport), effective, host)
    launch = _with_flags(turn, server, launch)
    confirm(effective, host, launch.argv[1:])
    argv = (*prefix, *launch.argv[1:])
    if walled is not None:
        argv = await without_launcher(setup, turn, server, argv)
    unwalled = notices_without_wall(setup, turn, server, walled)
    notices = (*_left_out(turn, config), *cut, *notices_without_hooks(turn, host), *unwalled, *launch.notices)
    launch = structs.replace(launch, argv=argv, notices=notices)
    enclosure = with_settings(walled, setup, turn, server, launch)
    recorded, env = _records_of(setup, server), environment_of(setup, turn, server, launch, enclosure)
    env |= hook_environment(turn, host.callback)
    return Attempt(
        turn=turn,
        agent=server,
        reader=(tui or recorded).reader(effective),
        launch=launch,
        env=env,
        served_by=server.name,
        records_of=recorded.name,
        redactor=redactor_of(setup, turn, server, env, host.callback),
        effective_turn=effective,
        transport=turn.transport,
        dialog=_dialog(face, effective, host),
        state=str(setup.store.folder),
        trusted=config.trusted,
        enclosure=enclosure,
        callback=host.callback,
    )


def _by_transport(setup: Setup, turn: Turn, server: Agent) -> Turn:
    """The turn with the transport that carries it."""
    transport = choose_transport(turn.transport, the_agent(setup.settings, turn.agent), server, setup.agents.values())
    hooks = turn.hooks or True if TRANSPORT_FACTS[transport].needs_hooks else turn.hooks
    return structs.replace(turn, transport=transport, hooks=hooks)


async def _make_ready(setup: Setup, turn: Turn, server: Agent, prefix: tuple[str, ...]) -> None:
    """What the agent's state needs before it is behind a wall: a login that is about to end, for one."""
    if server.state is not None and (server.state.prepare or server.state.renew):
        from ostler.work.turns.agent_state import make_ready

        await make_ready(server, prefix, environment_outside(setup, turn, server))


def _launched(make: Callable[[Turn, Host], Launch], turn: Turn, host: Host) -> tuple[Launch, Host]:
    """The launch, and what it was made with: hooks that nobody asked for are left out where they are not possible."""
    try:
        return make(turn, host), host
    except OstlerError as error:
        if host.callback is None or turn.hooks is not None or error.kind != "unsupported":
            raise
        _log.info("turn %s: it has no hooks: %s", turn.id, error)
        host = structs.replace(host, callback=None)
        return make(turn, host), host


def _with_flags(turn: Turn, server: Agent, launch: Launch) -> Launch:
    """With flags of the agent's own; another one that serves it would not know them."""
    if not turn.agent_flags or server.name != turn.agent:
        return launch
    from ostler.agents.flags import with_flags

    return structs.replace(launch, argv=with_flags(server, turn.agent_flags, launch.argv))


def _launch_of(server: Agent, transport: TransportName) -> Callable[[Turn, Host], Launch]:
    return TRANSPORT_FACTS[transport].own_launch(server) or server.launch


def _effective_turn(setup: Setup, turn: Turn, agent: Agent, walled: "Enclosure | None") -> Turn:
    """The turn as this agent gets it, with what goes along. Raises for all that can be known not to work."""
    checked = turn_for(turn, agent)
    if walled is None:
        check_promise(setup, turn, agent)
    ready = servers.ready(turn, agent, setup.environ.get("PATH", os.defpath))
    plan = _plan_before(setup, turn, agent)
    return structs.replace(checked, mcp=ready, plan=plan, walled=walled is not None)


def _host(setup: Setup, turn: Turn, agent: Agent, known: Host, config: ProjectConfig) -> Host:
    """What the launch may know of this machine and of the folder, beside what is known of the program."""
    return structs.replace(
        known,
        private=f"{session_folder(setup.store.folder, turn.session)}/{turn.id}",
        root=os.geteuid() == 0,
        home=setup.home,
        programs=programs_of(setup, agent, turn.access),
        folder_names=frozenset(n for n in agent.folder_names if os.path.lexists(os.path.join(turn.folder, n))),
        levels=config.levels,
        project_config=config.paths,
        trusted=config.trusted,
    )


async def _project_config(setup: Setup, folder: str, agent: Agent) -> ProjectConfig:
    """In a thread where there is something to read: that may be much."""
    nothing = no_project_config(folder, agent, setup.home)
    return nothing if nothing is not None else await asyncio.to_thread(project_config_of, setup, folder, agent)


def _left_out(turn: Turn, config: ProjectConfig) -> tuple[str, ...]:
    if config.trusted or not config.places:
        return ()
    what = f"left out, since you have not trusted {turn.folder}: {config.described()}"
    if problem := next((place.problem for place in config.places if place.problem), ""):
        return (f"{what}. It cannot be trusted: {problem}",)
    changed = " It has changed since you trusted it." if config.changed else ""
    return (f"{what}.{changed} Look at it, then run `ostler trust`",)


async def _with_instructions(turn: Turn, agent: Agent, host: Host) -> tuple[Turn, tuple[str, ...]]:
    """The turn with what the folder tells the agent, where that passes over it with all else of the folder.

    And what has to be said of it.
    """
    if not (has_instructions(host.levels, agent.instructions) and agent.passes_over(turn, host)):
        return turn, ()
    found = await asyncio.to_thread(instructions, host.levels, agent.instructions)
    cut = (f"instructions beyond {MAX_TEXT // 1024} KiB were left out: {', '.join(found.cut)}",) if found.cut else ()
    if not found.text:
        return turn, cut
    return structs.replace(turn, system="\n\n".join(filter(None, (turn.system, found.text)))), cut


def _plan_before(setup: Setup, turn: Turn, agent: Agent) -> tuple[PlanStep, ...]:
    """The agent's to-do list as it last told it, where the conversation goes on."""
    if not agent.recalls_plan or not turn.resume or turn.fork:
        return ()
    last = setup.store.last_event(turn.session, "plan", among=_PLAN_WITHIN)
    return last.steps if isinstance(last, Plan) else ()


def _dialog(face: DialogFace | None, turn: Turn, host: Host) -> Dialog | None:
    """The agent's side of the talk, where the turn is one. Raises for a mode that can be known not to work."""
    if face is None and turn.mode is not None:
        message = f"a mode needs a dialog; without one, --access {turn.access} sets the mode"
        raise OstlerError("unsupported", message, 'Use --dialog, or transport="dialog"')
    if face is None:
        return None
    dialog = face.dialog(turn, host)
    if turn.mode is not None:
        dialog.check_mode(turn.mode)
    return dialog


async def _binary(setup: Setup, agent: Agent) -> tuple[tuple[str, ...], Probe]:
    prefix = find(agent, setup.environ.get("PATH", os.defpath), chosen(setup.settings, agent.name))
    if prefix is None and (by := chosen(setup.settings, agent.name)):
        hint = f"Fix {_where_set(setup.settings, agent.name)} in your settings"
        raise OstlerError("missing", f"`{by[0]}` was not found or is not executable", hint)
    if prefix is None:
        raise OstlerError("missing", f"`{agent.binaries[0]}` is not on PATH", f"Install: {agent.install}")
    if not is_probed(agent):
        return prefix, Probe(path=prefix[0])
    cache = setup.probes or NotesCache(setup.store)
    if (known := remembered(agent, prefix, cache)) is not None:
        return prefix, judged(agent, known)
    env = child_environment(setup.environ, agent, add={}, pass_patterns=(), launch_env={})
    return prefix, await probe(agent, prefix, env, cache)


def _where_set(settings: Settings, name: str) -> str:
    """The setting that says what to run for an agent; that of a plain one is its `command`."""
    table = next((t for t, names in (("commands", settings.commands), ("acp", settings.acp)) if name in names), "")
    return f"{table}.{name}" if table else f"agents.{name}.command"


def _records_of(setup: Setup, server: Agent) -> Agent:
    """Whose records come: those of the agent on the cassette, where the scripted agent plays one."""
    if not server.module or not setup.settings.scenario:
        return server
    try:
        with open(setup.settings.scenario, "rb") as file:
            head = decode(file.readline(1024 * 1024))
    except OSError as error:
        raise OstlerError("not_found", f"the scenario cannot be read: {error}") from error
    on_cassette = isinstance(head, dict) and "ostler_cassette" in head
    return setup.agents.get(head.get("agent", ""), server) if on_cassette else server
