"""`ostler queue`: who runs, who waits, and why."""

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ostler.work import Ostler
    from ostler.work.pool.view import QueueView


@click.command(short_help="List the turns that wait for a free slot, and why.")
@click.option(
    "--resume", "account", metavar="ACCOUNT", help="Let turns of this account start again: its quota is back."
)
@click.option("--json", is_flag=True, help="Print it as JSON.")
def queue(account: str | None, json: bool) -> None:
    """List the turns that run on this machine and those that wait, in the order in which they start.

    Turns of all ostler processes share the limits of the setting `pool`. An account whose quota is used up
    is parked until the time at which its agent said it would be back.

    \b
      ostler queue
      ostler queue --json
      ostler queue --resume claude
    """
    from ostler.cli.sessions import with_ostler
    from ostler.cli.views import json_text
    from ostler.errors import OstlerError, quoted
    from ostler.work.pool.view import queue_view

    async def looked(o: "Ostler") -> "QueueView":
        if account is not None and not await o.store.unpark(account):
            parked = ", ".join(o.pool.parked())
            hint = f"Parked accounts: {parked}" if parked else "No account is parked"
            raise OstlerError("not_found", f"account {quoted(account)} is not parked", hint)
        return queue_view(o.pool, o.store.sessions_of(turn.session for turn in o.store.pool_turns()))

    view = with_ostler(looked)
    if json:
        click.echo(json_text(view), nl=False)
    else:
        _print(view)


def _print(view: "QueueView") -> None:
    from ostler.render.lines import columns
    from ostler.work.pool.view import usage_lines

    for line in usage_lines(view):
        click.echo(line)
    if not view.waiting:
        click.echo("no turns are waiting")
        return
    head = ("PLACE", "SESSION", "AGENT", "PRIORITY", "WAITED", "WAITS FOR", "FOLDER")
    for line in columns([head, *map(_row, view.waiting)]):
        click.echo(line)


def _row(turn: Any) -> tuple[str, ...]:
    from ostler.render.lines import short_folder
    from ostler.terminal.safe import one_line

    place = str(turn.position) if turn.position else "next"
    waited = f"{turn.waited:.0f} s" if turn.waited < 120 else f"{turn.waited / 60:.0f} min"
    priority = str(turn.priority) if turn.priority else ""
    return (
        place,
        one_line(turn.name or turn.session),
        turn.agent,
        priority,
        waited,
        turn.reason,
        one_line(short_folder(turn.folder, os.path.expanduser("~"))),
    )
