"""Lines for `ostler chat`: typed, with editing, history and completion, or from a pipe."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ostler.cli.chat import Chat

PROMPT = "> "


def piped_lines() -> Iterator[str]:
    """Each line of stdin that is not empty."""
    for data in sys.stdin.buffer:
        if line := data.decode(errors="replace").strip():
            yield line


def typed_lines(talk: "Chat") -> Iterator[str]:
    """Lines with editing and history, until Ctrl-D or a second Ctrl-C."""
    click.echo(f"session {talk.session.row.name or talk.session.id} · /help, ctrl-d leaves", err=True)
    remember = _history(talk)
    _complete(talk.completions)
    left = False
    while True:
        if talk.waiting:
            line = talk.waiting.pop(0)
        else:
            try:
                line = input(PROMPT).strip()
            except EOFError:
                break
            except KeyboardInterrupt:
                if left:
                    break
                click.echo()
                left = True
                click.echo("ctrl-c again leaves", err=True)
                continue
        left = False
        if line:
            remember(line)
            yield line
    click.echo()


def _history(talk: "Chat") -> Callable[[str], None]:
    """Loads what was typed before; what remembers a line, without the secrets that are known."""
    try:
        import readline
    except ImportError:  # a Python without it: no editing, no history
        return lambda line: None
    from ostler.store import Redactor
    from ostler.work.environment import secrets

    path = os.path.join(talk.ostler.settings.home, "chat_history")
    redactor = Redactor(secrets(os.environ, {}, talk.ostler.settings.redact))
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        readline.read_history_file(path)
    readline.set_auto_history(False)

    def remember(line: str) -> None:
        readline.add_history(redactor.text(line))
        with contextlib.suppress(OSError):
            readline.append_history_file(1, path)

    return remember


def _complete(completions: Callable[[str], list[str]]) -> None:
    """Tab offers the ways in which a line can go on; `completions` knows whole lines."""
    try:
        import readline
    except ImportError:
        return

    def complete(word: str, number: int) -> str | None:
        begun = readline.get_line_buffer()[: readline.get_begidx()]
        found = [line[len(begun) :] for line in completions(begun + word)]
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
