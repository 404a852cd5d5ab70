"""Slash commands that ostler itself obeys, for clients that show no options. Pure."""

import re
from typing import Any

COMMANDS: list[dict[str, Any]] = [
    {
        "name": "access",
        "description": "What the agent may do from now on",
        "input": {"hint": "read, write or full"},
    },
    {
        "name": "model",
        "description": "The model from now on",
        "input": {"hint": "its name, or default"},
    },
]
_COMMAND = re.compile(r"\s*/(access|model)(?:[ \t]+(\S+))?\s*")


def command_of(prompt: str) -> tuple[str, str] | None:
    """The command and its argument, if the prompt is one and nothing else."""
    found = _COMMAND.fullmatch(prompt)
    return (found[1], found[2] or "") if found else None
