"""`ostler tmux …`: the panes in which agents work."""

import os
import sys
from typing import TYPE_CHECKING

import click

from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.work import Ostler
    from ostler.work.panes.looks import PaneRow


@click.group(short_help="Show the panes in which agents work (--transport tmux).")
def tmux() -> None:
    """Show the panes in which agents work (`--transport tmux`).

    \b
      ostler tmux list
      ostler tmux attach
      ostler tmux tile
    """


@tmux.command("list", short_help="List the panes.")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def list_panes(json: bool) -> None:
    """List the panes, with what their sessions do."""
    from ostler.cli.views import json_text
    from ostler.render.lines import columns

    rows = with_ostler(_rows)
    if json:
        click.echo(json_text(rows), nl=False)
        return
    if not rows:
        click.echo('no panes (start one: ostler run claude "…" --transport tmux)')
        return
    head = ("SESSION", "AGENT", "STATE", "PANE", "SERVER", "SHOWS")
    for line in columns([head, *map(_cells, rows)]):
        click.echo(line)


@tmux.command(short_help="Attach to the panes with tmux.")
@click.argument("session", required=False, shell_complete=complete_session)
def attach(session: str | None) -> None:
    """Attach to ostler's panes with tmux itself, at that of SESSION if one is given. Leave with the prefix and d.

    Several people may look at different panes at the same time. What you type goes to the agent at once; to take the
    keyboard from automation first, use `ostler attach`.
    """
    from ostler.errors import OstlerError

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise OstlerError("bad_request", "`ostler tmux attach` needs a terminal", "List the panes: ostler tmux list")

    async def found(o: "Ostler") -> "tuple[tuple[str, ...], str]":
        from ostler.work.panes.looks import attach_command

        return attach_command(o.panes.notes, o.find(session).id if session else None, "TMUX" in os.environ)

    argv, folder = with_ostler(found)
    environ = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    os.chdir(folder)
    os.execve(argv[0], argv, environ)


@tmux.command(short_help="Show all panes at once.")
@click.option("--off", is_flag=True, help="Give each pane its own window again.")
def tile(off: bool) -> None:
    """Show all panes of ostler's own tmux server in one window, side by side.

    An agent's screen needs room: below some 60 columns and 15 rows ostler may not recognise what it shows.
    """

    async def tiled(o: "Ostler") -> int:
        from ostler.work.panes.looks import tile_panes

        return await tile_panes(o.panes.notes, off)

    from ostler.render.lines import counted

    many = counted(with_ostler(tiled), "pane")
    click.echo(f"{many}, each in its own window" if off else f"{many} in one window: ostler tmux attach")


async def _rows(o: "Ostler") -> "list[PaneRow]":
    from ostler.work.panes.looks import pane_rows

    return pane_rows(o.panes.notes, o.store)


def _cells(row: "PaneRow") -> tuple[str, ...]:
    from ostler.terminal.safe import one_line

    return one_line(row.name or row.session, 30), row.agent, row.state, row.pane, row.server, row.shows
