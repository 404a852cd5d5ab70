"""`ostler sessions`, `fork`, `cancel`, `prune`."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, get_args

import click

from ostler import clock
from ostler.cli.asking import duration
from ostler.model import SessionState, SignalName

if TYPE_CHECKING:
    from ostler.model import Session
    from ostler.work import Ostler

SIGNALS = get_args(SignalName)
Result = TypeVar("Result")


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def keys(o: "Ostler") -> list[str]:
        return [key for row in o.sessions() for key in (row.name, row.id) if key and key.startswith(incomplete)]

    return with_ostler(keys, silently=True)


def with_ostler(act: "Callable[[Ostler], Awaitable[Result]]", *, silently: bool = False) -> Result:
    """The result of an act on the store that holds here. `silently`: no notes on the settings, for somebody types."""
    from ostler.cli.turns import opened, settings_for

    async def acted() -> Result:
        async with opened(settings_for(None, silently=silently), "cli") as o:
            return await act(o)

    return asyncio.run(acted())


@click.command(short_help="List sessions, or import those a CLI keeps.")
@click.argument("text", required=False, default="")
@click.option("--all", "everywhere", is_flag=True, help="All folders, not just this one.")
@click.option("--agent", "who", metavar="AGENT", help="Only those with this agent or profile.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(get_args(SessionState)),
    help="Only in this state. May be repeated.",
)
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the N most recently used.")
@click.option("--import", "agent", metavar="AGENT", help="First import the conversations that this agent's CLI keeps.")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def sessions(
    text: str,
    everywhere: bool,
    who: str | None,
    states: "tuple[SessionState, ...]",
    limit: int | None,
    agent: str | None,
    json: bool,
) -> None:
    """List the sessions of this folder, the most recently used first.

    With TEXT: those that have it in their name, title, folder, agent or id.

    \b
      ostler sessions
      ostler sessions login --agent claude --limit 10
      ostler sessions --all --state asking --json
      ostler sessions --import claude
    """
    from ostler.cli.views import json_text
    from ostler.work.sessions.filters import chosen_sessions

    async def listed(o: "Ostler") -> "tuple[list[Session], list[Session]]":
        imported = await o.adopt(agent) if agent else []
        return chosen_sessions(o.sessions(), text=text, agent=who, states=states), imported

    rows, imported = with_ostler(listed)
    here = chosen_sessions(rows, folder=None if everywhere else os.path.realpath("."))
    if json:
        click.echo(json_text(here[:limit]), nl=False)
        return
    if agent:
        _print_imported(imported, agent)
    _print_table(here[:limit], len(here[limit:]) if limit else 0, len(rows) - len(here))


def _print_imported(imported: "list[Session]", agent: str) -> None:
    from ostler.render.lines import counted
    from ostler.terminal.safe import one_line

    click.echo(f"imported {counted(len(imported), 'conversation')} of {one_line(agent)}")


def _print_table(shown: "list[Session]", more: int, elsewhere: int) -> None:
    from ostler.render.lines import columns, session_rows

    if not shown:
        others = f" ({elsewhere} elsewhere: ostler sessions --all)" if elsewhere else ""
        click.echo(f"no sessions here{others}")
        return
    head = ("SESSION", "AGENT", "STATE", "TURNS", "COST", "USED", "FOLDER", "TITLE")
    for line in columns([head, *session_rows(shown, clock.now(), os.path.expanduser("~"))]):
        click.echo(line)
    if more:
        click.echo(f"and {more} more")


@click.command(short_help="Start a new session as a copy of another.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("-n", "--name", metavar="NAME", help="Give the copy a name.")
def fork(session: str | None, name: str | None) -> None:
    """Start a new session as a copy of SESSION's conversation, where the agent can.

    Without SESSION: the one used last in this folder.

    \b
      ostler fork k3
      ostler fork k3 --name try-again
    """
    from ostler.cli.default_session import latest_session

    async def forked(o: "Ostler") -> str:
        row = latest_session(o, session, with_commands=False)
        copy = await (await o.session(session=row.id)).fork(name)
        return copy.row.label

    from ostler.render.lines import continue_line, plain

    click.echo(plain(continue_line(with_ostler(forked))))


@click.command(short_help="Cancel the running turn of a session.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--signal", type=click.Choice(SIGNALS), help="Send this signal to its processes at once.")
def cancel(session: str | None, signal: "SignalName | None") -> None:
    """Cancel the running turn of SESSION, whichever shell it runs in. What it did so far is kept.

    The agent is asked to stop, and ended if it does not. With --signal its processes get that at once, and
    KILL if they have not ended two seconds later. Without SESSION: the only one that is running.

    \b
      ostler cancel k3
      ostler cancel k3 --signal KILL
    """
    from ostler.cli.default_session import running_session

    async def cancelled(o: "Ostler") -> "Session | None":
        row = running_session(o, session)
        return row if await o.cancel(row.id, signal) else None

    row = with_ostler(cancelled)
    if row is None:
        click.echo("nothing is running in this session")
    else:
        click.echo("cancelled" if session is not None else f"cancelled {row.label}")


@click.command(short_help="Remove old sessions and their files.")
@click.option("--all", "everywhere", is_flag=True, help="All folders, not just this one.")
@click.option("--older-than", callback=duration, metavar="TIME", help="Not used for this long: 12h, 30d.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("--json", is_flag=True, help="Print them as JSON.")
def prune(everywhere: bool, older_than: float | None, dry_run: bool, json: bool) -> None:
    """Remove sessions of this folder that have expired, or have not been used for a while. Busy ones stay.

    \b
      ostler prune --dry-run
      ostler prune --older-than 7d
      ostler prune --older-than 7d --all
    """
    from ostler.cli.views import json_text
    from ostler.render.lines import counted

    folder = None if everywhere else "."
    removed = with_ostler(lambda o: o.prune(older_than=older_than, dry_run=dry_run, folder=folder))
    if json:
        click.echo(json_text(removed), nl=False)
        return
    for row in removed:
        click.echo(row.label)
    where = "" if everywhere else " of this folder"
    click.echo(f"{'would remove' if dry_run else 'removed'} {counted(len(removed), 'session')}{where}")
