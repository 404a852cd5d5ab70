"""`ostler wait`: until a session is idle, or the program of a terminal has ended."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

import click

from ostler import clock
from ostler.cli.asking import duration
from ostler.cli.sessions import with_ostler
from ostler.cli.terminals import complete_terminal

if TYPE_CHECKING:
    from ostler.model import Envelope, Session, TerminalRow
    from ostler.work import Ostler


@click.command(short_help="Wait until a session or a terminal has finished.")
@click.argument("key", required=False, metavar="[SESSION|TERMINAL]", shell_complete=complete_terminal)
@click.option("--timeout", callback=duration, metavar="TIME", help="Wait no longer than this: 90, 5m, 1h.")
@click.option("--json", is_flag=True, help="Print the envelope of the last turn, or the terminal, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def wait(key: str | None, timeout: float | None, json: bool, quiet: bool) -> int:
    """Wait until every turn of a session has ended, queued ones too, or until a terminal's program has.

    Exits with the status of its last turn (0 ok, 1 error, 124 time limit, 130 cancelled), or of the program;
    with 124 if it is still running after --timeout. Without a name, the only session running, else the one
    used last in this folder.

    \b
      ostler wait k3 && make test
      ostler wait t-k3x9 --timeout 10m
    """
    from ostler.cli.asking import refuse_together

    refuse_together({"--json": json, "--quiet": quiet}, ("--json", "--quiet"))

    async def waited(o: "Ostler") -> "Envelope | TerminalRow | None":
        from ostler.errors import OstlerError

        subject = found(o, key)
        try:
            async with asyncio.timeout(timeout):
                return await _ended(o, subject, quiet)
        except TimeoutError:
            raise OstlerError("timed_out", f"{_name(subject)} is still running") from None

    try:
        result = with_ostler(waited)
    except KeyboardInterrupt:
        return 130
    if json:
        from ostler.cli.views import json_text

        click.echo(json_text(result), nl=False)
    elif not quiet:
        _print_result(result)
    return _exit_code(result)


def found(o: "Ostler", key: str | None) -> "Session | TerminalRow":
    """A session by id or name, else a terminal."""
    from ostler.cli.default_session import running_or_latest
    from ostler.errors import OstlerError, quoted

    if key is None:
        return running_or_latest(o, None)
    for find in (o.find, o.terminals.find):
        with contextlib.suppress(OstlerError):  # said below, for both kinds at once
            return find(key)
    if len(o.store.find(key)) > 1:
        o.find(key)  # says which
    hint = "List them: ostler sessions --all, ostler terminals --all"
    raise OstlerError("not_found", f"no session and no terminal is called {quoted(key)}", hint)


async def _ended(o: "Ostler", subject: "Session | TerminalRow", quiet: bool) -> "Envelope | TerminalRow | None":
    from ostler.model import Session
    from ostler.work.store_changes import change_since

    printed: set[str] = set()
    look = 0.0
    while True:
        version = o.store.data_version()
        if clock.monotonic() >= look:
            await o.turns.end_orphaned()  # a dead process does not write how its turn ended
            look = clock.monotonic() + 1
        if not isinstance(subject, Session):
            row = o.terminals.get(subject.id)
            if row.state == "ended":
                return row
        elif o.store.next_turn(subject.id) is None:
            last = o.store.last_ended(subject.id)
            return last.envelope if last else None
        elif not quiet:
            _print_asks(o, subject, printed)
        await change_since(o.store, version)


def _print_asks(o: "Ostler", row: "Session", printed: set[str]) -> None:
    """What keeps it from going on: nobody else may be looking."""
    from ostler.cli.answer import how_to_answer
    from ostler.render.lines import asked_lines, plain

    for asked in o.store.open_asks(row.id):
        if asked.id not in printed:
            printed.add(asked.id)
            for line in asked_lines(asked):
                click.echo(plain(line), err=True)
            click.echo(f"  {how_to_answer(row.label, asked)}", err=True)


def _name(subject: "Session | TerminalRow") -> str:
    from ostler.model import Session

    return subject.label if isinstance(subject, Session) else subject.id


def _print_result(result: "Envelope | TerminalRow | None") -> None:
    from ostler.cli.attach import spoken
    from ostler.cli.client import AttachEnd
    from ostler.cli.live import print_lines
    from ostler.model import Envelope
    from ostler.render.lines import ending
    from ostler.work.turns.artifacts import diff_of

    if result is None:
        click.echo("it has had no turns yet")
    elif isinstance(result, Envelope):
        print_lines(ending(result, diff_of(result)))
    else:
        click.echo(spoken(result, AttachEnd("ended", exit=result.exit)))


def _exit_code(result: "Envelope | TerminalRow | None") -> int:
    from ostler.cli.attach import exit_code as of_program
    from ostler.cli.client import AttachEnd
    from ostler.cli.turns import exit_code
    from ostler.model import Envelope

    if result is None:
        return 0
    if isinstance(result, Envelope):
        return exit_code(result)
    return of_program(AttachEnd("ended", exit=result.exit))
