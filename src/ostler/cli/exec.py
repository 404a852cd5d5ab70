"""`ostler exec`: a command as a turn."""

from typing import TYPE_CHECKING, Any

import click

from ostler.access import ACCESS_ORDER
from ostler.cli.asking import duration, environment_of, piped, refuse_together

if TYPE_CHECKING:
    from ostler.cli.turns import Events
    from ostler.cli.views import TurnDisplay
    from ostler.model import Envelope
    from ostler.work import Ostler
    from ostler.work.turns.handle import TurnHandle

    Viewed = tuple[TurnDisplay, TurnHandle, Events]


class _Exec(click.Command):
    """Its own flags end where the command begins, as with `env` or `sudo`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            wrong = error.format_message().rstrip(".")
            hint = f"Put the command's own flags after `--`: ostler exec -- COMMAND {error.option_name}"
            raise click.UsageError(f"{wrong}. {hint}", ctx) from error


@click.command(
    "exec",
    cls=_Exec,
    short_help="Run a command as a turn, with the same result.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, metavar="-- COMMAND…")
@click.option("-C", "--folder", metavar="FOLDER", help="Where it runs (default: here).")
@click.option("-n", "--name", metavar="NAME", help="Give the session a name.")
@click.option(
    "--env", multiple=True, metavar="NAME[=VALUE]", help="Set an environment variable for it. May be repeated."
)
@click.option(
    "-a",
    "--access",
    type=click.Choice(ACCESS_ORDER),
    default="full",
    help="What it may change: nothing (read), this folder (write), or whatever you can (full, the default).",
)
@click.option("-t", "--tty", is_flag=True, help="Run it in a terminal, attached to this one and visible to others.")
@click.option("--timeout", callback=duration, metavar="TIME", help="End it after this time: 90, 5m, 1h.")
@click.option("--events", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--json", is_flag=True, help="Print the result alone, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print the output alone.")
def exec_command(**options: Any) -> int:
    """Run a command as a turn: journal, limits, artifacts and envelope as for an agent.

    One quoted argument is a shell line; several are a program and its arguments. It reads what is
    piped in (with --tty it is typed); its stdout and stderr are shown as they come. Exits with the command's
    own code. An empty command does nothing and succeeds.

    \b
      ostler exec -- pytest -q
      ostler exec --timeout 5m --json -- "make lint && make test"
      git log | ostler exec -- wc -l
      ostler exec --tty -- bash
      ostler exec --access read -- ./untrusted.sh
    """
    given = {f"--{name}": value for name, value in options.items()}
    refuse_together(given, ("--json", "--events", "--quiet"))
    import asyncio

    return asyncio.run(_exec(argv_of(options["command"]), options))


def argv_of(command: tuple[str, ...]) -> tuple[str, ...]:
    """One argument with blanks or shell signs goes through sh; () if there is nothing to run."""
    from ostler.work.turns.command import is_empty

    if is_empty(command):
        return ()
    if len(command) == 1 and not all(c.isalnum() or c in "_-./+" for c in command[0]):
        return ("/bin/sh", "-c", command[0])
    return command


async def _exec(argv: tuple[str, ...], options: dict[str, Any]) -> int:
    import os

    import ostler
    from ostler.cli.turns import opened, settings_for, show_turn
    from ostler.model import Limits

    settings = settings_for(options["folder"])
    limits = Limits(first_record=None, idle=None, total=options["timeout"])
    env = environment_of(options["env"], os.environ)
    exec_options: dict[str, Any] = {"folder": options["folder"], "name": options["name"], "limits": limits, "env": env}
    exec_options["access"] = options["access"]
    async with opened(settings, "run") as o:
        view, turn, events = _viewed(o, argv, exec_options, options)
        await show_turn(view, "exec", events, o.turns.cancel_all)
        if turn.envelope is None:
            raise ostler.OstlerError("cancelled", "cancelled before the command began")
        view.end(turn.envelope)
        return _exit_code(turn.envelope)


def _viewed(o: "Ostler", argv: tuple[str, ...], exec_options: dict[str, Any], options: dict[str, Any]) -> "Viewed":
    """Where the command is shown, its turn, and the events that are shown of it."""
    from ostler.cli.views import choose_view

    shows = {key: options[key] for key in ("json", "events", "quiet")}
    if options["tty"]:
        from ostler.cli.exec_tty import TerminalView
        from ostler.cli.tty import UserTerminal

        turn = o.exec(argv, **exec_options, tty=UserTerminal().size, stdin=_to_type())
        if options["events"]:
            return choose_view(**shows), turn, turn
        terminal = TerminalView(o, json=options["json"], quiet=options["quiet"])
        return terminal, turn, terminal.shown(turn)
    stdin = 0 if piped() else b""
    if options["json"] or options["events"]:
        turn = o.exec(argv, **exec_options, stdin=stdin)
        return choose_view(**shows), turn, turn
    from ostler.cli.exec_output import OutputView

    view = OutputView(quiet=options["quiet"])
    turn = o.exec(argv, **exec_options, stdin=stdin, shown=view.output)
    return view, turn, turn


def _to_type() -> int | bytes:
    """What is piped in. A terminal has its own keys; /dev/null, or no stdin at all, leaves the typing to others."""
    import os
    import stat

    try:
        return b"" if stat.S_ISCHR(os.fstat(0).st_mode) else 0
    except OSError:
        return b""


def _exit_code(envelope: "Envelope") -> int:
    from ostler.cli.turns import exit_code

    code, exit = exit_code(envelope), envelope.exit
    if code != 1 or exit is None:
        return code
    return exit.code or (128 + exit.signal if exit.signal else 1)
