"""`ostler …`: the command line. Each command lives in a module that is imported when it is used."""

import gc
import os
import sys
from importlib import import_module
from typing import Any

import click

import ostler

# name → (where it lives, what it does): `ostler --help` needs no more than this.
COMMANDS = {
    "run": ("ostler.cli.run:run", "Run one turn with a coding agent."),
    "chat": ("ostler.cli.chat:chat", "Keep talking with a coding agent."),
    "answer": ("ostler.cli.answer:answer", "Answer what an agent asks."),
    "steer": ("ostler.cli.answer:steer", "Tell a running turn more."),
    "exec": ("ostler.cli.exec:exec_command", "Run a command as a turn, with the same result."),
    "acp": ("ostler.cli.acp:acp", "Be an agent for editors: any of ostler's behind ACP."),
    "agents": ("ostler.cli.agents:agents", "List the agents and what they can do."),
    "doctor": ("ostler.cli.agents:doctor", "Say what is installed, logged in and missing."),
    "sessions": ("ostler.cli.sessions:sessions", "List sessions, or import those a CLI keeps."),
    "show": ("ostler.cli.show:show", "Show what happened in a session."),
    "watch": ("ostler.cli.show:watch", "Follow a session live from another shell."),
    "terminals": ("ostler.cli.terminals:terminals", "List terminals."),
    "attach": ("ostler.cli.attach:attach", "Attach to a terminal: see it, type into it."),
    "play": ("ostler.cli.play:play", "Play the recording of a terminal."),
    "fork": ("ostler.cli.sessions:fork", "Begin a new session as a copy of one."),
    "cancel": ("ostler.cli.sessions:cancel", "Cancel the turn that runs in a session."),
    "prune": ("ostler.cli.sessions:prune", "Remove old sessions and their files."),
    "up": ("ostler.cli.up:up", "Start the server with its page."),
    "down": ("ostler.cli.up:down", "Stop the server."),
    "link": ("ostler.cli.link:link", "Make a login link or a token for the server."),
    "trust": ("ostler.cli.project:trust", "Let a project file run programs and widen access."),
    "init": ("ostler.cli.project:init", "Write a commented ostler.toml."),
    "model": ("ostler.cli.model:model", "Serve a scripted model on this machine, for tests."),
    "completion": ("ostler.cli.completion:completion", "Print the completion script of a shell."),
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
            raise click.UsageError(f"there is no command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(ostler.__version__, message="ostler %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Drive any coding agent from one command line.

    \b
      ostler run claude "fix the failing test" --access write
      ostler run codex "explain this repository"
      git diff | ostler run gemini -
      ostler run --continue "now add a test"

    Exit codes: 0 ok, 1 error, 2 usage, 124 time limit, 130 cancelled.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: list[str] | None = None) -> None:
    """The console entry: runs a command and exits with its code. Never shows a traceback unless asked."""
    gc.set_threshold(50_000)  # a tenth of the start went into looking for garbage among fresh imports
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 must not end a turn
    code = _guarded(args)
    try:
        sys.stdout.flush()
    except OSError:
        code = _without_stdout()
    sys.exit(code)


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
        return complain(f"{message}{'' if message.endswith('?') else '.'} See: {where} --help", error.exit_code)
    except Exception as error:
        if os.environ.get("OSTLER_DEBUG"):
            raise
        return _explained(error)


def _explained(error: Exception) -> int:
    if isinstance(error, ostler.OstlerError):
        return complain(str(error), error.exit_code)
    if isinstance(error, OSError):
        return complain(": ".join(filter(None, (error.strerror or str(error), str(error.filename or "")))), 1)
    return complain(f"a fault in ostler: {type(error).__name__}: {error}. OSTLER_DEBUG=1 shows where", 1)


def complain(message: str, code: int) -> int:
    """One line on stderr; returns the exit code."""
    from ostler.terminal.safe import one_line

    try:
        click.echo(f"ostler: {one_line(message, 2000)}", err=True)
    except OSError:
        pass  # nobody listens
    return code


def _without_stdout() -> int:
    """The reader of a pipe went away: be quiet about it, as any program that SIGPIPE ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
