"""`ostler run --on`: the turn runs on another machine, through the server of this one."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ostler.cli import complain
from ostler.cli.local_server import LocalServer, problem_of
from ostler.errors import OstlerError
from ostler.model import OF_SESSION, AnyEvent, Attachment, Ended, Envelope, TurnOptions

if TYPE_CHECKING:
    from ostler.settings import Settings
    from ostler.work.dialogs.asks import AskAnswer

_NOT_THERE = ("session", "resume", "agent_session", "record", "wait_for")  # what only a session of this machine has


def check_on(options: dict[str, Any]) -> None:
    """Raises a usage error for flags that mean something of this machine."""
    for name in _NOT_THERE:
        if options[name]:
            flag = "continue" if name == "resume" else name.replace("_", "-")
            raise click.UsageError(f"--on and --{flag} cannot be used together")


async def run_on(settings: "Settings", who: str | None, prompt: str, turn: TurnOptions, options: dict[str, Any]) -> int:
    """Runs the turn where `--on` says, and shows it here. Ctrl-C cancels it there."""
    from ostler.cli.run import asking_view
    from ostler.cli.turns import exit_code, show_turn
    from ostler.cli.views import choose_view

    server = LocalServer(settings.home, "--on")
    try:
        made = await server.send("POST", "/api/sessions", await _new_session(server, settings, who, options))
        session = msgspec.json.decode(made.body)
        if not (options["quiet"] or options["json"] or options["events"]):
            click.echo(f"session {session['id']} on {made.machine or 'this machine'}", err=True)
        view = choose_view(
            **{key: options[key] for key in ("json", "events", "quiet", "verbose")},
            access=options["access"] or settings.access,
        )
        started = await server.ask(
            "POST", f"/api/sessions/{session['id']}/turns", await _new_turn(server, prompt, turn, options)
        )
        events = FarEvents(server, session["id"], started["id"])
        if not options["events"]:
            view = asking_view(view, events.answer)
        await show_turn(view, session["agent"], events, events.cancel)
        answer = await server.ask("GET", f"/api/turns/{started['id']}/envelope")
        envelope = msgspec.convert(answer, Envelope)
        view.end(envelope)
        return exit_code(envelope)
    finally:
        server.close()


class FarEvents:
    """The events of one turn, as `show_turn` takes them."""

    def __init__(self, server: LocalServer, session: str, turn: str) -> None:
        self._server, self._session, self._turn = server, session, turn
        self._asking: set[asyncio.Task[None]] = set()  # what the server is asked for beside the events

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        decode = msgspec.json.Decoder(AnyEvent).decode
        async for sent in self._server.stream(f"/api/sessions/{self._session}/events"):
            if sent.kind == "trouble":
                raise problem_of(sent.data)
            event = decode(sent.data)
            if event.turn == self._turn:
                yield event
                if isinstance(event, Ended):
                    return

    def cancel(self) -> bool:
        self._ask("cancel")
        return True

    def answer(self, said: "AskAnswer") -> None:
        self._ask("answer", {"ask": said.ask, "option": said.option, "message": said.message})

    async def aclose(self) -> None:
        if self._asking:
            await asyncio.wait(self._asking)

    def _ask(self, verb: str, body: dict[str, str] | None = None) -> None:
        task = asyncio.create_task(self._asked(verb, body))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _asked(self, verb: str, body: dict[str, str] | None) -> None:
        try:
            await self._server.ask("POST", f"/api/turns/{self._turn}/{verb}", body)
        except OstlerError as error:
            complain(str(error), 0)


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
    given = {name: options[name] for name in ("name", *OF_SESSION) if options[name] is not None}
    return {"agent": who or settings.default_agent, **given, **where}


async def place_of(server: LocalServer, on: str) -> dict[str, Any]:
    """What `--on` says: a machine, or labels."""
    from ostler.machines.on_option import placement_of

    return placement_of(on, [machine["name"] for machine in (await server.ask("GET", "/api/machines"))["items"]])


async def _new_turn(server: LocalServer, prompt: str, turn: TurnOptions, options: dict[str, Any]) -> dict[str, Any]:
    limits = {"total": options["timeout"], "idle": options["idle_timeout"], "cost_usd": options["max_cost"]}
    given = {
        **msgspec.to_builtins(msgspec.structs.replace(turn, attachments=())),
        "limits": {name: value for name, value in limits.items() if value is not None},
        "attachments": [await _attachment(server, each) for each in turn.attachments],
        "mcp": options["mcp"],
    }
    said = {name: value for name, value in given.items() if value not in (None, (), [], {})}
    return {"prompt": prompt, "wait": options["wait"], **said}


async def _attachment(server: LocalServer, attached: Attachment | str) -> dict[str, Any]:
    """A file of this machine is handed over."""
    assert isinstance(attached, Attachment)  # of `--attach`
    if not attached.path:
        return {"name": attached.name, "content": attached.content}
    from urllib.parse import quote

    from ostler.cli.asking import read_file

    data = read_file(attached.path, "the attachment", 32 << 20)
    target = f"/api/uploads/{quote(os.path.basename(attached.path))}"
    async with await server.request("PUT", target, data, b"application/octet-stream") as answer:
        said = await answer.body()
        if answer.status != 201:
            raise problem_of(said)
    return {"upload": msgspec.json.decode(said)["upload"], **({"type": attached.type} if attached.type else {})}
