"""What an agent offers, and what people make of it."""

from ostler.model import Offered


def is_command(prompt: str, offered: Offered | None) -> bool:
    """Whether a prompt is a slash command of the agent, alone or with words after it."""
    if offered is None:
        return False
    names = [f"/{offer.id}" for offer in offered.commands]
    return any(prompt.rstrip() == name or prompt.startswith((f"{name} ", f"{name}\n")) for name in names)
