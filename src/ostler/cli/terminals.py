"""`ostler terminals` and `kill`: what can be attached to, what has ended, and how to end it."""

from typing import TYPE_CHECKING

import click

from ostler import clock
from ostler.cli.sessions import SIGNALS, complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.model import SignalName, TerminalRow
    from ostler.work import Ostler


def complete_terminal(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Live terminals by id, then sessions."""

    async def keys(o: "Ostler") -> list[str]:
        return [row.id for row in o.terminals.list(live=True) if row.id.startswith(incomplete)]

    return [*with_ostler(keys, silently=True), *complete_session(ctx, param, incomplete)]


def complete_recorded(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def keys(o: "Ostler") -> list[str]:
        return [row.id for row in o.terminals.list() if row.recording and row.id.startswith(incomplete)]

    return with_ostler(keys, silently=True)


@click.command(short_help="List terminals.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--all", "everything", is_flag=True, help="Include those that have ended.")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def terminals(session: str | None, everything: bool, json: bool) -> None:
    """List the live terminals, of SESSION if one is given, the newest first.

    \b
      ostler terminals
      ostler terminals k3 --all --json
    """
    from ostler.cli.views import json_text

    async def listed(o: "Ostler") -> "tuple[list[TerminalRow], dict[str, str]]":
        rows = o.terminals.list(o.find(session).id if session else None, live=not everything)
        return rows, {row.id: row.name for row in o.sessions() if row.name}

    rows, names = with_ostler(listed)
    if json:
        click.echo(json_text(rows), nl=False)
    else:
        _print_table(rows, names, everything)


@click.command(short_help="End the program in a terminal, or send it a signal.")
@click.argument("terminal", required=False, shell_complete=complete_terminal)
@click.option("--signal", type=click.Choice(SIGNALS), help="Send only this signal; the program may keep running.")
def kill(terminal: str | None, signal: "SignalName | None") -> None:
    """End the program in TERMINAL, whichever process it runs in. The terminal stays listed and can be played.

    With --signal the program gets that signal and nothing more happens. INT and QUIT go to what runs in the
    foreground, as Ctrl-C does; the others to everything in the terminal. Without TERMINAL, the only program
    that runs in one.

    \b
      ostler kill t-k3x9
      ostler kill t-k3x9 --signal INT
    """
    from ostler.cli.default_session import live_terminal

    async def killed(o: "Ostler") -> "TerminalRow":
        row = o.terminals.find(terminal) if terminal is not None else live_terminal(o)
        await o.terminals.kill(row.id, signal)
        return row

    row = with_ostler(killed)
    click.echo(f"ended {row.id}" if signal is None else f"sent {signal} to {row.id}")


def _print_table(rows: "list[TerminalRow]", names: dict[str, str], everything: bool) -> None:
    """`names`: of the sessions that have one, by id."""
    from ostler.render.lines import columns

    if not rows:
        click.echo("no terminals" if everything else "no live terminals (ended ones: ostler terminals --all)")
        return
    head = ("TERMINAL", "SESSION", "NAME", "STATE", "SIZE", "BEGAN", "COMMAND")
    for line in columns([head, *(_cells(row, names.get(row.session, row.session)) for row in rows)]):
        click.echo(line)


def _cells(row: "TerminalRow", session: str) -> tuple[str, ...]:
    import shlex

    from ostler.cli.attach import spoken_exit
    from ostler.render.lines import spoken_age
    from ostler.terminal.safe import one_line

    command = shlex.join(row.argv) if row.argv else "output of a turn"
    return (
        row.id,
        one_line(session, 24),
        one_line(row.name, 24),
        "live" if row.state == "live" else spoken_exit(row.exit),
        f"{row.cols}×{row.rows}",
        spoken_age(clock.now() - row.created_at),
        one_line(row.title or command, 60),
    )
