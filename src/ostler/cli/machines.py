"""`ostler machines`: which machines have joined, and how they are."""

import contextlib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ostler.machines.directory import Directory
    from ostler.machines.membership import SeenMachine
    from ostler.server.routes_machines import MachineView

_PATIENCE = 30.0  # seconds


@click.command(short_help="List the machines that have joined.")
@click.option("--join", envvar="OSTLER_JOIN", metavar="URL", help="The address of their Postgres (OSTLER_JOIN).")
@click.option("--forget", metavar="MACHINE", help="Remove a machine that is gone from the list.")
@click.option("--drain", metavar="MACHINE", help="Stop sending it new sessions.")
@click.option("--resume", metavar="MACHINE", help="Let it take new sessions again.")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def machines(join: str | None, json: bool, **changes: str | None) -> None:
    """List the machines that share a Postgres: state, load, agents, labels.

    \b
      live          it answers
      draining      it answers, but gets no new sessions
      unreachable   it has not been heard from for ten seconds
      gone          it was stopped, or has been silent for an hour

    \b
      ostler machines --join postgres://ostler@db/ostler
      ostler machines --drain hawk
      ostler machines --forget hawk
    """
    import asyncio

    from ostler.cli.views import json_text

    if not join and any(changes.values()):
        raise click.UsageError("--drain, --resume and --forget need --join URL, or OSTLER_JOIN in the environment")
    views = asyncio.run(_looked(join, changes)) if join else _asked()
    if json:
        click.echo(json_text(views), nl=False)
    else:
        _print(views)


def _asked() -> "list[MachineView]":
    """By the server of this state folder, which knows them if it has joined."""
    import asyncio

    import msgspec

    from ostler.cli.local_server import LocalServer
    from ostler.cli.turns import settings_for
    from ostler.errors import OstlerError
    from ostler.server.lock import who_serves
    from ostler.server.routes_machines import MachineList

    home = settings_for(None).home
    serves = who_serves(home)
    if serves is None or not serves.url:
        hint = "Name their Postgres (--join URL, or OSTLER_JOIN), or start this one: ostler up --join URL"
        raise OstlerError("not_found", "no server is running here", hint)

    async def fetched() -> "list[MachineView]":
        with contextlib.closing(LocalServer(home, "ostler machines")) as server:
            async with asyncio.timeout(_PATIENCE):
                answer = await server.send("GET", "/api/machines")
        return msgspec.json.decode(answer.body, type=MachineList).items

    try:
        return asyncio.run(fetched())
    except TimeoutError as error:
        raise OstlerError("crashed", f"the server ({serves.pid}) does not answer") from error


async def _looked(join: str, changes: dict[str, str | None]) -> "list[MachineView]":
    from ostler.machines.directory import Directory
    from ostler.machines.membership import SeenMachine
    from ostler.machines.states import state_of
    from ostler.server.routes_machines import machine_view

    directory = Directory(join)
    try:
        await directory.prepare()
        seen = [SeenMachine(row=row, state=state_of(row, row.age)) for row in await directory.machines()]
        for change, key in changes.items():
            if key is not None:
                await _change(directory, change, _named(seen, key))
        if any(changes.values()):
            seen = [SeenMachine(row=row, state=state_of(row, row.age)) for row in await directory.machines()]
        return [machine_view(each, here=False) for each in seen]
    finally:
        await directory.close()


async def _change(directory: "Directory", change: str, machine: "SeenMachine") -> None:
    from ostler.errors import OstlerError

    if change != "forget":
        await directory.drain(machine.id, change == "drain")
    elif machine.answers:
        raise OstlerError("busy", f"{machine.name} is {machine.state}", "Run `ostler down` there first")
    else:
        await directory.forget(machine.id)


def _named(seen: "list[SeenMachine]", key: str) -> "SeenMachine":
    from ostler.errors import OstlerError, quoted
    from ostler.machines.on_option import no_machine_called

    found = [each for each in seen if key in (each.id, each.name)]
    if not found:
        raise no_machine_called(key, [each.name for each in seen])
    if len(found) > 1:
        raise OstlerError("bad_request", f"{len(found)} machines are called {quoted(key)}", "Give its id, from --json")
    return found[0]


def _print(views: "list[MachineView]") -> None:
    from ostler.render.lines import columns

    if not views:
        click.echo("no machine has joined: ostler up --join URL")
        return
    head = ("MACHINE", "STATE", "TURNS", "LOAD", "AGENTS", "LABELS", "ADDRESS")
    for line in columns([head, *map(_row, views)]):
        click.echo(line)


def _row(view: "MachineView") -> tuple[str, ...]:
    from ostler.terminal.safe import one_line

    load = view.load
    turns = f"{load.running} (+{load.waiting})" if load.waiting else str(load.running)
    agents = ", ".join(f"{each.name} {each.version}".strip() for each in view.agents)
    here = " (here)" if view.here else ""
    texts = (f"{view.name}{here}", view.state, turns, f"{load.load:.1f}/{load.cpus}", agents)
    return tuple(map(one_line, (*texts, ", ".join(view.labels), view.url)))
