"""`ostler terminals`: what can be attached to, and what has ended."""

import time
from typing import TYPE_CHECKING

import click

from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.words import TerminalRow
    from ostler.work import Ostler


def complete_terminal(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Live terminals by id, then sessions."""

    async def keys(o: "Ostler") -> list[str]:
        return [row.id for row in o.terminals.list(live=True) if row.id.startswith(incomplete)]

    return [*with_ostler(keys), *complete_session(ctx, param, incomplete)]


def complete_recorded(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def keys(o: "Ostler") -> list[str]:
        return [row.id for row in o.terminals.list() if row.recording and row.id.startswith(incomplete)]

    return with_ostler(keys)


@click.command(short_help="List terminals.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--all", "everything", is_flag=True, help="Those that have ended too.")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def terminals(session: str | None, everything: bool, json: bool) -> None:
    """List the live terminals, of SESSION if one is given, the newest first.

    \b
      ostler terminals
      ostler terminals k3 --all --json
    """
    from ostler.cli.live import json_text

    async def listed(o: "Ostler") -> "list[TerminalRow]":
        return o.terminals.list(o.find(session).id if session else None, live=not everything)

    rows = with_ostler(listed)
    if json:
        click.echo(json_text(rows), nl=False)
    else:
        _print_table(rows, everything)


def _print_table(rows: "list[TerminalRow]", everything: bool) -> None:
    from ostler.work.lines import columns

    if not rows:
        click.echo("no terminals" if everything else "no live terminals (ended ones: ostler terminals --all)")
        return
    head = ("TERMINAL", "SESSION", "NAME", "STATE", "SIZE", "BEGAN", "COMMAND")
    for line in columns([head, *map(_cells, rows)]):
        click.echo(line)


def _cells(row: "TerminalRow") -> tuple[str, ...]:
    import shlex

    from ostler.cli.attach import spoken_exit
    from ostler.terminal.safe import one_line
    from ostler.work.lines import spoken_age

    command = shlex.join(row.argv) if row.argv else "output of a turn"
    return (
        row.id,
        row.session,
        one_line(row.name, 24),
        "live" if row.state == "live" else spoken_exit(row.exit),
        f"{row.cols}×{row.rows}",
        spoken_age(time.time() - row.created_at),
        one_line(row.title or command, 60),
    )
