"""What launches have in common: literal prompts, confirmed flags, attachments as text, what an agent cannot do."""

import re
from collections.abc import Sequence
from functools import lru_cache

from ostler.agents.paths import relative_to
from ostler.errors import OstlerError
from ostler.model import Attachment, Host, Turn

ARGUMENT_LIMIT = 100_000  # bytes; Linux takes 131,071 in one argument
SYSTEM_FIRST = "the system prompt was put before the first prompt"


def literal(turn: Turn, marks: str = "/") -> str:
    """The prompt, kept from being read as a command: a leading newline makes `/exit` text."""
    if not turn.command and turn.prompt[:1] in tuple(marks):
        return "\n" + turn.prompt
    return turn.prompt


def confirm(turn: Turn, host: Host, flags: Sequence[str]) -> None:
    """Raises unsupported for a flag that the CLI's help does not name; without a help text nothing is known."""
    own = flags[: flags.index("--")] if "--" in flags else flags
    for flag in (f.partition("=")[0] for f in own if f.startswith("--")):
        if host.help and not has_flag(host.help, flag):
            raise OstlerError("unsupported", f"{turn.agent} {host.version} has no {flag}", f"Update {turn.agent}")


@lru_cache(maxsize=512)  # a launch has some twenty flags, the same ones each turn
def has_flag(help: str, flag: str) -> bool:
    """Whether a help text names the flag. `--x[-file]` names both `--x` and `--x-file`."""
    stem = flag.removesuffix("-file")
    return _stands_in(help, flag) or (stem != flag and bool(stem.strip("-")) and _stands_in(help, f"{stem}[-file]"))


def _stands_in(text: str, name: str) -> bool:
    """Whether it does as a word of its own. By hand: to compile a pattern for each of twenty flags takes 3 ms."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        around = text[max(0, at - 1) : at] + text[end : end + 1]
        if not any(letter.isalnum() or letter in "_-" for letter in around):
            return True
        at = text.find(name, at + 1)
    return False


def version_numbers(version: str) -> tuple[int, ...]:
    """`1.2.3-beta` → (1, 2, 3)"""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def with_attachments(prompt: str, attachments: Sequence[Attachment]) -> str:
    """The prompt with its attachments as text: inline content in full, other files by path."""
    paths = [a.path for a in attachments if a.content is None]
    parts = [prompt] if prompt else []
    if paths:
        parts.append("Attached files:\n" + "\n".join(f"- {path}" for path in paths))
    for a in attachments:
        if a.content is not None:
            parts.append(f'<file name="{a.name}">\n{a.content}\n</file>')
    return "\n\n".join(parts)


def refuse_untrusted(turn: Turn, host: Host) -> None:
    """For an agent that cannot be told to leave out the settings in a folder."""
    if host.untrusted:
        names = ", ".join(relative_to(path, turn.folder) for path in host.project_config[:6])
        raise OstlerError(
            "denied",
            f"{turn.agent} would load settings from {turn.folder} that you have not trusted: {names}",
            "Look at it, then run `ostler trust`, or choose another agent",
        )


def refuse_servers(turn: Turn) -> None:
    """For an agent that starts no MCP servers, not even ours, where it leaves out the settings in a folder."""
    if turn.mcp:
        raise OstlerError(
            "denied",
            f"{turn.agent} starts no MCP servers in a folder with settings that you have not trusted",
            "Look at them, then run `ostler trust`, or leave out --mcp",
        )


def refuse_tool_lists(turn: Turn) -> None:
    if turn.tools_allowed or turn.tools_denied:
        raise OstlerError(
            "unsupported",
            f"{turn.agent} cannot be given a list of tools",
            "Leave out --allow-tool and --deny-tool, or choose another agent",
        )
