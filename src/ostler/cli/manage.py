"""`ostler rm`, `rename`, `move` and `close`."""

from typing import TYPE_CHECKING, cast

import click

from ostler.cli.sessions import complete_session, with_ostler
from ostler.errors import quoted

if TYPE_CHECKING:
    from ostler.model import Session
    from ostler.work import Ostler
    from ostler.work.sessions.moving import MidTurn


@click.command(short_help="Remove sessions with their files.")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION…", shell_complete=complete_session)
@click.option("-f", "--force", is_flag=True, help="Remove it even if it is busy: its turn is cancelled.")
@click.option("--json", is_flag=True, help="Print what was removed as JSON.")
def rm(sessions: tuple[str, ...], force: bool, json: bool) -> None:
    """Remove sessions with their journals, recordings and files. What runs in their terminals is ended.

    A busy session is refused unless --force is given. The agent's own files are not touched.

    \b
      ostler rm k3
      ostler rm k3 x7 --force
    """

    async def removed(o: "Ostler") -> "list[Session]":
        rows = list({row.id: row for row in map(o.find, sessions)}.values())  # a wrong name before anything is gone
        for row in rows:
            if force:
                await o.close_session(row.id)
            await o.remove(row.id)
        return rows

    rows = with_ostler(removed)
    if json:
        _print_json(rows)
    else:
        for row in rows:
            click.echo(f"removed {_called(row)}")


@click.command(short_help="Give a session another name.")
@click.argument("words", nargs=-1, metavar="[SESSION] NAME", shell_complete=complete_session)
@click.option("--clear", is_flag=True, help="Remove its name.")
@click.option("--json", is_flag=True, help="Print the session as JSON.")
def rename(words: tuple[str, ...], clear: bool, json: bool) -> None:
    """Give SESSION another name. Without SESSION: the one used last in this folder.

    \b
      ostler rename k3 login-bug
      ostler rename login-bug
      ostler rename login-bug --clear
    """
    *named, name = (*words, None) if clear else words or (None,)
    if len(named) > 1:
        raise click.UsageError(f"{len(words)} words where a session and a name were expected: put the name in quotes")
    if name is None and not clear:
        raise click.UsageError("NAME is missing")
    from ostler.cli.default_session import latest_session

    async def renamed(o: "Ostler") -> "tuple[Session, Session]":
        if not named and name is not None and o.store.session(name) is not None:
            raise click.UsageError(f"{name} is a session: give its new name too")
        row = latest_session(o, named[0] if named else None)
        return row, await o.rename(row.id, name)

    before, after = with_ostler(renamed)
    if json:
        _print_json(after)
    else:
        click.echo(f"{_called(before)} is now called {_called(after)}")


@click.command(short_help="Move a session to another transport.")
@click.argument("words", nargs=-1, required=True, metavar="[SESSION] TRANSPORT", shell_complete=complete_session)
@click.option("--wait", is_flag=True, help="Wait for a running turn, or for a person at the keyboard.")
@click.option("--interrupt", is_flag=True, help="Cancel a running turn.")
@click.option("--json", is_flag=True, help="Print the session as JSON.")
def move(words: tuple[str, ...], wait: bool, interrupt: bool, json: bool) -> None:
    """Move SESSION to TRANSPORT: pipe, dialog, visible, pty, tmux. Without SESSION: the one used last in this folder.

    Its id, its journal and the agent's own conversation stay; its next turns run there, unless they say otherwise.
    While a turn runs, or a person has the keyboard of the agent's screen, it is busy: use --wait or --interrupt.

    \b
      ostler move k3 pty
      ostler move k3 pipe --wait
    """
    if len(words) > 2:
        raise click.UsageError(f"{len(words)} words where a session and a transport were expected")
    if wait and interrupt:
        raise click.UsageError("--wait and --interrupt cannot be used together")
    from typing import get_args

    from ostler.model import TransportName

    *named, transport = words
    if transport not in get_args(TransportName):
        known = ", ".join(get_args(TransportName))
        raise click.UsageError(f"{quoted(transport)} is not a transport: {known}")
    from ostler.cli.default_session import latest_session

    async def moved(o: "Ostler") -> "Session":
        row = latest_session(o, named[0] if named else None, with_commands=False)
        return await o.move(row.id, cast("TransportName", transport), _mid_turn(wait, interrupt))

    row = with_ostler(moved)
    if json:
        _print_json(row)
    else:
        click.echo(f"{_called(row)} has moved to {transport}; its next turn runs there")


def _mid_turn(wait: bool, interrupt: bool) -> "MidTurn | None":
    return "wait" if wait else "interrupt" if interrupt else None


@click.command(short_help="End what is running in a session, and keep its record.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--json", is_flag=True, help="Print the session as JSON.")
def close(session: str | None, json: bool) -> None:
    """Close SESSION: its turn is cancelled, its process and the programs in its terminals are ended.

    Its record stays (`ostler show`), but it accepts no more turns; `ostler fork` copies it where the agent
    can. Without SESSION: the only one in which something is running.

    \b
      ostler close k3
    """
    from ostler.cli.default_session import open_session

    async def closed(o: "Ostler") -> "Session":
        return await o.close_session(open_session(o, session).id)

    row = with_ostler(closed)
    if json:
        _print_json(row)
    else:
        click.echo(f"closed {_called(row)}; its record stays: ostler show {_called(row)}")


def _called(row: "Session") -> str:
    from ostler.terminal.safe import one_line

    return one_line(row.label)


def _print_json(value: object) -> None:
    from ostler.cli.views import json_text

    click.echo(json_text(value), nl=False)
