"""What is installed, logged in and able, over HTTP."""

import asyncio
import time

from litestar import Router, get
from msgspec import Struct

from ostler.work import Ostler
from ostler.work.probe import AgentReport

FRESH = 60.0  # seconds
_AGAIN = 2.0  # however often somebody asks for it


class AgentList(Struct, frozen=True, kw_only=True):
    items: list[AgentReport]


class AgentReports:
    """Looks for the agents when somebody asks, not more often than worth it; those who ask meanwhile wait for it."""

    def __init__(self, ostler: Ostler) -> None:
        self._ostler = ostler
        self._looking = asyncio.Lock()
        self._at = float("-inf")
        self._items: list[AgentReport] = []

    async def get(self, refresh: bool = False) -> list[AgentReport]:
        async with self._looking:
            if time.monotonic() - self._at >= (_AGAIN if refresh else FRESH):
                self._items = await self._ostler.doctor()
                self._at = time.monotonic()
            return self._items


@get("/api/agents", summary="The agents: installed, logged in, able to do what")
async def list_agents(reports: AgentReports, refresh: bool = False) -> AgentList:
    """Looked at anew after a minute, or with `refresh`."""
    return AgentList(items=await reports.get(refresh))


agents = Router("/", tags=["agents"], route_handlers=[list_agents])
