"""What an agent offers, and what people make of it."""

from ostler.words import Offered


def command_in(prompt: str, offered: Offered | None) -> str:
    """The slash command of the agent that a prompt is, alone or with words after it; "" for any other prompt."""
    if offered is None or not prompt.startswith("/"):
        return ""
    said = prompt[1:].rstrip()
    names = sorted((offer.id for offer in offered.commands), key=len, reverse=True)  # `memory show` before `memory`
    return next((name for name in names if said == name or said.startswith((f"{name} ", f"{name}\n"))), "")
