"""`ostler attach`: a terminal of ostler in the user's own."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.terminals import complete_terminal

if TYPE_CHECKING:
    from ostler.cli.client import AttachEnd, Client
    from ostler.model import Exit, TerminalRow
    from ostler.work import Ostler

DETACH = "ctrl-]"


@click.command(short_help="Attach to a terminal: see it, type into it.")
@click.argument("terminal", required=False, metavar="[TERMINAL|SESSION]", shell_complete=complete_terminal)
@click.option("--view", is_flag=True, help="Only watch: nothing that is typed is sent.")
@click.option("--no-take", is_flag=True, help="Type only while nobody else has the keyboard.")
@click.option("--detach-keys", metavar="KEYS", default=DETACH, show_default=True, help="Keys that detach.")
def attach(terminal: str | None, view: bool, no_take: bool, detach_keys: str) -> int:
    """Attach this terminal to one of ostler's, whichever process runs it. Several can attach at once.

    For a session, that is its primary terminal. You get the keyboard, and the terminal takes the size of yours.
    Ctrl-] detaches; the program keeps running. Exits with the program's code if it ends first. Without a
    name, the only program running in a terminal.

    \b
      ostler attach
      ostler attach t-k3x9
      ostler attach k3 --view
      ostler attach t-k3x9 --detach-keys ctrl-p,ctrl-q
    """
    if view and no_take:
        raise click.UsageError("--view and --no-take cannot be used together")
    from ostler.cli.client import DetachKeys

    keys = DetachKeys(detach_keys)
    from ostler.cli.default_session import live_terminal

    async def attached(o: "Ostler") -> int:
        row = found(o, terminal) if terminal is not None else live_terminal(o)
        return await show(o, row, keys, take="never" if view else "free" if no_take else "always")

    from ostler.cli.sessions import with_ostler

    return with_ostler(attached)


def found(o: "Ostler", key: str) -> "TerminalRow":
    """A terminal by its own id or name, or the primary one of a session."""
    from ostler.errors import OstlerError, quoted

    try:
        return o.terminals.find(key)
    except OstlerError as error:
        if error.kind != "not_found":
            raise
    try:
        session = o.find(key)
    except OstlerError as error:
        if error.kind != "not_found":
            raise
        hint = "List them: ostler terminals --all"
        raise OstlerError("not_found", f"no terminal and no session is called {quoted(key)}", hint) from None
    row = o.terminals.primary(session.id) or next(iter(o.terminals.list(session.id)), None)
    if row is None:
        hint = "Open one: ostler exec --tty -- bash"
        raise OstlerError("not_found", f"session {session.id} has no terminal", hint)
    return row


async def show(o: "Ostler", row: "TerminalRow", keys: Any, take: Any) -> int:
    from ostler.cli.client import Client
    from ostler.cli.tty import ERASE_BELOW, UserTerminal

    viewing = await o.terminals.view(row.id, author(), "view" if take == "never" else "type")
    with UserTerminal() as user:
        client = Client(viewing, user, take=take if row.typing else "never", detach=keys)
        with leaving_by_signal(client):
            ending = await client.run()
    # What the program goes on to draw is not left half overwritten.
    below = ERASE_BELOW.decode() if ending.how != "ended" else ""
    click.echo((f"\r\n{below}" if user.shows else "") + spoken(row, ending), err=True)
    return exit_code(ending)


def author() -> Any:
    """Who types: the user, in this very window."""
    import os

    from ostler.cli.user import user_name
    from ostler.terminal.lease import Author

    return Author(user_name(), "person", f"cli:{os.getpid()}")


def leaving_by_signal(client: "Client") -> Any:
    """TERM, HUP and INT leave as the keys do."""
    import signal
    from contextlib import contextmanager

    from ostler.cli.client import AttachEnd

    @contextmanager
    def leaving() -> Any:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, client.leave, AttachEnd("signalled", signal=number))
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    return leaving()


def spoken(row: "TerminalRow", ending: "AttachEnd") -> str:
    """How it ended, in one line."""
    from ostler.terminal.safe import one_line

    name = row.id if row.name == row.id else f"{row.id} ({one_line(row.name, 60)})"
    match ending.how:
        case "detached" | "signalled":
            return f"[detached from {name}; it keeps running]"
        case "ended":
            return f"[{name} has ended: {spoken_exit(ending.exit)}]"
        case _:
            problem = ending.problem
            return f"[{name}: {one_line(problem.message, 500) if problem else 'the connection was lost'}]"


def spoken_exit(exit: "Exit | None") -> str:
    import signal

    if exit is None:
        return "exit status unknown"
    if exit.signal is None:
        return f"exit code {exit.code}"
    try:
        return f"signal {signal.Signals(exit.signal).name}"
    except ValueError:
        return f"signal {exit.signal}"


def exit_code(ending: "AttachEnd") -> int:
    match ending.how:
        case "detached":
            return 0
        case "signalled":
            return 128 + ending.signal
        case "ended":
            exit = ending.exit
            return 1 if exit is None else 128 + exit.signal if exit.signal is not None else exit.code or 0
        case _:
            return 1
