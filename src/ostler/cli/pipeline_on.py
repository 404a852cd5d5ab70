"""`ostler pipeline run --on`, and runs of other machines in `ostler pipeline list`: by the server of this one."""

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.local_server import LocalServer
from ostler.cli.run_on import place_of
from ostler.cli.turns import settings_for
from ostler.cli.views import json_text
from ostler.errors import OstlerError
from ostler.render.lines import short_folder

if TYPE_CHECKING:
    from ostler.server.run_views import RunView

_SECONDS = 10.0  # for the server to say what there is elsewhere
_MOST = 1000  # runs that it tells of at once


async def begin_on(what: str, folder: str, inputs: dict[str, str], options: dict[str, Any], on: str, json: bool) -> int:
    """Has a run wait for a machine. Raises unsupported for a pipeline in Python: it would have to be run there."""
    source = {"text": _text(what)} if os.path.isfile(what) else {"example": what}
    with contextlib.closing(LocalServer(settings_for(None).home, "--on")) as server:
        given = {name: value for name, value in options.items() if value is not None}
        body = {"folder": folder, "inputs": inputs, **source, **given, **await place_of(server, on)}
        view = await server.ask("POST", "/api/runs", body)
    if json:
        click.echo(json_text(view), nl=False)
    else:
        click.echo(f"{view['pipeline']} · {view['id']} · {view['state']}{_because(view)}")
        click.echo("Follow it: ostler pipeline list, or the page")
    return 0


def _because(view: dict[str, Any]) -> str:
    return f" · {view['error']}" if view["error"] else ""


def _text(file: str) -> str:
    if file.endswith(".py"):
        raise OstlerError("unsupported", "a pipeline written in Python cannot run on another machine")
    with open(file, encoding="utf-8") as opened:
        return opened.read()


async def runs_elsewhere(home: str, limit: int) -> "list[RunView]":
    """Runs of other machines, and those that wait for one. Nothing, where no server runs here; one that does not answer
    is told of, and waited for only so long.
    """
    from msgspec import convert

    from ostler.server.lock import who_serves
    from ostler.server.run_views import RunView

    serves = who_serves(home)
    if serves is None or not serves.url:
        return []
    try:
        with contextlib.closing(LocalServer(home, "a list of other machines' runs")) as server:
            async with asyncio.timeout(_SECONDS):
                listed = await server.ask("GET", f"/api/runs?limit={min(limit, _MOST)}")
    except (OstlerError, TimeoutError) as error:
        click.echo(f"note: runs of other machines are not listed: {str(error) or 'no answer in time'}", err=True)
        return []
    return [view for view in convert(listed["items"], list[RunView]) if view.machine or view.state == "waiting"]


async def run_elsewhere(home: str, key: str) -> OstlerError | None:
    """What is said to somebody who looks for a run that another machine has, or that waits for one."""
    found = [view for view in await runs_elsewhere(home, _MOST) if view.id.startswith(key)]
    if len(found) != 1:
        return None
    (view,) = found
    if not view.machine:
        return OstlerError("not_found", f"{view.id} waits for a machine", "Look at it, or cancel it, on the page")
    hint = f"Use the page, or there: ostler pipeline show {view.id}"
    return OstlerError("not_found", f"{view.id} is a run of machine {view.machine}", hint)


def run_columns(view: "RunView", home: str) -> tuple[str, ...]:
    """A run as a line of `list`."""
    done = sum(node.ended_at is not None for node in view.nodes)
    where = f"{view.machine}:{view.folder}" if view.machine else short_folder(view.folder, home)
    return view.id, view.pipeline, view.state, f"{done}/{len(view.nodes)}", where
