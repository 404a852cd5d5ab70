"""`ostler …`: the command line. Each command lives in a module that is imported when it is used."""

import atexit
import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

import ostler
from ostler.errors import internal_error, quoted

# name → (where it lives, what it does): `ostler --help` needs no more than this.
COMMANDS = {
    "run": ("ostler.cli.run:run", "Run one turn with a coding agent."),
    "chat": ("ostler.cli.chat:chat", "Chat with a coding agent."),
    "answer": ("ostler.cli.answer:answer", "Answer an agent's question."),
    "steer": ("ostler.cli.answer:steer", "Steer a running turn."),
    "exec": ("ostler.cli.exec:exec_command", "Run a command as a turn, with the same result."),
    "acp": ("ostler.cli.acp:acp", "Serve any agent to editors, over ACP."),
    "mcp": ("ostler.cli.mcp:mcp", "Let an agent delegate work to others, over MCP."),
    "agents": ("ostler.cli.agents:agents", "List the agents and what they can do."),
    "doctor": ("ostler.cli.agents:doctor", "Check what is installed, logged in and missing."),
    "sessions": ("ostler.cli.sessions:sessions", "List sessions, or import those a CLI keeps."),
    "show": ("ostler.cli.show:show", "Show what happened in a session."),
    "watch": ("ostler.cli.show:watch", "Follow a session live from another shell."),
    "diff": ("ostler.cli.diff:diff", "Show what a session changed."),
    "wait": ("ostler.cli.wait:wait", "Wait until a session or a terminal has finished."),
    "terminals": ("ostler.cli.terminals:terminals", "List terminals."),
    "attach": ("ostler.cli.attach:attach", "Attach to a terminal: see it, type into it."),
    "tmux": ("ostler.cli.tmux:tmux", "Show the panes in which agents work (--transport tmux)."),
    "kill": ("ostler.cli.terminals:kill", "End the program in a terminal, or send it a signal."),
    "play": ("ostler.cli.play:play", "Play the recording of a terminal."),
    "export": ("ostler.cli.export:export", "Export a session or a pipeline run for other programs."),
    "fork": ("ostler.cli.sessions:fork", "Start a new session as a copy of another."),
    "hand": ("ostler.cli.hand:hand", "Hand a session over to another agent."),
    "pipeline": ("ostler.cli.pipeline:pipeline", "Check, run and follow pipelines: graphs of turns and commands."),
    "queue": ("ostler.cli.queue:queue", "List the turns that wait for a free slot, and why."),
    "cancel": ("ostler.cli.sessions:cancel", "Cancel the running turn of a session."),
    "move": ("ostler.cli.manage:move", "Move a session to another transport."),
    "rename": ("ostler.cli.manage:rename", "Give a session another name."),
    "close": ("ostler.cli.manage:close", "End what is running in a session, and keep its record."),
    "rm": ("ostler.cli.manage:rm", "Remove sessions with their files."),
    "prune": ("ostler.cli.sessions:prune", "Remove old sessions and their files."),
    "up": ("ostler.cli.up:up", "Start the server with its page."),
    "down": ("ostler.cli.up:down", "Stop the server."),
    "link": ("ostler.cli.link:link", "Create a login link or a token for the server."),
    "machines": ("ostler.cli.machines:machines", "List the machines that have joined."),
    "trust": ("ostler.cli.project:trust", "Let a folder's settings run programs and widen access."),
    "init": ("ostler.cli.project:init", "Write a commented ostler.toml."),
    "model": ("ostler.cli.model:model", "Serve a scripted model on this machine, for tests."),
    "completion": ("ostler.cli.completion:completion", "Print the completion script for a shell."),
}


class ReaderGone(Exception):
    """The reader of our stdout went away. Not an OSError: click would exit with 1 for that."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error
        except click.NoSuchOption as error:
            flag = error.option_name
            if flag not in ("--log-level", "--log-file"):
                raise
            where = f"ostler {flag}=… {ctx.invoked_subcommand}"
            raise click.UsageError(f"{flag} goes before the command: {where}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f'To run a turn: ostler run claude "{name} …"'
            raise click.UsageError(f"there is no command {quoted(name)}. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(ostler.__version__, message="ostler %(version)s")
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),  # as in ostler.logs, which imports a lot
    help="Log to stderr from this level on (OSTLER_LOG does the same).",
)
@click.option("--log-file", metavar="FILE", help="Log to this file instead; it is rotated.")
@click.pass_context
def cli(ctx: click.Context, log_level: str | None, log_file: str | None) -> None:
    """Drive any coding agent from one command line.

    \b
      ostler run claude "fix the failing test" --access write
      ostler run codex "explain this repository"
      git diff | ostler run gemini "review this"
      ostler run --continue "now add a test"

    Exit codes: 0 ok, 1 error, 2 usage, 124 time limit, 130 cancelled.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    elif log_level or log_file or os.environ.get("OSTLER_LOG"):
        from ostler.cli.logs import start_log

        ctx.obj = start_log(ctx.invoked_subcommand, log_level, log_file)


def main(args: list[str] | None = None) -> None:
    """The console entry: runs a command and exits with its code. Never shows a traceback unless asked."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 must not end a turn
    code = _guarded(args)
    try:
        sys.stdout.flush()
    except OSError:
        code = _without_stdout()
    if args is None:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """Exits without taking apart all that was imported, which takes as long as a tenth of a short turn."""
    atexit._run_exitfuncs()
    with suppress(OSError):  # nobody reads our stderr any more
        sys.stderr.flush()
    os._exit(code)


def _open_closed_streams() -> None:
    """A stream that was closed (`<&-`) becomes /dev/null: no file that is opened later may take its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
                setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _guarded(args: list[str] | None) -> int:
    try:
        result: Any = cli.main(args, prog_name="ostler", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (KeyboardInterrupt, click.exceptions.Abort):
        return complain("cancelled", 130)
    except (ReaderGone, BrokenPipeError):
        return _without_stdout()
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "ostler"
        message = error.format_message().rstrip(".")
        return complain(f"{message}{'' if message.endswith(('?', '?)')) else '.'} See: {where} --help", error.exit_code)
    except Exception as error:
        if os.environ.get("OSTLER_DEBUG"):
            raise
        return _explained(error)


def _explained(error: Exception) -> int:
    if isinstance(error, ostler.OstlerError):
        return complain(str(error), error.exit_code)
    if isinstance(error, OSError):
        return complain(_os_problem(error), 1)
    return complain(f"{internal_error(error)}. OSTLER_DEBUG=1 shows where", 1)


def _os_problem(error: OSError) -> str:
    """What failed and on what; of the folder we are in and of our own streams an error has no name."""
    what = error.strerror or str(error)
    if error.filename:
        return f"{what}: {error.filename}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"cannot write the output: {what}"
    try:
        os.getcwd()
    except OSError:
        return "the current folder no longer exists. Change to another one: cd"
    return what


def complain(message: str, code: int) -> int:
    """One line on stderr; returns the exit code."""
    from ostler.terminal.safe import one_line

    try:
        click.echo(f"ostler: {one_line(message, 2000)}", err=True)
    except OSError:
        pass  # nobody reads our stderr any more
    return code


def _without_stdout() -> int:
    """The reader of a pipe went away: be quiet about it, as any program that SIGPIPE ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
