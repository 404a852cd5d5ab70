"""Prepares an attempt at a turn: every check that can be made before anything is stored or spawned."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ostler.access import Access
from ostler.agents import AGENTS, Agent, decode
from ostler.agents.dialog import Dialog, DialogFace
from ostler.agents.launches import confirm
from ostler.errors import OstlerError
from ostler.model import Callback, Host, Launch, Plan, PlanStep, TransportName, Turn
from ostler.settings import Settings, recorded_answers, trust_file
from ostler.store import Redactor, Store
from ostler.store.files import private_folder, session_folder
from ostler.work.dialogs.ask_rules import check_rules
from ostler.work.known_agents import KnownAgents, agents_of, the_agent
from ostler.work.probe import AgentReport, Probe, chosen, find, is_probed, judged, on_path, probe, remembered
from ostler.work.project_config import (
    MAX_TEXT,
    ProjectConfig,
    has_instructions,
    instructions,
    no_project_config,
    read_project_config,
)
from ostler.work.transports.choose import choose_transport, face_of, tui_of
from ostler.work.transports.keepers import STAYING
from ostler.work.transports.transport import Attempt
from ostler.work.turns import attachments, schema
from ostler.work.turns import mcp_servers as servers
from ostler.work.turns.environment import child_environment, secrets

if TYPE_CHECKING:
    from ostler.work.hooks.callbacks import Callbacks
    from ostler.work.walls import Walled

_MAX_PROMPT = 64 * 1024 * 1024
_PLAN_WITHIN = 10_000  # events

_log = logging.getLogger(__name__)


class Setup(Struct, frozen=True, kw_only=True):
    """What a turn is prepared with: the settings of its folder, and what all turns of one ostler process share."""

    settings: Settings
    environ: Mapping[str, str]
    store: Store
    probes: "NotesCache | None" = None
    notices: tuple[str, ...] = ()  # what of the folder's own file does not count
    callbacks: "Callable[[], Callbacks] | None" = None  # where hooks call
    broken: frozenset[str] = frozenset()  # programs of the agent's sandbox that are there, and do not work

    def __post_init__(self) -> None:
        """Raises bad_request for settings that only the agents can tell to be wrong."""
        if self.settings.asks:
            check_rules(self.settings.asks, self.agents.own(), self.agents.of_plug_ins)

    @property
    def agents(self) -> KnownAgents:
        return agents_of(self.settings)

    @property
    def home(self) -> str:
        return self.environ.get("HOME") or os.path.expanduser("~")


def server_of(setup: Setup, name: str) -> Agent:
    """The agent that really serves: the scripted one for every name under OSTLER_ONLY=script. Raises not_found."""
    agent, only = the_agent(setup.settings, name), setup.settings.only
    if not only:
        return agent
    if only not in setup.agents:
        hint = f"Agents: {', '.join(setup.agents)}"
        raise OstlerError("not_found", f"OSTLER_ONLY does not name an agent: {only!r}", hint)
    return setup.agents[only]


async def prepare(setup: Setup, turn: Turn) -> Attempt:
    """The attempt, ready to run. Raises OstlerError for all that cannot work; writes nothing."""
    server = server_of(setup, turn.agent)
    setup = await _with_tried_sandbox(setup, server, turn.access)
    turn = structs.replace(turn, transport=_transport(setup, turn, server))
    if turn.transport == "visible":
        turn = structs.replace(turn, hooks=turn.hooks or True)  # by which its end is known
    walled = _walled(setup, turn, server)
    effective = _effective_turn(setup, turn, server, walled)
    prefix, found = await _binary(setup, server)
    if walled is not None and server.state is not None and (server.state.prepare or server.state.renew):
        from ostler.work.turns.agent_state import make_ready

        await make_ready(server, prefix, _outside(setup, turn, server))
    config = await _project_config(setup, turn.folder, server)
    host = _host(setup, turn, server, Host(executable=prefix[-1], version=found.version, help=found.help), config)
    cut: tuple[str, ...] = ()
    if has_instructions(host.levels, server.instructions) and server.passes_over(effective, host):
        effective, cut = await asyncio.to_thread(_with_instructions, effective, server, host)
    host = structs.replace(host, callback=await _callback(setup, turn, server))
    face, tui = face_of(server, turn.transport), tui_of(server, turn.transport, setup.settings.tmux_shows)
    if face is not None and face.images:
        effective = structs.replace(effective, attachments=attachments.with_images(effective.attachments))
    own = face or tui
    launch, host = _launched(own.launch if own else _launch_of(server, turn.transport), effective, host)
    flags = turn.agent_flags if server.name == turn.agent else ()  # another one that serves it would not know them
    if flags:
        from ostler.agents.flags import with_flags

        launch = structs.replace(launch, argv=with_flags(server, flags, launch.argv))
    confirm(effective, host, launch.argv[1:])
    unwalled = _without_wall(setup, turn, server, walled)
    notices = (*_left_out(turn, config), *cut, *_without_hooks(turn, host), *unwalled, *launch.notices)
    argv = (*prefix, *launch.argv[1:])
    if walled is not None:
        argv = await _without_launcher(setup, turn, server, argv)
    launch = structs.replace(launch, argv=argv, notices=notices)
    recorded, env = _records_of(setup, server), _environment(setup, turn, server, launch, walled)
    env |= hook_environment(turn, host.callback)
    return Attempt(
        turn=turn,
        agent=server,
        reader=(tui or recorded).reader(effective),
        launch=launch,
        env=env,
        served_by=server.name,
        records_of=recorded.name,
        redactor=_redactor(setup, turn, server, env, host.callback),
        effective_turn=effective,
        transport=turn.transport,
        dialog=_dialog(face, effective, host),
        state=str(setup.store.folder),
        trusted=config.trusted,
        walled=walled,
        callback=host.callback,
    )


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


def _launch_of(server: Agent, transport: TransportName) -> Callable[[Turn, Host], Launch]:
    return server.in_terminal if transport == "visible" and server.in_terminal else server.launch


async def _callback(setup: Setup, turn: Turn, server: Agent) -> Callback | None:
    """Where the hooks of this launch call. Raises unsupported where somebody is to be asked and cannot be.

    An agent's own screen has them unless somebody said no: they tell its end best. A dialog tells and asks by itself.
    """
    in_tui = tui_of(server, turn.transport, setup.settings.tmux_shows) is not None
    if turn.transport == "dialog" or not (turn.hooks or (turn.hooks is None and in_tui)):
        return None
    if server.hooks is None or setup.callbacks is None or turn.lean:
        if turn.hooks == "ask" or turn.transport == "visible":
            able = ", ".join(agent.name for agent in setup.agents.values() if agent.hooks)
            message = f"{server.name} has no hooks that can ask" + (" with `lean`" if server.hooks else "")
            raise OstlerError("unsupported", message, f"Use --dialog, or one of: {able}")
        return None
    try:
        return await setup.callbacks().callback(turn, setup.settings)
    except OstlerError as error:
        if turn.hooks is not None:
            raise
        _log.info("turn %s: it has no hooks: %s", turn.id, error)
        return None


def _without_hooks(turn: Turn, host: Host) -> tuple[str, ...]:
    if not turn.hooks or turn.transport == "dialog" or host.callback is not None:
        return ()
    why = "`lean` leaves hooks out" if turn.lean else f"{turn.agent} has no hooks that ostler can use"
    return (f"{why}: this turn has none",)


def hook_environment(turn: Turn, callback: Callback | None) -> dict[str, str]:
    """What hooks find in their environment, the user's own too. A process that stays for further turns names none."""
    if callback is None:
        return {}
    return {
        "OSTLER_CALLBACK_URL": callback.url,
        "OSTLER_CALLBACK_TOKEN": callback.token,
        "OSTLER_SESSION": turn.session,
        **({"OSTLER_TURN": turn.id} if turn.transport not in STAYING else {}),
        **({"OSTLER_API_URL": callback.api_url} if callback.api_url else {}),
    }


def _walled(setup: Setup, turn: Turn, agent: Agent) -> "Walled | None":
    """The wall around it, where its adapter says what must be writable behind one. Raises denied."""
    if turn.access == "full" or setup.settings.walls == "off":
        return None
    from ostler.work.walls import wall_around

    state = str(setup.store.folder)
    environ = {**_with_config(setup, agent), **setup.settings.env, **turn.env}  # which may say where its state is
    return wall_around(
        setup.settings,
        agent,
        turn.access,
        turn.folder,
        state=state,
        environ=environ,
        programs=programs_of(setup, agent, turn.access),
        session=None if turn.fork else turn.agent_session,
    )


async def _without_launcher(setup: Setup, turn: Turn, agent: Agent, argv: tuple[str, ...]) -> tuple[str, ...]:
    """What `npx` or `uvx` would start, which cannot work behind a wall themselves. Raises missing."""
    from ostler.work.launchers import launcher_call, started_itself

    if launcher_call(argv) is None:
        return argv
    return await started_itself(argv, _outside(setup, turn, agent), setup.probes or NotesCache(setup.store))


def _without_wall(setup: Setup, turn: Turn, agent: Agent, walled: "Walled | None") -> tuple[str, ...]:
    """Said where a turn would have a wall on another machine; what an agent does without one, its launch says."""
    if walled is not None or turn.access == "full":
        return ()
    from ostler.work.walls import why_no_wall, why_no_walls

    if not setup.settings.read_secrets:
        why = why_no_wall(setup.settings, agent, turn.access, programs_of(setup, agent, turn.access))
        return (f"read_secrets is false, but there is no wall around {turn.agent}, which can read them: {why}",)
    if agent.module or not (missing := why_no_walls()):
        return ()
    if why_no_wall(setup.settings, agent, turn.access, programs_of(setup, agent, turn.access)) != missing:
        return ()
    return (f"there is no wall around {turn.agent}: {missing}. Its own flags keep it to --access {turn.access}",)


def programs_of(setup: Setup, agent: Agent, access: Access) -> frozenset[str]:
    """Which helper programs of the agent are on PATH: those of its sandbox, which `write` alone may need."""
    if access != "write":
        return frozenset()
    path = setup.environ.get("PATH", os.defpath)
    return frozenset(name for name in agent.programs if on_path(name, path)) - setup.broken


async def _with_tried_sandbox(setup: Setup, agent: Agent, access: Access) -> Setup:
    """The setup with what is known of the agent's own sandbox, where the access relies on it."""
    if agent.sandbox is None or agent.state is None or access not in agent.sandbox.keeps:
        return setup
    from ostler.work.own_sandbox import broken_programs

    env = child_environment(setup.environ, agent, add={}, pass_patterns=(), launch_env={})
    path, cache = setup.environ.get("PATH", os.defpath), setup.probes or NotesCache(setup.store)
    broken = await broken_programs(agent, env, path, cache)
    return structs.replace(setup, broken=broken) if broken else setup


def _transport(setup: Setup, turn: Turn, server: Agent) -> TransportName:
    return choose_transport(turn.transport, the_agent(setup.settings, turn.agent), server, setup.agents.values())


def _effective_turn(setup: Setup, turn: Turn, agent: Agent, walled: "Walled | None") -> Turn:
    """The turn as this agent gets it, with what goes along. Raises for all that can be known not to work."""
    checked = _checked(turn, agent)
    if walled is None:
        _check_promise(setup, turn, agent)
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


def _environment(setup: Setup, turn: Turn, agent: Agent, launch: Launch, walled: "Walled | None") -> dict[str, str]:
    return child_environment(
        _with_config(setup, agent),
        agent,
        add={**setup.settings.env, **turn.env},
        pass_patterns=setup.settings.env_pass,
        default_env=launch.default_env,
        launch_env={**launch.env, **_own_environment(setup, agent), **(walled.env if walled else {})},
    )


def _outside(setup: Setup, turn: Turn, agent: Agent) -> dict[str, str]:
    """The agent's environment as it is without a wall."""
    return child_environment(
        _with_config(setup, agent),
        agent,
        add={**setup.settings.env, **turn.env},
        pass_patterns=setup.settings.env_pass,
        launch_env=_own_environment(setup, agent),
    )


def _redactor(setup: Setup, turn: Turn, agent: Agent, env: Mapping[str, str], callback: Callback | None) -> Redactor:
    known = secrets(setup.environ, env, (*agent.keys, *setup.settings.redact))
    held = setup.callbacks().tokens_of(turn.session) if callback is not None and setup.callbacks is not None else ()
    return Redactor({*known, *servers.secrets(turn.mcp), *setup.settings.own_tokens, *held})


async def _project_config(setup: Setup, folder: str, agent: Agent) -> ProjectConfig:
    """In a thread where there is something to read: that may be much."""
    nothing = no_project_config(folder, agent, setup.home)
    return nothing if nothing is not None else await asyncio.to_thread(project_config_of, setup, folder, agent)


def project_config_of(setup: Setup, folder: str, agent: Agent) -> ProjectConfig:
    """What the folder holds for the agent, and what the user said of it."""
    return read_project_config(folder, agent, setup.home, recorded_answers(trust_file(setup.environ)))


def with_project_config(setup: Setup, told: AgentReport, folder: str) -> AgentReport:
    """The report with what the folder holds for the agent."""
    config = project_config_of(setup, folder, setup.agents[told.name])
    return structs.replace(told, project_config=config.described() if config.places else "", trusted=config.trusted)


def _left_out(turn: Turn, config: ProjectConfig) -> tuple[str, ...]:
    if config.trusted or not config.places:
        return ()
    what = f"left out, since you have not trusted {turn.folder}: {config.described()}"
    if problem := next((place.problem for place in config.places if place.problem), ""):
        return (f"{what}. It cannot be trusted: {problem}",)
    changed = " It has changed since you trusted it." if config.changed else ""
    return (f"{what}.{changed} Look at it, then run `ostler trust`",)


def _with_instructions(turn: Turn, agent: Agent, host: Host) -> tuple[Turn, tuple[str, ...]]:
    """The turn with what the folder tells the agent, which passes over it with all else of the folder.

    And what has to be said of it.
    """
    told = instructions(host.levels, agent.instructions)
    cut = (f"instructions beyond {MAX_TEXT // 1024} KiB were left out: {', '.join(told.cut)}",) if told.cut else ()
    if not told.text:
        return turn, cut
    return structs.replace(turn, system="\n\n".join(filter(None, (turn.system, told.text)))), cut


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


class NotesCache:
    """Keeps what probes found in the store's notes. What was read once is remembered: a key is for one content."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        if key not in self._read and (found := self.store.note(f"probe:{key}")) is not None:
            self._read[key] = found
        return self._read.get(key)

    async def put(self, key: str, value: Any) -> None:
        await self.store.set_note(f"probe:{key}", value)


def _checked(turn: Turn, agent: Agent) -> Turn:
    """The turn as this agent gets it, or the error that says why it cannot."""
    if turn.limits.cost_usd is not None and not agent.cost:
        able = ", ".join(each.name for each in AGENTS.values() if each.cost)
        message = f"{agent.name} does not report what a turn costs"
        raise OstlerError("unsupported", message, f"Leave out --max-cost, or choose one of {able}")
    if turn.resume and not agent.resumes:
        raise OstlerError("unsupported", f"{agent.name} cannot resume a conversation")
    if turn.fork and not agent.forks:
        raise OstlerError("unsupported", f"{agent.name} cannot fork a conversation", "Start a new session")
    if turn.system_mode == "replace" and not agent.replaces_system:
        able = ", ".join(each.name for each in AGENTS.values() if each.replaces_system)
        message = f"{agent.name} keeps its own system prompt: it cannot be replaced"
        raise OstlerError("unsupported", message, f"Leave out --system-mode, or choose one of {able}")
    checked = attachments.check(turn.attachments, agent, turn.folder)
    prompt = turn.prompt
    if turn.schema is not None:
        schema.check_schema(turn.schema)
        if agent.schema != "native" or turn.transport in ("dialog", "pty", "tmux"):
            # Flags are for a process, and one that stays serves turns with other schemas too.
            prompt = f"{prompt}\n\n{schema.instruction(turn.schema)}"
    _check_size(prompt, sum(len(a.content.encode()) for a in checked if a.content is not None), agent)
    return structs.replace(turn, prompt=prompt, attachments=checked)


def _check_size(prompt: str, attached: int, agent: Agent) -> None:
    """`attached`: bytes of text that go to the agent with the prompt."""
    size, limit = len(prompt.encode()) + attached, agent.prompt_limit or _MAX_PROMPT
    if size > limit:
        raise OstlerError(
            "bad_request",
            f"the prompt has {size:,} bytes{' with its attachments' if attached else ''}, {agent.name} takes {limit:,}",
            "Put the text in a file of the folder and name it in the prompt",
        )


def _check_promise(setup: Setup, turn: Turn, agent: Agent) -> None:
    """An access that the agent cannot keep is refused, unless the settings say that this is known."""
    broken = agent.unpromised.get(turn.access)
    if broken and agent.name not in setup.settings.loose:
        raise OstlerError(
            "denied",
            f"{agent.name} cannot promise --access {turn.access}: {broken}",
            f'Use --access full, or accept it with loose = ["{agent.name}"] in your settings (OSTLER_LOOSE)',
        )


def _with_config(setup: Setup, agent: Agent) -> Mapping[str, str]:
    """The environment, with a HOME of the agent's own where the settings say that its config is private."""
    if setup.settings.config == "user":
        return setup.environ
    home = private_folder(private_folder(setup.store.folder / "homes") / agent.name)
    return {**{n: v for n, v in setup.environ.items() if not n.startswith("XDG_")}, "HOME": str(home)}


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


def _own_environment(setup: Setup, agent: Agent) -> dict[str, str]:
    """The scripted agent is ours: it alone gets the variables that steer it."""
    if not agent.module:
        return {}
    own = {name: value for name, value in setup.environ.items() if name.startswith("OSTLER_SCRIPT_")}
    if setup.settings.scenario:
        own["OSTLER_SCENARIO"] = setup.settings.scenario
    return own


def check_prompt(prompt: str) -> None:
    """Raises bad_request for a prompt that no agent can be given."""
    if not isinstance(prompt, str):
        raise OstlerError("bad_request", f"the prompt is not a text but {type(prompt).__name__}")
    if not prompt.strip():
        raise OstlerError("bad_request", "the prompt is empty", 'Say what to do: ostler run claude "…"')
    if "\0" in prompt:
        raise OstlerError("bad_request", "the prompt contains a NUL character")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise OstlerError("bad_request", "the prompt is not valid Unicode text") from error


def check_folder(folder: str) -> str:
    """The absolute folder. Raises when it is missing, no folder, or cannot be read."""
    try:
        path = os.path.realpath(folder)
    except (ValueError, TypeError) as error:  # a NUL, what is no Unicode, or no path at all
        raise OstlerError("bad_request", f"not a path: {folder!r}") from error
    if not os.path.exists(path):
        raise OstlerError("not_found", f"no such folder: {folder}")
    if not os.path.isdir(path):
        raise OstlerError("bad_request", f"not a folder: {folder}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise OstlerError("denied", f"the folder cannot be read: {folder}")
    return path
