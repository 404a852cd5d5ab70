"""`--log-level`, `--log-file` and `OSTLER_LOG`: the log of a command."""

import os
import sys

import click

from ostler.logs import LogFile, LogOptions, LogStream, log_options, write_log
from ostler.settings import user_state_folder
from ostler.store.files import private_folder
from ostler.work.turns.environment import secrets

# At a terminal these draw or pass on what a program draws: lines of a log in between would garble it.
DRAWING = frozenset(("run", "chat", "answer", "exec", "watch", "diff", "attach", "play"))


def start_log(command: str, level: str | None, file: str | None) -> LogOptions:
    """What was asked for. The server begins its log itself, once it knows its state folder. Raises OstlerError."""
    asked = log_options(os.environ.get("OSTLER_LOG", ""), level, file)
    if command != "up":
        path = asked.file or (_aside() if command in DRAWING and sys.stderr.isatty() else "")
        write_log(LogFile(path) if path else LogStream(), asked.level, secrets(os.environ, {}, ()))
    return asked


def _aside() -> str:
    path = os.path.join(private_folder(user_state_folder(os.environ), known="ostler.db"), "ostler.log")
    click.echo(f"note: the log is written to {path}", err=True)
    return path
