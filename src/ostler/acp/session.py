"""One session that a client has open: its turns, what it chose for them, and its history."""

import asyncio
import hashlib
import os
import time
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from ostler.acp import options
from ostler.acp.client import Client
from ostler.acp.commands import available, command_of
from ostler.acp.errors import stop_of
from ostler.acp.history import pages
from ostler.acp.options import Choices, config_options
from ostler.acp.permissions import Permissions
from ostler.acp.prompts import Wanted, read_prompt
from ostler.acp.servers import handed_on, left_out
from ostler.acp.updates import Look, Update, Updates, merged, usage_of
from ostler.acp.wire import Wire
from ostler.agents import AGENTS, Agent
from ostler.errors import OstlerError
from ostler.store.files import private_folder, session_folder, write_private
from ostler.words import Attachment, McpServer, Offer, Offered, Session, Transport
from ostler.work import LiveSession, Ostler
from ostler.work.offers import is_command
from ostler.work.prepare import server_of
from ostler.work.probe import chosen, find
from ostler.work.sessions import choose

_NUDGE = 0.05


class OpenSession:
    """A session of ostler behind an ACP session of the same id."""

    def __init__(self, ostler: Ostler, live: LiveSession, client: Client, wire: Wire) -> None:
        self.ostler, self.live, self.client, self.wire = ostler, live, client, wire
        self.servers: tuple[McpServer, ...] = ()  # MCP servers of the client, as it last opened the session
        self._offered = ostler.offered(live.id)  # what the agent has, as far as it told
        self._busy = False
        self._cancelled = asyncio.Event()  # of the turn that runs
        self._ready = asyncio.Event()  # its history has been told
        self._ready.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def id(self) -> str:
        return self.live.id

    @property
    def row(self) -> Session:
        return self.live.row

    @property
    def agent(self) -> Agent:
        """The one that really serves."""
        return server_of(self.ostler.setup, AGENTS[self.row.agent])

    # -- turns

    async def prompt(self, blocks: Any) -> dict[str, Any]:
        """Runs a turn; all its updates come before this returns. Raises what it failed with, and `busy`."""
        if self._busy:
            hint = "Wait for its turn to end, or cancel it"
            raise OstlerError("busy", f"a turn runs in session {self.id} already", hint)
        wanted = read_prompt(blocks)
        self._busy = True
        self._cancelled.clear()
        self._idle.clear()
        try:
            await self._ready.wait()
            command = command_of(wanted.prompt)
            if command is not None:
                return await self._obey(*command)
            return await self._turn(wanted)
        finally:
            self._busy = False
            self._idle.set()

    async def cancel(self) -> None:
        """The turn that runs ends as cancelled; its last updates and its answer still come."""
        if self._busy:
            self._cancelled.set()

    async def close(self) -> None:
        """Ends the turn that runs, and the agent's process."""
        await self.cancel()
        await self._idle.wait()
        await self.ostler.dialogs.close(self.id)

    async def _turn(self, wanted: Wanted) -> dict[str, Any]:
        attachments = await asyncio.to_thread(self._attachments, wanted)
        transport: Transport = "dialog" if self.agent.dialog is not None else "pipe"
        command = is_command(wanted.prompt, self._offered)
        first, updates = self.row.turns == 0, None
        nudge = asyncio.create_task(self._cancel_when_wished())
        permissions: Permissions | None = None
        try:
            events = self.live.run(
                wanted.prompt, attachments=attachments, transport=transport, command=command, mcp=self._servers()
            )
            async with aclosing(events):
                async for event in events:
                    if updates is None:
                        updates = Updates(self.look(), event.turn)
                        permissions = Permissions(self.ostler, self.wire, self.id, updates, self.cancel)
                    assert permissions is not None
                    if isinstance(event, Offered):
                        await self._offers(event)
                    for update in updates.of(event):
                        await self.tell(update)
                    permissions.hear(event)
        finally:
            nudge.cancel()
            if permissions is not None:
                await permissions.close()
            with suppress(asyncio.CancelledError):
                await nudge
        await self._tell_of_itself(first)
        assert self.live.last is not None
        usage = self.live.last.usage
        # Who cancels wants to hear just that, also of a turn that failed or was done in the same moment.
        stop = "cancelled" if self._cancelled.is_set() else stop_of(self.live.last)
        return {"stopReason": stop, **({"usage": usage_of(usage)} if usage else {})}

    async def _offers(self, offered: Offered) -> None:
        """Commands and models that have become known, or are others than before."""
        before, self._offered = self._offered, offered
        if before is None or before.commands != offered.commands:
            await self.tell_commands()
        if before is None or before.models != offered.models:
            await self._tell_options()

    async def _cancel_when_wished(self) -> None:
        """A turn can be cancelled once it has begun: until then, and until it ends, the wish is repeated."""
        await self._cancelled.wait()
        while True:
            await self.live.cancel()
            await asyncio.sleep(_NUDGE)

    def _attachments(self, wanted: Wanted) -> list[Attachment | str]:
        """Links to files that are there, texts, and images kept in files that go with the session."""
        links = [path for path in wanted.links if os.path.isfile(path)]
        kept: list[str] = []
        for image in wanted.images:
            folder = private_folder(session_folder(self.ostler.store.folder, self.id))
            name = f"{hashlib.sha256(image.data).hexdigest()[:16]}-{image.name}"
            path = private_folder(folder / "images") / name
            write_private(path, image.data)
            kept.append(str(path))
        return [*links, *wanted.attachments, *kept]

    async def _tell_of_itself(self, first: bool) -> None:
        updated = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
        title = {"title": self.row.title} if self.row.title else {}
        await self.tell({"sessionUpdate": "session_info_update", **title, "updatedAt": updated})
        if first:  # the agent can no longer be changed
            await self._tell_options()

    # -- commands of ostler's own

    async def _obey(self, name: str, argument: str) -> dict[str, Any]:
        if argument:
            await (self.set_access(argument) if name == "access" else self.set_model(argument))
        now = self.row.access if name == "access" else self.row.model or options.DEFAULT_MODEL
        said = {"type": "text", "text": f"{name}: {now}"}
        await self.tell({"sessionUpdate": "agent_message_chunk", "content": said})
        return {"stopReason": "end_turn"}

    async def tell_commands(self) -> None:
        await self.tell({"sessionUpdate": "available_commands_update", "availableCommands": available(self._offered)})

    def _servers(self) -> list[McpServer | str]:
        """Those of the client that are handed on, and those of the profile."""
        handed = handed_on(self.servers, self.agent, self.row.access)
        profile = self.ostler.settings.profiles.get(self.row.profile or "")
        own = [name for name in (profile.mcp if profile else ()) if name not in {server.name for server in handed}]
        return [*handed, *own]

    async def tell_servers(self) -> None:
        """Names the MCP servers that the next turn goes without, where the client can show that."""
        notice = left_out(self.servers, self.agent, self.row.access)
        if notice and self.client.notices:
            await self.tell(notice)

    # -- choices

    def choices(self) -> Choices:
        row, settings = self.row, self.ostler.settings
        server = self.agent
        return Choices(
            agent=server,
            chosen=row.profile or row.agent,
            agents=self._agents(),
            access=row.access,
            accesses=options.accesses(server, row.access, server.name in settings.loose),
            model=row.model,
            models=self._models(),
        )

    def state(self) -> dict[str, Any]:
        """What the answers to session/new and its kin tell."""
        choices = self.choices()
        return {"modes": options.modes(choices), "configOptions": config_options(choices)}

    async def set_access(self, value: Any) -> None:
        await self._change(access=options.access_of(value, self.choices()))
        await self.tell({"sessionUpdate": "current_mode_update", "currentModeId": self.row.access})
        await self._tell_options()
        await self.tell_servers()

    async def set_model(self, value: Any) -> None:
        await self._change(model=options.model_of(value))
        await self._tell_options()

    async def set_agent(self, value: Any) -> None:
        if value == (self.row.profile or self.row.agent):
            return
        if self.row.turns or self._busy or value not in self._agents():
            fixed = "the agent of a session cannot be changed after its first prompt"
            wrong = fixed if self.row.turns or self._busy else f"there is no agent {value!r}"
            raise OstlerError("bad_request", wrong, "Begin a new session")
        choice = choose(self.ostler.settings, value)
        profile = self.ostler.settings.profiles.get(choice.profile or "")
        server = server_of(self.ostler.setup, AGENTS[choice.agent])
        access = (profile.access if profile else None) or self.row.access
        await self._change(
            agent=choice.agent, model=choice.model, profile=choice.profile, served_by=server.name, access=access
        )
        await self._tell_options()
        await self.tell_servers()

    async def set_option(self, id: Any, value: Any) -> dict[str, Any]:
        setters = {"mode": self.set_access, "model": self.set_model, "agent": self.set_agent}
        if not isinstance(id, str) or id not in setters:
            raise OstlerError("bad_request", f"there is no option {id!r}", f"There are: {', '.join(setters)}")
        await setters[id](value)
        return {"configOptions": config_options(self.choices())}

    async def _change(self, **fields: Any) -> None:
        """Kept in the session's row: it holds from the next turn on, here and wherever the session is continued."""
        self.live.row = structs.replace(self.row, **fields)  # at once: a prompt may follow before this is written
        self.live.row = await self.ostler.store.change_session(self.id, **fields)

    async def _tell_options(self) -> None:
        await self.tell({"sessionUpdate": "config_option_update", "configOptions": config_options(self.choices())})

    def _agents(self) -> dict[str, str]:
        """Those that are installed, and the profiles; once there were turns, the one that took them."""
        settings, setup = self.ostler.settings, self.ostler.setup
        now = self.row.profile or self.row.agent
        if self.row.turns:
            return {now: AGENTS[self.row.agent].title if now in AGENTS else now}
        path = setup.environ.get("PATH", os.defpath)
        there = {
            name: agent.title
            for name, agent in AGENTS.items()
            if name == now or find(server_of(setup, agent), path, chosen(settings, server_of(setup, agent).name))
        }
        return {**there, **{name: p.description or name for name, p in settings.profiles.items()}}

    def _models(self) -> list[Offer]:
        """Those that the agent offers, and other names that are known to mean something to it."""
        settings, row = self.ostler.settings, self.row
        named = [model for model, agent in settings.models.items() if agent == row.agent and not set("*?[") & {*model}]
        profiles = [p.model for p in settings.profiles.values() if p.model and p.agent in ("", row.agent)]
        offered = {offer.id: offer for offer in (self._offered.models if self._offered else ())}
        known = dict.fromkeys((row.model, *offered, *named, *profiles))
        return [offered.get(model, Offer(id=model)) for model in known if model and options.is_model(model)]

    # -- history

    async def replay(self) -> None:
        """Tells everything that happened so far. A prompt that comes meanwhile waits."""
        self._ready.clear()
        try:
            look = self.look()
            for page in pages(self.ostler.store, self.id, structs.replace(look, notices=False)):
                for update in merged(page):
                    await self.tell(update)
        finally:
            self._ready.set()

    # --

    def look(self) -> Look:
        return Look(
            folder=self.row.folder,
            tools=self.agent.tools,
            terminals=self.client.terminals,
            notices=self.client.notices,
            cost_usd=self.row.cost_usd,
        )

    async def tell(self, update: Update) -> None:
        await self.wire.notify("session/update", {"sessionId": self.id, "update": update})
