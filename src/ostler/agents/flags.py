"""Further flags of an agent's own CLI that a user hands through. Pure."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ostler.agents.adapter import Agent
from ostler.errors import OstlerError, quoted

_FLAG = re.compile(r"--([A-Za-z][A-Za-z0-9-]*)(=.*)?", re.S)


def with_flags(agent: Agent, flags: Sequence[str], argv: tuple[str, ...]) -> tuple[str, ...]:
    """The argv with these flags. Raises unsupported, and denied for what would widen the access.

    They stand before ostler's own, which count where both say something.
    """
    if not flags:
        return argv
    if agent.flags_at is None:
        raise OstlerError("unsupported", f"{agent.name} does not accept further flags", "Leave agent_flags out")
    for flag in flags:
        _check(agent, flag)
    return (*argv[: agent.flags_at], *flags, *argv[agent.flags_at :])


def _check(agent: Agent, flag: str) -> None:
    """A flag with its value is one word: another word could be taken for a prompt."""
    found = _FLAG.fullmatch(flag)
    if found is None or "\0" in flag:
        raise OstlerError("bad_request", f"{quoted(flag)} is not a flag", "Write --name or --name=value")
    name = _plain(found[1])
    refused = (_plain(pattern) for pattern in agent.refused_flags)
    if any(fnmatchcase(name, pattern) for pattern in refused):
        hint = "Use ostler's own option; flags that widen the access are refused"
        raise OstlerError("denied", f"ostler does not pass --{found[1]} on to {agent.name}", hint)


def _plain(name: str) -> str:
    """`--allowedTools`, `--allowed-tools` and `--no-allowed-tools` are one flag to some parsers."""
    return name.replace("-", "").replace("_", "").lower().removeprefix("no")
