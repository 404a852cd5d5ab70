"""`ostler exec`: a command as a turn."""

from typing import TYPE_CHECKING, Any

import click

from ostler.cli.asking import duration, environment_of, refuse_together

if TYPE_CHECKING:
    from ostler.words import Envelope


@click.command("exec", short_help="Run a command as a turn, with the same result.")
@click.argument("command", nargs=-1, metavar="-- COMMAND…")
@click.option("-C", "--folder", metavar="FOLDER", help="Where it runs (default: here).")
@click.option("-n", "--name", metavar="NAME", help="Give the session a name.")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Give it a variable. May be repeated.")
@click.option("-t", "--tty", is_flag=True, help="In a terminal, attached to this one and seen by others.")
@click.option("--timeout", callback=duration, metavar="TIME", help="End it after this time: 90, 5m, 1h.")
@click.option("--events", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--json", is_flag=True, help="Print the result alone, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print the output alone.")
@click.option("-v", "--verbose", is_flag=True, help="Show what it writes to stderr too.")
def exec_command(**options: Any) -> int:
    """Run a command as a turn: journal, limits, artifacts and envelope as for an agent.

    One quoted argument is a shell line; several are a program and its arguments. Exits with the
    command's own code. An empty command does nothing and succeeds.

    \b
      ostler exec -- pytest -q
      ostler exec --timeout 5m --json -- "make lint && make test"
      ostler exec --tty -- bash
    """
    given = {f"--{name}": value for name, value in options.items()}
    refuse_together(given, ("--json", "--events", "--quiet"), ("--quiet", "--verbose"))
    argv = argv_of(options["command"])
    if not argv:
        return 0
    import asyncio

    return asyncio.run(_exec(argv, options))


def argv_of(command: tuple[str, ...]) -> tuple[str, ...]:
    """One argument with blanks or shell signs goes through sh; () if there is nothing to run."""
    if not any(word.strip() for word in command):
        return ()
    if len(command) == 1 and not all(c.isalnum() or c in "_-./+" for c in command[0]):
        return ("/bin/sh", "-c", command[0])
    return command


async def _exec(argv: tuple[str, ...], options: dict[str, Any]) -> int:
    import os

    import ostler
    from ostler.cli.live import View, choose_view
    from ostler.cli.turns import carry, settings_for
    from ostler.words import Limits

    settings = settings_for(options["folder"])
    limits = Limits(first_record=None, idle=None, total=options["timeout"])
    env = environment_of(options["env"], os.environ)
    wishes: dict[str, Any] = {"folder": options["folder"], "name": options["name"], "limits": limits, "env": env}
    view: View = choose_view(**{key: options[key] for key in ("json", "events", "quiet", "verbose")})
    async with ostler.open(settings, role="run") as o:
        if options["tty"]:
            from ostler.cli.exec_tty import TerminalView
            from ostler.cli.tty import UserTerminal

            events = o.exec(argv, **wishes, tty=UserTerminal().size)
            if not options["events"]:
                view = shown = TerminalView(o, json=options["json"], quiet=options["quiet"])
                events = shown.shown(events)
        else:
            events = o.exec(argv, **wishes)
        await carry(view, argv[0], events, o.turns.cancel_all)
        if o.last_exec is None:
            raise ostler.OstlerError("cancelled", "cancelled before the command began")
        view.end(o.last_exec)
        return _exit_code(o.last_exec)


def _exit_code(envelope: "Envelope") -> int:
    from ostler.cli.turns import exit_code

    code, exit = exit_code(envelope), envelope.exit
    if code != 1 or exit is None:
        return code
    return exit.code or (128 + exit.signal if exit.signal else 1)
