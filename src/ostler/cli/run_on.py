"""`ostler run --on`: the turn runs on another machine, through the server of this one."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ostler.errors import OstlerError
from ostler.model import AnyEvent, Attachment, Ended, Envelope

if TYPE_CHECKING:
    from ostler.server.machine_client import MachineAnswer
    from ostler.settings import Settings

_TOKEN_SECONDS = 86400.0
_NOT_THERE = ("session", "resume", "agent_session", "record", "wait_for")  # what only a session of this machine has
_SESSION = ("name", "model", "access", "system", "system_mode")


def check_on(options: dict[str, Any]) -> None:
    """Raises a usage error for flags that mean something of this machine."""
    for name in _NOT_THERE:
        if options[name]:
            flag = "continue" if name == "resume" else name.replace("_", "-")
            raise click.UsageError(f"--on and --{flag} cannot be used together")


async def run_on(
    settings: "Settings", who: str | None, prompt: str, turn: dict[str, Any], options: dict[str, Any]
) -> int:
    """Runs the turn where `--on` says, and shows it here. Ctrl-C cancels it there."""
    from ostler.cli.live import choose_view
    from ostler.cli.turns import exit_code, show_turn

    server = LocalServer(settings.home)
    try:
        session = await server.ask("POST", "/api/sessions", await _new_session(server, settings, who, options))
        if not (options["quiet"] or options["json"] or options["events"]):
            click.echo(f"session {session['id']} on {await _machine_of(server, session['id'])}", err=True)
        view = choose_view(
            **{key: options[key] for key in ("json", "events", "quiet", "verbose")},
            access=options["access"] or settings.access,
        )
        started = await server.ask(
            "POST", f"/api/sessions/{session['id']}/turns", await _new_turn(server, prompt, turn, options)
        )
        events = FarEvents(server, session["id"], started["id"])
        await show_turn(view, session["agent"], events, events.cancel)
        told = await server.ask("GET", f"/api/turns/{started['id']}/envelope")
        envelope = msgspec.convert(told, Envelope)
        view.end(envelope)
        return exit_code(envelope)
    finally:
        server.close()


class LocalServer:
    """The server of this state folder, asked as an admin. Errors are those that it tells."""

    def __init__(self, home: str) -> None:
        """Raises not_found where none runs."""
        from ostler.cli.up import user
        from ostler.server.auth import Authenticator
        from ostler.server.lock import who_serves
        from ostler.server.machine_client import MachineClient

        serves = who_serves(home)
        if serves is None or not serves.url:
            hint = "Start one that has joined the others: ostler up --join URL"
            raise OstlerError("not_found", "--on needs a server on this machine, and none is running", hint)
        token = Authenticator(home).sign("bearer", "admin", user(), _TOKEN_SECONDS)
        self._headers = [(b"authorization", f"Bearer {token}".encode())]
        self._client = MachineClient(serves.url)

    def close(self) -> None:
        self._client.close()

    async def ask(self, method: str, target: str, body: Any = None) -> Any:
        """What it answers. Raises what it says is wrong."""
        data = b"" if body is None else msgspec.json.encode(body)
        async with await self.request(method, target, data, b"application/json") as answer:
            said = await answer.body()
            if answer.status >= 400:
                raise _told(said)
            return msgspec.json.decode(said) if said else None

    async def request(self, method: str, target: str, data: bytes = b"", type: bytes = b"") -> "MachineAnswer":
        from ostler.server.machine_client import NETWORK_ERRORS

        body = [(b"content-type", type)] if data else []
        headers = [*self._headers, *body, (b"content-length", b"%d" % len(data))]
        try:
            return await self._client.request(method, target, headers, _once(data))
        except NETWORK_ERRORS as error:
            raise OstlerError("crashed", f"the server of this machine does not answer: {error}") from error

    async def stream(self, target: str) -> AsyncIterator[bytes]:
        """The frames of an event stream."""
        from ostler.server.machine_client import NETWORK_ERRORS

        headers = [*self._headers, (b"accept", b"text/event-stream")]
        async with await self._client.request("GET", target, headers, _once(b"")) as answer:
            if answer.status >= 400:
                raise _told(await answer.body())
            rest = b""
            try:
                async for data in answer.chunks():
                    *frames, rest = (rest + data).split(b"\n\n")
                    for frame in frames:
                        yield frame
            except NETWORK_ERRORS as error:
                raise OstlerError("crashed", f"the connection to the server was lost: {error}") from error


class FarEvents:
    """The events of one turn, as `show_turn` takes them."""

    def __init__(self, server: LocalServer, session: str, turn: str) -> None:
        self._server, self._session, self._turn = server, session, turn
        self._cancelling: asyncio.Task[Any] | None = None

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        decode = msgspec.json.Decoder(AnyEvent).decode
        async for frame in self._server.stream(f"/api/sessions/{self._session}/events"):
            kind, _, data = frame.partition(b"\ndata: ")
            if kind.endswith(b"event: trouble"):
                raise _told(data)
            if not data:
                continue
            event = decode(data)
            if event.turn == self._turn:
                yield event
                if isinstance(event, Ended):
                    return

    def cancel(self) -> bool:
        self._cancelling = asyncio.create_task(self._server.ask("POST", f"/api/turns/{self._turn}/cancel"))
        return True

    async def aclose(self) -> None:
        if self._cancelling is not None:
            await self._cancelling


async def _new_session(
    server: LocalServer, settings: "Settings", who: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """A folder that was named is one of that machine; else it is the repository that this one belongs to."""
    from ostler.machines.remotes import remote_of

    where = await place_of(server, options["on"])
    if options["folder"]:
        where["folder"] = options["folder"]
    elif remote := remote_of(os.getcwd()):
        where["repo"] = remote
    else:
        where["folder"] = os.getcwd()
    given = {name: options[name] for name in _SESSION if options[name] is not None}
    return {"agent": who or settings.default_agent, **given, **where}


async def place_of(server: LocalServer, on: str) -> dict[str, Any]:
    """What `--on` says: a machine, or labels."""
    from ostler.machines.model import ANY

    names = {ANY, *(machine["name"] for machine in (await server.ask("GET", "/api/machines"))["items"])}
    words = [word.strip() for word in on.split(",") if word.strip()]
    return {"machine": words[0]} if len(words) == 1 and words[0] in names else {"labels": words}


async def _machine_of(server: LocalServer, session: str) -> str:
    listed = (await server.ask("GET", "/api/sessions"))["items"]
    return next((row["machine"] for row in listed if row["id"] == session), "") or "this machine"


async def _new_turn(server: LocalServer, prompt: str, turn: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    limits = {"total": options["timeout"], "idle": options["idle_timeout"], "cost_usd": options["max_cost"]}
    given = {**turn, "limits": {name: value for name, value in limits.items() if value is not None} or None}
    given["attachments"] = [await _attachment(server, each) for each in turn["attachments"]]
    given["mcp"] = options["mcp"] or None
    return {"prompt": prompt, **{name: value for name, value in given.items() if value not in (None, [], {})}}


async def _attachment(server: LocalServer, attached: Attachment) -> dict[str, Any]:
    """A file of this machine is handed over."""
    if not attached.path:
        return {"name": attached.name, "content": attached.content}
    from urllib.parse import quote

    from ostler.cli.asking import read_file

    data = read_file(attached.path, "the attachment", 32 << 20)
    target = f"/api/uploads/{quote(os.path.basename(attached.path))}"
    async with await server.request("PUT", target, data, b"application/octet-stream") as answer:
        said = await answer.body()
        if answer.status != 201:
            raise _told(said)
    return {"upload": msgspec.json.decode(said)["upload"], **({"type": attached.type} if attached.type else {})}


def _told(body: bytes) -> OstlerError:
    from ostler.server.problems import ProblemAnswer

    try:
        problem = msgspec.json.decode(body, type=ProblemAnswer)
    except msgspec.MsgspecError:
        return OstlerError("crashed", "the server's answer cannot be understood")
    return OstlerError(problem.kind, problem.detail, problem.hint, problem.retry_at)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    if data:
        yield data
