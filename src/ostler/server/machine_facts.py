"""What this machine tells the others of itself: its agents, the folders it has worked in, and its load."""

import asyncio
import os
from collections.abc import Iterable

import ostler as package
from ostler.machines.model import MachineAgent, MachineFacts, MachineFolder, MachineLoad
from ostler.machines.remotes import remote_of
from ostler.pipelines.model import WORKFLOW_VERSION
from ostler.server.routes_agents import AgentReports
from ostler.supervise import Loop
from ostler.work import Ostler
from ostler.work.pool.memory import available_mb

_EVERY = 5.0  # seconds between looks at agents and folders
_SESSIONS = 500  # the last used ones, whose folders are told
_FOLDERS = 200


class MachineFactsSource:
    """Agents and folders are looked at in the background: a heartbeat waits for nothing."""

    def __init__(self, ostler: Ostler, reports: AgentReports, labels: tuple[str, ...], folder: str) -> None:
        self._o, self._reports = ostler, reports
        self._labels, self._folder = labels, folder
        self._agents: tuple[MachineAgent, ...] = ()
        self._folders: tuple[MachineFolder, ...] = ()
        self._watch = ostler.store.watch()
        self.looking = Loop("looking at agents and folders for other machines", self._look)

    async def facts(self) -> MachineFacts:
        return MachineFacts(
            version=package.__version__,
            workflows=WORKFLOW_VERSION,
            labels=self._labels,
            folders=self._folders,
            agents=self._agents,
            load=self._load(),
        )

    def _load(self) -> MachineLoad:
        turns = self._o.store.pool_turns()
        return MachineLoad(
            running=sum(turn.runs for turn in turns),
            waiting=sum(not turn.runs for turn in turns),
            cpus=os.cpu_count() or 1,
            load=round(os.getloadavg()[0], 2),
            free_memory_mb=available_mb(),
        )

    async def _look(self) -> None:
        used = (row.folder for row in self._watch.newest_sessions(_SESSIONS))
        self._folders = await asyncio.to_thread(_folders, (self._folder, *used))
        found = await self._reports.get()
        self._agents = tuple(
            MachineAgent(name=each.name, version=each.version, login=each.login) for each in found if each.installed
        )
        await asyncio.sleep(_EVERY)


def _folders(paths: Iterable[str]) -> tuple[MachineFolder, ...]:
    unique = list(dict.fromkeys(paths))[:_FOLDERS]
    return tuple(MachineFolder(path=path, remote=remote_of(path)) for path in unique if os.path.isdir(path))
