"""The flags that `run` and `chat` share: what a turn is told, may use, and who takes it over."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from ostler.cli.asking import environment_of, read_text, refuse_together
from ostler.model import PRIORITIES, Attachment, HookMode, TurnOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_TYPED = r"(?s)([a-z]+/[a-z0-9.+-]+):(.+)"  # image/png:FILE
_HOOKS: dict[str | None, HookMode | None] = {"on": True, "off": False, "ask": "ask", None: None}
_FLAGS = (
    click.option("--system", metavar="TEXT", help="A system prompt."),
    click.option("--system-file", metavar="FILE", help="A system prompt from a file."),
    click.option(
        "--system-mode",
        type=click.Choice(["append", "replace"]),
        help="Append it to the agent's own (default), or replace that where the agent can.",
    ),
    click.option("--allow-tool", multiple=True, metavar="TOOL", help="Allow only these tools. May be repeated."),
    click.option("--deny-tool", multiple=True, metavar="TOOL", help="Deny this tool. May be repeated."),
    click.option(
        "--first-allow-tool", multiple=True, metavar="TOOL", help="Instead of --allow-tool in a session's first turn."
    ),
    click.option(
        "--first-deny-tool", multiple=True, metavar="TOOL", help="Instead of --deny-tool in a session's first turn."
    ),
    click.option(
        "--env", multiple=True, metavar="NAME[=VALUE]", help="Set an environment variable for it. May be repeated."
    ),
    click.option(
        "--fallback",
        multiple=True,
        metavar="AGENT",
        help="The agent that takes over if this one cannot start, or its quota ends.",
    ),
    click.option(
        "--agent-flags",
        multiple=True,
        metavar="FLAG",
        help="A flag for the agent's own CLI: --name=value. May be repeated.",
    ),
    click.option(
        "--priority",
        type=click.IntRange(*PRIORITIES),
        metavar="N",
        help="Where it stands among turns that wait for a free slot (default: 0).",
    ),
    click.option(
        "--hooks",
        type=click.Choice(["on", "ask", "off"]),
        help="Its hooks report to ostler; with ask, each tool call waits for a rule or for you.",
    ),
)


def turn_flags(command: Command) -> Command:
    """A decorator: the flags, in this order."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def check_turn_flags(options: Mapping[str, Any]) -> None:
    """Raises a usage error for flags that contradict each other."""
    given = {"--system": options["system"], "--system-file": options["system_file"]}
    refuse_together(given, ("--system", "--system-file"))
    for first in ("", "first_"):
        both = set(options[f"{first}allow_tool"]) & set(options[f"{first}deny_tool"])
        if both:
            raise click.UsageError(f"the tool {min(both)} is both allowed and denied")
    if options["system"] is not None and not options["system"].strip():
        raise click.UsageError("--system is empty")


def system_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a session is opened with; a file is read here, before anything is stored."""
    path = options["system_file"]
    text = read_text(path, "the system prompt") if path else options["system"]
    return {"system": text, "system_mode": options["system_mode"]}


def turn_options(options: Mapping[str, Any]) -> TurnOptions:
    """The other flags."""
    return TurnOptions(
        tools_allowed=options["allow_tool"] or None,
        tools_denied=options["deny_tool"] or None,
        first_tools_allowed=options["first_allow_tool"] or None,
        first_tools_denied=options["first_deny_tool"] or None,
        fallback=options["fallback"] or None,
        agent_flags=options["agent_flags"] or None,
        env=environment_of(options["env"], os.environ),
        priority=options["priority"],
        hooks=_HOOKS[options["hooks"]],
    )


def attached(word: str) -> Attachment:
    """The attachment of `--attach [TYPE:]FILE`, meant from where the command was typed."""
    found = re.fullmatch(_TYPED, word)
    type, path = (found[1], found[2]) if found and not os.path.lexists(word) else ("", word)
    return Attachment(path=os.path.abspath(os.path.expanduser(path)), type=type)
