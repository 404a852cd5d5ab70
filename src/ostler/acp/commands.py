"""Slash commands: those that ostler itself obeys, for clients that show no options, and the agent's. Pure."""

import re
from typing import Any

from ostler.model import Offered

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


def available(offered: Offered | None) -> list[dict[str, Any]]:
    """Ours, and those of the agent that have other names."""
    own = {command["name"] for command in COMMANDS}
    agents = [offer for offer in (offered.commands if offered else ()) if offer.id not in own]
    return [*COMMANDS, *({"name": offer.id, "description": offer.description or offer.name} for offer in agents)]


def command_of(prompt: str) -> tuple[str, str] | None:
    """The command and its argument, if the prompt is one and nothing else."""
    found = _COMMAND.fullmatch(prompt)
    return (found[1], found[2] or "") if found else None
