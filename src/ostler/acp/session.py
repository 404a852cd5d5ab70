"""One session that a client has open: its turns, what it chose for them, and its history."""

import asyncio
import hashlib
import os
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from ostler import clock
from ostler.acp import options
from ostler.acp.client import AcpClient
from ostler.acp.commands import available, command_of
from ostler.acp.errors import stop_of
from ostler.acp.history import pages
from ostler.acp.options import Choices, config_options
from ostler.acp.permissions import Permissions
from ostler.acp.prompts import PromptContent, read_prompt
from ostler.acp.servers import handed_on, left_out
from ostler.acp.updates import SessionUpdate, UpdateContext, UpdateTranslator, merged, usage_of
from ostler.acp.wire import AcpConnection
from ostler.agents import Agent
from ostler.errors import OstlerError, quoted
from ostler.model import Attachment, McpServer, Offer, Offered, Session, TurnOptions
from ostler.settings import Settings
from ostler.store.files import private_folder, session_folder, write_private
from ostler.work import LiveSession, Ostler
from ostler.work.offers import is_command
from ostler.work.probe import chosen, find
from ostler.work.sessions.choice import choose
from ostler.work.transports.choose import best_transport
from ostler.work.turns.setup import server_of


class OpenSession:
    """A session of ostler behind an ACP session of the same id."""

    def __init__(self, ostler: Ostler, live: LiveSession, client: AcpClient, wire: AcpConnection) -> None:
        self.ostler, self.live, self.client, self.wire = ostler, live, client, wire
        self.servers: tuple[McpServer, ...] = ()  # MCP servers of the client, as it last opened the session
        self.options = TurnOptions()  # and what it wants for all turns
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
    def settings(self) -> Settings:
        """Those of the session's folder, as they are now."""
        return self.live.setup.settings

    @property
    def agent(self) -> Agent:
        """The one that really serves."""
        return server_of(self.live.setup, self.row.agent)

    # -- turns

    async def prompt(self, blocks: Any, options: TurnOptions | None = None) -> dict[str, Any]:
        """Runs a turn with these options, or those of the session; all its updates come before this returns.

        Raises what it failed with, and `busy`.
        """
        if self._busy:
            hint = "Wait for its turn to end, or cancel it"
            raise OstlerError("busy", f"a turn is already running in session {self.id}", hint)
        wanted = read_prompt(blocks)
        self._busy = True
        self._cancelled.clear()
        self._idle.clear()
        try:
            await self._ready.wait()
            command = command_of(wanted.prompt)
            if command is not None:
                return await self._obey(*command)
            return await self._turn(wanted, options or self.options)
        finally:
            self._busy = False
            self._idle.set()

    async def cancel(self) -> None:
        """The turn that runs ends as cancelled; its last updates and its answer still come."""
        if self._busy:
            self._cancelled.set()
            await self.live.cancel()

    async def close(self) -> None:
        """Ends the turn that runs, and the agent's process."""
        await self.cancel()
        await self._idle.wait()
        await self.ostler.dialogs.close(self.id)

    async def _turn(self, wanted: PromptContent, given: TurnOptions) -> dict[str, Any]:
        options = structs.replace(
            given,
            attachments=await asyncio.to_thread(self._attachments, wanted),
            transport=best_transport(self.agent),
            command=is_command(wanted.prompt, self._offered),
            mcp=self._servers(),
        )
        first, updates = self.row.turns == 0, None
        if self._cancelled.is_set():  # from here to the first step of `run` nobody can come between
            return {"stopReason": "cancelled"}
        permissions: Permissions | None = None
        try:
            events = self.live.run(wanted.prompt, options)
            async with aclosing(events):
                async for event in events:
                    if updates is None:
                        updates = UpdateTranslator(self.look(), event.turn)
                        permissions = Permissions(self.ostler, self.wire, self.id, updates, self.cancel)
                    assert permissions is not None
                    if isinstance(event, Offered):
                        await self._offers(event)
                    for update in updates.of(event):
                        await self.send_update(update)
                    permissions.handle(event)
        except OstlerError as error:
            if error.kind != "cancelled" or updates is not None:
                raise
            return {"stopReason": "cancelled"}  # before it began
        finally:
            if permissions is not None:
                await permissions.close()
        await self._send_info(first)
        assert self.live.last is not None
        usage = self.live.last.usage
        # Who cancels wants to hear just that, also of a turn that failed or was done in the same moment.
        stop = "cancelled" if self._cancelled.is_set() else stop_of(self.live.last)
        return {"stopReason": stop, **({"usage": usage_of(usage)} if usage else {})}

    async def _offers(self, offered: Offered) -> None:
        """Commands and models that have become known, or are others than before."""
        before, self._offered = self._offered, offered
        if before is None or before.commands != offered.commands:
            await self.send_commands()
        if before is None or before.models != offered.models:
            await self._send_options()

    def _attachments(self, wanted: PromptContent) -> tuple[Attachment | str, ...]:
        """Links to files that are there, texts, and images kept in files that go with the session."""
        links = [path for path in wanted.links if os.path.isfile(path)]
        kept: list[str] = []
        for image in wanted.images:
            folder = private_folder(session_folder(self.ostler.store.folder, self.id))
            name = f"{hashlib.sha256(image.data).hexdigest()[:16]}-{image.name}"
            path = private_folder(folder / "images") / name
            write_private(path, image.data)
            kept.append(str(path))
        return (*links, *wanted.attachments, *kept)

    async def _send_info(self, first: bool) -> None:
        updated = datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="seconds")
        title = {"title": self.row.title} if self.row.title else {}
        await self.send_update({"sessionUpdate": "session_info_update", **title, "updatedAt": updated})
        if first:  # the agent can no longer be changed
            await self._send_options()

    # -- commands of ostler's own

    async def _obey(self, name: str, argument: str) -> dict[str, Any]:
        if argument:
            await (self.set_access(argument) if name == "access" else self.set_model(argument))
        now = self.row.access if name == "access" else self.row.model or options.DEFAULT_MODEL
        said = {"type": "text", "text": f"{name}: {now}"}
        await self.send_update({"sessionUpdate": "agent_message_chunk", "content": said})
        return {"stopReason": "end_turn"}

    async def send_commands(self) -> None:
        await self.send_update(
            {"sessionUpdate": "available_commands_update", "availableCommands": available(self._offered)}
        )

    def _servers(self) -> tuple[McpServer | str, ...]:
        """Those of the client that are handed on, and those of the profile."""
        handed = handed_on(self.servers, self.agent, self.row.access)
        profile = self.settings.profiles.get(self.row.profile or "")
        own = [name for name in (profile.mcp if profile else ()) if name not in {server.name for server in handed}]
        return (*handed, *own)

    async def send_servers(self) -> None:
        """Names the MCP servers that the next turn goes without, where the client can show that."""
        notice = left_out(self.servers, self.agent, self.row.access)
        if notice and self.client.notices:
            await self.send_update(notice)

    # -- choices

    def choices(self) -> Choices:
        row, settings = self.row, self.settings
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
        await self.send_update({"sessionUpdate": "current_mode_update", "currentModeId": self.row.access})
        await self._send_options()
        await self.send_servers()

    async def set_model(self, value: Any) -> None:
        await self._change(model=options.model_of(value))
        await self._send_options()

    async def set_agent(self, value: Any) -> None:
        if value == (self.row.profile or self.row.agent):
            return
        if self.row.turns or self._busy or value not in self._agents():
            fixed = "the agent of a session cannot be changed after its first prompt"
            wrong = fixed if self.row.turns or self._busy else f"there is no agent {quoted(value)}"
            raise OstlerError("bad_request", wrong, "Start a new session")
        choice = choose(self.settings, value)
        profile = self.settings.profiles.get(choice.profile or "")
        server = server_of(self.live.setup, choice.agent)
        access = (profile.access if profile else None) or self.row.access
        await self._change(
            agent=choice.agent, model=choice.model, profile=choice.profile, served_by=server.name, access=access
        )
        await self._send_options()
        await self.send_servers()

    async def set_option(self, id: Any, value: Any) -> dict[str, Any]:
        setters = {"mode": self.set_access, "model": self.set_model, "agent": self.set_agent}
        if not isinstance(id, str) or id not in setters:
            raise OstlerError("bad_request", f"there is no option {quoted(id)}", f"Choose one of: {', '.join(setters)}")
        await setters[id](value)
        return {"configOptions": config_options(self.choices())}

    async def _change(self, **fields: Any) -> None:
        """Kept in the session's row: it holds from the next turn on, here and wherever the session is continued."""
        self.live.row = structs.replace(self.row, **fields)  # at once: a prompt may follow before this is written
        self.live.row = await self.ostler.store.change_session(self.id, **fields)

    async def _send_options(self) -> None:
        await self.send_update(
            {"sessionUpdate": "config_option_update", "configOptions": config_options(self.choices())}
        )

    def _agents(self) -> dict[str, str]:
        """Those that are installed, and the profiles; once there were turns, the one that took them."""
        setup = self.live.setup
        settings = setup.settings
        now = self.row.profile or self.row.agent
        if self.row.turns:
            return {now: setup.agents[now].title if now in setup.agents else now}
        path = setup.environ.get("PATH", os.defpath)
        there = {
            name: agent.title
            for name, agent in setup.agents.items()
            if name == now or find(server_of(setup, name), path, chosen(settings, server_of(setup, name).name))
        }
        return {**there, **{name: p.description or name for name, p in settings.profiles.items()}}

    def _models(self) -> list[Offer]:
        """Those that the agent offers, and other names that are known to mean something to it."""
        settings, row = self.settings, self.row
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
                    await self.send_update(update)
        finally:
            self._ready.set()

    # --

    def look(self) -> UpdateContext:
        return UpdateContext(
            folder=self.row.folder,
            terminals=self.client.terminals,
            notices=self.client.notices,
            cost_usd=self.row.cost_usd,
        )

    async def send_update(self, update: SessionUpdate) -> None:
        await self.wire.notify("session/update", {"sessionId": self.id, "update": update})
