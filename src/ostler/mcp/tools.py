"""The tools of `ostler mcp`: their arguments, and what they do."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from ostler import clock
from ostler.access import Access
from ostler.errors import OstlerError, quoted
from ostler.mcp.bounds import (
    DelegationBounds,
    access_within,
    bounds_of,
    check_depth,
    check_folder_within,
    cost_within,
    reaches,
)
from ostler.mcp.parent_turns import left_of, parent_turns
from ostler.model import Session, TurnOptions, TurnRow
from ostler.settings import Settings
from ostler.work import LiveSession, Ostler
from ostler.work.sessions.choice import choose
from ostler.work.store_changes import change_since
from ostler.work.turns.begin import begin
from ostler.work.turns.checks import check_folder
from ostler.work.turns.options import limits_of

USUAL_WAIT = 45.0  # seconds: some agents give a tool no more than a minute
LONGEST_WAIT = 600.0
_SHOWN = 200  # characters of a prompt in a list

_log = logging.getLogger(__name__)

Id = Annotated[str, Meta(min_length=1, max_length=200)]


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool is called with."""


class ListAgents(ToolArguments, frozen=True, kw_only=True):
    """Lists the coding agents and profiles that can be given work, and what keeps those that cannot."""


class ListSessions(ToolArguments, frozen=True, kw_only=True):
    """Lists sessions, the last used first. A session is a conversation with one agent: more turns go on with it."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class StartTurn(ToolArguments, frozen=True, kw_only=True):
    """Gives a prompt to another coding agent and returns at once with the id of the turn. Then call wait_turn, or say
    with `seconds` how long to wait for its envelope here.
    """

    prompt: Annotated[str, Meta(min_length=1, description="what the other agent has to do; it knows nothing else")]
    agent: Annotated[str, Meta(description="an agent, a profile or a model; see list_agents")] | None = None
    session: Annotated[str, Meta(description="id or name of a session to continue, instead of an agent")] | None = None
    name: Annotated[str, Meta(description="a name for the new session", max_length=100)] | None = None
    folder: Annotated[str, Meta(description="where it works; usually where you work")] | None = None
    access: (
        Annotated[Access, Meta(description="read: changes nothing; write: edits in the folder; full: anything")] | None
    ) = None
    model: Annotated[str, Meta(max_length=200)] | None = None
    schema: Annotated[dict[str, Any], Meta(description="a JSON schema that the answer has to match")] | None = None
    max_cost_usd: Annotated[float, Meta(gt=0)] | None = None
    time_limit: Annotated[float, Meta(gt=0, description="seconds that the turn may take")] | None = None
    seconds: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class WaitTurn(ToolArguments, frozen=True, kw_only=True):
    """Waits for a turn and returns its envelope: status, text, changed files, cost. If it is still running after
    `seconds`, its state is returned instead: call again.
    """

    turn: Id
    seconds: Annotated[float, Meta(gt=0, le=LONGEST_WAIT)] = USUAL_WAIT


class ReadTurn(ToolArguments, frozen=True, kw_only=True):
    """Returns the state of a turn, and its envelope if it has ended."""

    turn: Id


class CancelTurnTool(ToolArguments, frozen=True, kw_only=True):
    """Cancels a turn that you started."""

    turn: Id


class Tools:
    """The tools at work. `marks` say whose processes this server descends from."""

    def __init__(self, ostler: Ostler, marks: Sequence[str], most: Access, folder: str) -> None:
        self._ostler, self._marks, self._most, self._folder = ostler, marks, most, folder
        self._starting = asyncio.Lock()  # what one turn may spend is known before the next is begun
        self._begun: set[str] = set()  # turns that were started here
        self._calls: dict[str, tuple[type[ToolArguments], Callable[[Any], Awaitable[Any]]]] = {
            "list_agents": (ListAgents, self._list_agents),
            "list_sessions": (ListSessions, self._list_sessions),
            "start_turn": (StartTurn, self._start_turn),
            "wait_turn": (WaitTurn, self._wait_turn),
            "read_turn": (ReadTurn, self._read_turn),
            "cancel_turn": (CancelTurnTool, self._cancel_turn),
        }

    def kinds(self) -> dict[str, type[ToolArguments]]:
        """Each tool with the type of its arguments, whose docstring says what the tool does."""
        return {name: kind for name, (kind, _) in self._calls.items()}

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the tool returns, as plain data. Raises OstlerError."""
        if name not in self._calls:
            raise OstlerError(
                "not_found", f"there is no tool {quoted(name[:100])}", f"Choose one of: {', '.join(self._calls)}"
            )
        _log.debug("the client calls %s", name)
        kind, work = self._calls[name]
        try:
            given = msgspec.convert(arguments, kind)
        except msgspec.ValidationError as error:
            raise OstlerError("bad_request", f"{name}: {error}") from error
        return msgspec.to_builtins(await work(given))

    # -- looking

    async def _list_agents(self, _: ListAgents) -> Any:
        bounds = self._bounds()
        settings = self._settings(self._where(bounds))
        reports = await self._ostler.doctor(folder=self._where(bounds), sandboxes=False)
        agents = [
            {"name": each.name, "title": each.title, "ready": each.installed and not each.problem, "why": each.problem}
            for each in reports
        ]
        profiles = [
            {"name": name, "agent": each.agent, "description": each.description}
            for name, each in settings.profiles.items()
        ]
        return {
            "agents": agents,
            "profiles": profiles,
            "default_agent": settings.default_agent,
            "most_access": bounds.access,
            "may_start": bounds.depth <= self._ostler.settings.delegation_depth,
        }

    async def _list_sessions(self, given: ListSessions) -> Any:
        bounds = self._bounds()
        rows = [row for row in self._ostler.sessions() if reaches(bounds, row.folder)]
        return {"sessions": [_session(row) for row in rows[: given.limit]]}

    # -- turns

    async def _start_turn(self, given: StartTurn) -> Any:
        async with self._starting:
            row = await self._start(given)
        self._begun.add(row.id)
        _log.info("turn %s: delegated to %s, access %s", row.id, row.turn.agent, row.turn.access)
        return await self._ended(row.id, given.seconds) if given.seconds else _turn(row)

    async def _start(self, given: StartTurn) -> TurnRow:
        around = parent_turns(self._ostler.store, self._marks)
        bounds = bounds_of([row.turn for row in around], self._most, self._folder)
        check_depth(bounds, self._ostler.settings.delegation_depth)
        live = await self._session_for(given, bounds)
        settings, row = self._settings(live.row.folder), live.row
        access = access_within(bounds, given.access, row.access)
        usual = limits_of(row, settings)
        cost = cost_within(given.max_cost_usd or usual.cost_usd, left_of(self._ostler.store, around))
        options = TurnOptions(
            access=access,
            model=given.model if given.session is not None else None,
            schema=given.schema,
            limits=structs.replace(usual, cost_usd=cost, total=_least(given.time_limit, usual.total)),
            tools_allowed=bounds.tools_allowed,
            tools_denied=bounds.tools_denied or None,
        )
        return (await begin(live, given.prompt, options, wait=True)).row

    async def _session_for(self, given: StartTurn, bounds: DelegationBounds) -> LiveSession:
        """Raises denied for a folder that is out of reach."""
        if given.session is not None:
            live = await self._ostler.session(given.agent, session=given.session, folder=given.folder)
            check_folder_within(bounds, live.row.folder)
            if live.id in {row.session for row in parent_turns(self._ostler.store, self._marks)}:
                raise OstlerError(
                    "bad_request", f"{given.session} is the session of the turn that asks", "Name another"
                )
            return live
        where = check_folder(os.path.join(self._where(bounds), given.folder or "."))
        check_folder_within(bounds, where)
        settings = self._settings(where)
        profile = settings.profiles.get(choose(settings, given.agent).profile or "")
        access = access_within(bounds, given.access, (profile.access if profile else None) or settings.access)
        return await self._ostler.session(given.agent, folder=where, name=given.name, model=given.model, access=access)

    async def _wait_turn(self, given: WaitTurn) -> Any:
        return await self._ended(given.turn, given.seconds)

    async def _ended(self, turn: str, seconds: float) -> Any:
        """The turn once it has ended, or as it is after this time."""
        store, until = self._ostler.store, clock.monotonic() + seconds
        while True:
            version = store.data_version()
            row = self._turn_in_reach(turn)
            left = until - clock.monotonic()
            if row.state == "ended" or left <= 0:
                return _turn(row)
            try:
                async with asyncio.timeout(left):
                    await change_since(store, version)
            except TimeoutError:
                pass  # it is looked at once more, and told as it is

    async def _read_turn(self, given: ReadTurn) -> Any:
        return _turn(self._turn_in_reach(given.turn))

    async def _cancel_turn(self, given: CancelTurnTool) -> Any:
        row = self._turn_in_reach(given.turn)
        if row.id not in self._begun:
            raise OstlerError(
                "denied", f"the turn {row.id} was not started from here", "Leave it to the one that started it"
            )
        return _turn(await self._ostler.cancel_turn(row.id))

    def _turn_in_reach(self, id: str) -> TurnRow:
        row = self._ostler.find_turn(id)
        check_folder_within(self._bounds(), row.turn.folder)
        return row

    # -- bounds

    def _bounds(self) -> DelegationBounds:
        return bounds_of([row.turn for row in parent_turns(self._ostler.store, self._marks)], self._most, self._folder)

    def _where(self, bounds: DelegationBounds) -> str:
        """Where a turn works that says nothing else."""
        around = parent_turns(self._ostler.store, self._marks)
        return around[0].turn.folder if around else (bounds.folders or (self._folder,))[0]

    def _settings(self, folder: str) -> Settings:
        return self._ostler.setup_in(folder).settings


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _session(row: Session) -> dict[str, Any]:
    fields = ("id", "name", "agent", "profile", "folder", "state", "access", "title", "turns", "cost_usd", "used_at")
    return {name: getattr(row, name) for name in fields}


def _turn(row: TurnRow) -> dict[str, Any]:
    about: dict[str, Any] = {"turn": row.id, "session": row.session, "state": row.state, "access": row.turn.access}
    if row.envelope is None:
        return {**about, "prompt": row.turn.prompt[:_SHOWN]}
    return {**about, "envelope": row.envelope}
