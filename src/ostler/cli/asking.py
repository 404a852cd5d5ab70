"""What a command line asks for: prompts, durations, files, and flags that contradict each other."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ostler.errors import OstlerError, quoted

if TYPE_CHECKING:
    from ostler.model import McpServer
    from ostler.settings import Settings


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A click callback: `90`, `90s`, `5m`, `1h30m` in seconds."""
    from ostler.settings import seconds

    try:
        return seconds(value) if value is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def dollars(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A click callback: `0.50` or `$0.50`."""
    from ostler.settings import positive

    try:
        return positive(float(value.removeprefix("$"))) if value is not None else None
    except ValueError as error:
        raise click.BadParameter(
            f"{quoted(value)} is not a valid amount of dollars: write it like 0.50", ctx, param
        ) from error


def refuse_together(given: Mapping[str, Any], *groups: tuple[str, ...]) -> None:
    """Raises a usage error when two flags of a group are given."""
    for group in groups:
        used = [flag for flag in group if given.get(flag)]
        if len(used) > 1:
            raise click.UsageError(f"{used[0]} and {used[1]} cannot be used together")


def who_and_prompt(
    words: tuple[str, ...],
    *,
    continuing: bool,
    names: Callable[[str], bool],
    default: str,
    piped: bool,
    settings: "Settings | None" = None,
) -> tuple[str | None, str | None]:
    """(agent, model or profile; prompt) of the words given; a prompt of None is to be read from stdin."""
    if len(words) > 2:
        raise click.UsageError(
            f"{len(words)} words where an agent and a prompt were expected: put the prompt in quotes"
        )
    if len(words) == 2:
        return words[0], None if words[1] == "-" else words[1]
    word = words[0] if words else "-"
    if word == "-":
        if not words and not piped:
            raise click.UsageError('no prompt: ostler run claude "…", or `-` to read it from stdin')
        return None, None
    if names(word) and (piped or not continuing):
        if not piped:
            raise click.UsageError(f'no prompt for {word}: ostler run {word} "…", or `-` to read it from stdin')
        return word, None
    if not continuing and not default:
        raise _no_agent(word, settings)
    return None, word


def _no_agent(word: str, settings: "Settings | None") -> OstlerError:
    from ostler.settings import Settings
    from ostler.work.known_agents import agents_of, find_agent

    known = settings or Settings()
    if not re.search(r"\s", word):
        try:
            find_agent(known, word)
        except OstlerError as error:
            return error
    agents = ", ".join(agents_of(known))
    return OstlerError(
        "bad_request",
        "no agent was named and there is no default",
        f'Name one: ostler run claude "…" (agents: {agents}), or set default_agent',
    )


def piped() -> bool:
    """Whether stdin is something other than a terminal."""
    return not os.isatty(0)


def read_text(path: str, what: str, limit: int = 4 << 20) -> str:
    """A text file that a flag names."""
    return utf8(read_file(path, what, limit), f"{what} {path}", "Save it as UTF-8")


def read_file(path: str, what: str, limit: int) -> bytes:
    try:
        with open(path, "rb") as file:
            if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
                raise IsADirectoryError(21, "Is a directory")
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OstlerError("bad_request", f"cannot read {what} {path}: {reason}") from error
    if len(data) > limit:
        raise OstlerError("bad_request", f"{what} {path} is larger than {limit >> 20} MiB")
    return data


def utf8(data: bytes, what: str, hint: str) -> str:
    """The text that the bytes are. Raises bad_request for what is not text."""
    if b"\0" in data:
        raise OstlerError("bad_request", f"{what} is not text: byte {data.index(0)} is NUL", hint)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise OstlerError("bad_request", f"{what} is not valid UTF-8 (byte {error.start})", hint) from error


def servers_of(words: Iterable[str], settings: "Settings") -> "tuple[McpServer, ...] | None":
    """The MCP servers that --mcp names: by the settings, or (a path, or a name in .json) by a file. None: not said."""
    from ostler.work.turns import mcp_servers as servers

    found: list[McpServer] = []
    for word in words:
        if "/" in word or word.endswith(".json"):
            found += servers.from_json(read_text(word, "the MCP servers in"), word)
        else:
            found += servers.servers_of([word], settings)
    return tuple(found) if words else None


def environment_of(pairs: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """`NAME=VALUE`, or `NAME` for the value it has here."""
    env = {}
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise click.UsageError(f"--env {quoted(pair.split('=')[0])}: write NAME or NAME=VALUE")
        if not given and name not in environ:
            raise click.UsageError(f"--env {name}: this variable is not set here; write {name}=VALUE")
        env[name] = value if given else environ[name]
    return env
