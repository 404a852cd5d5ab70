"""Prepares an attempt at a turn: every check that can be made before anything is stored or spawned."""

import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from ostler.agents import AGENTS, Agent, decode
from ostler.agents.adapter import confirm
from ostler.agents.dialog import Dialog, DialogFace
from ostler.errors import OstlerError
from ostler.settings import Settings
from ostler.store import Redactor, Store
from ostler.store.files import private_folder, session_folder
from ostler.words import Host, Turn
from ostler.work import attachments, schema, servers
from ostler.work.carry import Attempt
from ostler.work.environment import child_environment, secrets
from ostler.work.probe import Probe, chosen, find, on_path, probe

_MAX_PROMPT = 64 * 1024 * 1024


class Setup(Struct, frozen=True, kw_only=True):
    """What all turns of one ostler process share."""

    settings: Settings
    environ: Mapping[str, str]
    store: Store

    @property
    def home(self) -> str:
        return self.environ.get("HOME") or os.path.expanduser("~")


def server_of(setup: Setup, agent: Agent) -> Agent:
    """The agent that really serves: the scripted one for every name under OSTLER_ONLY=script."""
    only = setup.settings.only
    if not only:
        return agent
    if only not in AGENTS:
        raise OstlerError("not_found", f"OSTLER_ONLY names no agent: {only!r}", f"Agents: {', '.join(AGENTS)}")
    return AGENTS[only]


async def prepare(setup: Setup, turn: Turn) -> Attempt:
    """The attempt, ready to be carried. Raises OstlerError for all that cannot work; writes nothing."""
    if turn.agent not in AGENTS:
        raise OstlerError("not_found", f"there is no agent {turn.agent!r} any more", f"Agents: {', '.join(AGENTS)}")
    server = server_of(setup, AGENTS[turn.agent])
    told = _checked(turn, server)
    _check_promise(setup, turn, server)
    told = structs.replace(told, mcp=servers.ready(turn, server, setup.environ.get("PATH", os.defpath)))
    prefix, found = await _binary(setup, server)
    host = Host(
        executable=prefix[-1],
        version=found.version,
        help=found.help,
        private=str(session_folder(setup.store.folder, turn.session) / turn.id),
        root=os.geteuid() == 0,
        home=setup.home,
        programs=frozenset(p for p in server.programs if on_path(p, setup.environ.get("PATH", os.defpath))),
        folder_names=frozenset(n for n in server.folder_names if os.path.lexists(os.path.join(turn.folder, n))),
    )
    face = _face(server, told)
    if face is not None and face.images:
        told = structs.replace(told, attachments=attachments.with_images(told.attachments))
    launch = face.launch(told, host) if face else server.launch(told, host)
    confirm(told, host, launch.argv[1:])
    launch = structs.replace(launch, argv=(*prefix, *launch.argv[1:]))
    recorded = _records_of(setup, server)
    environment = child_environment(
        _with_config(setup, server),
        server,
        add={**setup.settings.env, **turn.env},
        pass_patterns=setup.settings.env_pass,
        launch_env={**launch.env, **_own_environment(setup, server)},
    )
    return Attempt(
        turn=turn,
        agent=server,
        reader=recorded.reader(told),
        launch=launch,
        env=environment.env,
        served_by=server.name,
        records_of=recorded.name,
        redactor=Redactor(
            {
                *secrets(setup.environ, environment.env, (*server.keys, *setup.settings.redact)),
                *servers.secrets(turn.mcp),
            }
        ),
        told=told,
        dialog=_dialog(face, told, host),
    )


def _dialog(face: DialogFace | None, turn: Turn, host: Host) -> Dialog | None:
    """The agent's side of the talk, where the turn is one. Raises for a mode that can be known not to work."""
    if face is None and turn.mode is not None:
        message = f"a mode is set in a dialog; a turn of its own has the mode of its --access {turn.access}"
        raise OstlerError("unsupported", message, 'Use --dialog, or transport="dialog"')
    if face is None:
        return None
    dialog = face.dialog(turn, host)
    if turn.mode is not None:
        dialog.check_mode(turn.mode)
    return dialog


def _face(agent: Agent, turn: Turn) -> DialogFace | None:
    """How the turn is carried: None is a process of its own."""
    if turn.transport == "pipe" and agent.one_shot:
        return None
    if turn.transport not in ("pipe", "dialog"):
        raise OstlerError("unsupported", f"{turn.transport} cannot carry a turn yet", "Use pipe or dialog")
    if agent.dialog is None:
        able = ", ".join(a.name for a in AGENTS.values() if a.dialog)
        raise OstlerError("unsupported", f"{agent.name} holds no dialogs", f"Agents that do: {able}")
    return agent.dialog


async def _binary(setup: Setup, agent: Agent) -> tuple[tuple[str, ...], Probe]:
    prefix = find(agent, setup.environ.get("PATH", os.defpath), chosen(setup.settings, agent.name))
    if prefix is None and agent.name in setup.settings.acp:
        program = setup.settings.acp[agent.name][0]
        raise OstlerError("missing", f"`{program}` is no program here", f"Mend acp.{agent.name} in your settings")
    if prefix is None:
        raise OstlerError("missing", f"`{agent.binaries[0]}` is not on PATH", f"Install: {agent.install}")
    if not agent.one_shot:
        return prefix, Probe(path=prefix[0])  # its protocol tells what it can do
    environment = child_environment(setup.environ, agent, add={}, pass_patterns=(), launch_env={})
    return prefix, await probe(agent, prefix, environment.env, NotesCache(setup.store))


class NotesCache:
    """Keeps what probes found in the store's notes."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, key: str) -> Any:
        return self.store.note(f"probe:{key}")

    async def put(self, key: str, value: Any) -> None:
        await self.store.set_note(f"probe:{key}", value)


def _checked(turn: Turn, agent: Agent) -> Turn:
    """The turn as this agent gets it, or the error that says why it cannot."""
    if turn.limits.cost_usd is not None and not agent.cost:
        raise OstlerError(
            "unsupported", f"{agent.name} does not tell what it costs", "Leave out --max-cost, or choose claude"
        )
    if turn.resume and not agent.resumes:
        raise OstlerError("unsupported", f"{agent.name} cannot resume a conversation")
    if turn.fork and not agent.forks:
        raise OstlerError("unsupported", f"{agent.name} cannot fork a conversation", "Start a new session")
    checked = attachments.check(turn.attachments, agent, turn.folder)
    prompt = turn.prompt
    if turn.schema is not None:
        schema.check_schema(turn.schema)
        if agent.schema != "native" or turn.transport == "dialog" or not agent.one_shot:
            # Flags are for a process, and a dialog's serves turns with other schemas too.
            prompt = f"{prompt}\n\n{schema.instruction(turn.schema)}"
    size = len(prompt.encode())
    limit = agent.prompt_limit or _MAX_PROMPT
    if size > limit:
        raise OstlerError(
            "bad_request",
            f"the prompt has {size:,} bytes, {agent.name} takes {limit:,}",
            "Put the text in a file of the folder and name it in the prompt",
        )
    return structs.replace(turn, prompt=prompt, attachments=checked)


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
    if server.name != "script" or not setup.settings.scenario:
        return server
    try:
        with open(setup.settings.scenario, "rb") as file:
            head = decode(file.readline(1024 * 1024))
    except OSError as error:
        raise OstlerError("not_found", f"the scenario cannot be read: {error}") from error
    on_cassette = isinstance(head, dict) and "ostler_cassette" in head
    return AGENTS.get(head.get("agent", ""), server) if on_cassette else server


def _own_environment(setup: Setup, agent: Agent) -> dict[str, str]:
    """The scripted agent is ours: it alone gets the variables that steer it."""
    if agent.name != "script":
        return {}
    own = {name: value for name, value in setup.environ.items() if name.startswith("OSTLER_SCRIPT_")}
    if setup.settings.scenario:
        own["OSTLER_SCENARIO"] = setup.settings.scenario
    return own


def check_prompt(prompt: str) -> None:
    """Raises bad_request for a prompt that no agent can be given."""
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
    except ValueError as error:  # a NUL, or what is no Unicode
        raise OstlerError("bad_request", f"not a path: {folder!r}") from error
    if not os.path.exists(path):
        raise OstlerError("not_found", f"no such folder: {folder}")
    if not os.path.isdir(path):
        raise OstlerError("bad_request", f"not a folder: {folder}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise OstlerError("denied", f"the folder cannot be read: {folder}")
    return path
