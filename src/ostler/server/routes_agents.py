"""What is installed, logged in and able, and the profiles of a folder, over HTTP."""

import asyncio
from collections import OrderedDict
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ostler import clock
from ostler.access import Access
from ostler.errors import OstlerError
from ostler.server.auth import Person, require
from ostler.server.routes_sessions import absolute
from ostler.server.routing import Routes
from ostler.settings import Settings
from ostler.work import Ostler
from ostler.work.plug_ins import plug_ins
from ostler.work.probe import AgentReport
from ostler.work.sessions.choice import choose
from ostler.work.turns.checks import check_folder

FRESH = 60.0  # seconds
_AGAIN = 2.0  # however often somebody asks for it
_KEPT = 16  # settings whose agents were looked for

agents = Routes("agents")


class ProfileView(Struct, frozen=True, kw_only=True):
    """An agent under a name of the settings. `agent` is the one that takes its turns; "" if there is none."""

    name: str
    agent: str
    model: str | None
    description: str
    color: str
    access: Access | None


class PlugInProblem(Struct, frozen=True, kw_only=True):
    """What is wrong with an agent of another package; `name` is that of its entry point."""

    name: str
    message: str


class AgentList(Struct, frozen=True, kw_only=True):
    """`notices` tell what of the folder's settings does not count, `problems` what is wrong with plug-ins."""

    items: list[AgentReport]
    profiles: list[ProfileView]
    default_agent: str
    notices: list[str]
    problems: list[PlugInProblem]


class _Looked:
    """What was found by one set of settings."""

    def __init__(self) -> None:
        self.looking = asyncio.Lock()
        self.at = float("-inf")
        self.items: list[AgentReport] = []


class AgentReports:
    """Looks for the agents when somebody asks, not more often than worth it; those who ask meanwhile wait for it."""

    def __init__(self, ostler: Ostler) -> None:
        self._ostler = ostler
        self._looked: OrderedDict[bytes, _Looked] = OrderedDict()

    async def get(self, folder: str | None = None, refresh: bool = False) -> list[AgentReport]:
        looked = self._of(self._ostler.setup_in(folder).settings if folder else self._ostler.settings)
        async with looked.looking:
            if clock.monotonic() - looked.at >= (_AGAIN if refresh else FRESH):
                looked.items = await self._ostler.doctor(folder=folder, sandboxes=False)
                looked.at = clock.monotonic()
            return looked.items

    def _of(self, settings: Settings) -> _Looked:
        """Folders with the same settings have the same agents; those looked at last are kept."""
        key = msgspec.json.encode(settings)
        looked = self._looked.setdefault(key, _Looked())
        self._looked.move_to_end(key)
        while len(self._looked) > _KEPT:
            self._looked.popitem(last=False)
        return looked


@agents(
    "GET /api/agents",
    "The agents: installed, logged in, able to do what; and the profiles of a folder",
    problems=(404,),
)
async def list_agents(
    ostler: Ostler,
    reports: AgentReports,
    person: Person,
    folder: Annotated[
        str, Meta(description="whose settings count: an absolute path, or one from ~/ on", max_length=4096)
    ] = "",
    refresh: bool = False,
) -> AgentList:
    """Looked at anew after a minute, or with `refresh`. Without a folder: the one where the server was started."""
    if folder:
        require(person, "type")
    where = check_folder(absolute(folder, ostler.setup.home)) if folder else None
    setup = ostler.setup_in(where) if where else ostler.setup
    items = await reports.get(where, refresh)
    return AgentList(
        items=items,
        profiles=profiles_of(setup.settings),
        default_agent=setup.settings.default_agent,
        notices=list(setup.notices),
        problems=[PlugInProblem(name=name, message=said) for name, said in plug_ins().problems.items()],
    )


def profiles_of(settings: Settings) -> list[ProfileView]:
    return [
        ProfileView(
            name=name,
            agent=_agent_of(settings, name),
            model=profile.model,
            description=profile.description,
            color=profile.color,
            access=profile.access,
        )
        for name, profile in settings.profiles.items()
    ]


def _agent_of(settings: Settings, profile: str) -> str:
    try:
        return choose(settings, profile).agent
    except OstlerError:
        return ""  # it names an agent or a model that nobody has
