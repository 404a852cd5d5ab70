"""`ostler sessions`, `fork`, `cancel`, `prune`."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from ostler.cli.asking import duration

if TYPE_CHECKING:
    from ostler.words import Session
    from ostler.work import Ostler

Result = TypeVar("Result")


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def keys(o: "Ostler") -> list[str]:
        return [key for row in o.sessions() for key in (row.name, row.id) if key and key.startswith(incomplete)]

    return with_ostler(keys)


def with_ostler(act: "Callable[[Ostler], Awaitable[Result]]") -> Result:
    """The result of an act on the store that holds here."""
    import ostler
    from ostler.cli.turns import settings_for

    async def opened() -> Result:
        async with ostler.open(settings_for(None), role="cli") as o:
            return await act(o)

    return asyncio.run(opened())


@click.command(short_help="List sessions, or import those a CLI keeps.")
@click.option("--all", "everywhere", is_flag=True, help="Those of all folders, not only of this one.")
@click.option("--import", "agent", metavar="AGENT", help="First import the conversations that this agent's CLI keeps.")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def sessions(everywhere: bool, agent: str | None, json: bool) -> None:
    """List the sessions of this folder, the last used first.

    \b
      ostler sessions
      ostler sessions --all --json
      ostler sessions --import claude
    """
    from ostler.cli.live import json_text

    async def listed(o: "Ostler") -> "tuple[list[Session], list[Session]]":
        imported = await o.adopt(agent) if agent else []
        return o.sessions(), imported

    rows, imported = with_ostler(listed)
    here = os.path.realpath(".")
    shown = rows if everywhere else [row for row in rows if row.folder == here or row.folder.startswith(here + "/")]
    if json:
        click.echo(json_text(shown), nl=False)
        return
    if agent:
        _say_imported(imported, agent)
    _print_table(shown, len(rows) - len(shown))


def _say_imported(imported: "list[Session]", agent: str) -> None:
    from ostler.terminal.safe import one_line
    from ostler.work.lines import counted

    click.echo(f"imported {counted(len(imported), 'conversation')} of {one_line(agent)}")


def _print_table(shown: "list[Session]", elsewhere: int) -> None:
    from ostler.work.lines import columns, session_rows

    if not shown:
        more = f" ({elsewhere} elsewhere: ostler sessions --all)" if elsewhere else ""
        click.echo(f"no sessions here{more}")
        return
    head = ("SESSION", "AGENT", "STATE", "TURNS", "USED", "FOLDER", "TITLE")
    for line in columns([head, *session_rows(shown, time.time(), os.path.expanduser("~"))]):
        click.echo(line)


@click.command(short_help="Begin a new session as a copy of one.")
@click.argument("session", shell_complete=complete_session)
@click.option("-n", "--name", metavar="NAME", help="Give the copy a name.")
def fork(session: str, name: str | None) -> None:
    """Begin a new session that starts as a copy of SESSION's conversation, where the agent can.

    \b
      ostler fork k3
      ostler fork k3 --name try-again
    """

    async def forked(o: "Ostler") -> str:
        copy = await (await o.session(session=session)).fork(name)
        return copy.row.name or copy.row.id

    from ostler.work.lines import continue_line, plain

    click.echo(plain(continue_line(with_ostler(forked))))


@click.command(short_help="Cancel the turn that runs in a session.")
@click.argument("session", shell_complete=complete_session)
def cancel(session: str) -> None:
    """Cancel the turn that runs in SESSION, whichever shell it runs in. What it did so far is kept.

    \b
      ostler cancel k3
    """
    told = with_ostler(lambda o: o.cancel(session))
    click.echo("cancelled" if told else "nothing runs in this session")


@click.command(short_help="Remove old sessions and their files.")
@click.option("--older-than", callback=duration, metavar="TIME", help="Not used for this long: 12h, 30d.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def prune(older_than: float | None, dry_run: bool) -> None:
    """Remove sessions that have expired, or were not used for a time. Busy ones stay.

    \b
      ostler prune --dry-run
      ostler prune --older-than 7d
    """
    from ostler.work.lines import counted

    removed = with_ostler(lambda o: o.prune(older_than=older_than, dry_run=dry_run))
    for row in removed:
        click.echo(row.name or row.id)
    click.echo(f"{'would remove' if dry_run else 'removed'} {counted(len(removed), 'session')}")
