"""What a turn is prepared with."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ostler.access import Access
from ostler.agents import Agent
from ostler.errors import OstlerError, quoted
from ostler.settings import Settings, recorded_answers, trust_file
from ostler.store import Store
from ostler.work.dialogs.ask_rules import check_rules
from ostler.work.known_agents import KnownAgents, agents_of, the_agent
from ostler.work.probe import AgentReport, on_path
from ostler.work.project_config import ProjectConfig, read_project_config

if TYPE_CHECKING:
    from ostler.work.hooks.callbacks import Callbacks


class NotesCache:
    """Keeps what probes found in the store's notes. What was read once is remembered until it is put anew."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        if key not in self._read and (found := self.store.note(f"probe:{key}")) is not None:
            self._read[key] = found
        return self._read.get(key)

    async def put(self, key: str, value: Any) -> None:
        await self.store.set_note(f"probe:{key}", value)
        self._read.pop(key, None)


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

    def __repr__(self) -> str:
        """Without the environment, which holds keys."""
        return f"<Setup of {self.store.folder}>"

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
        raise OstlerError("not_found", f"OSTLER_ONLY does not name an agent: {quoted(only)}", hint)
    return setup.agents[only]


def programs_of(setup: Setup, agent: Agent, access: Access) -> frozenset[str]:
    """Which helper programs of the agent are on PATH: those of its sandbox, which `write` alone may need."""
    if access != "write":
        return frozenset()
    path = setup.environ.get("PATH", os.defpath)
    return frozenset(name for name in agent.programs if on_path(name, path)) - setup.broken


def project_config_of(setup: Setup, folder: str, agent: Agent) -> ProjectConfig:
    """What the folder holds for the agent, and what the user said of it."""
    return read_project_config(folder, agent, setup.home, recorded_answers(trust_file(setup.environ)))


def with_project_config(setup: Setup, report: AgentReport, folder: str) -> AgentReport:
    """The report with what the folder holds for the agent."""
    config = project_config_of(setup, folder, setup.agents[report.name])
    return structs.replace(report, project_config=config.described() if config.places else "", trusted=config.trusted)
