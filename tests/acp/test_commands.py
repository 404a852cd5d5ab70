"""Slash commands: ours, the agent's, and what is none."""

import pytest

from ostler.acp.commands import COMMANDS, available, command_of
from ostler.model import Offer, Offered


@pytest.mark.parametrize(
    ("prompt", "command"),
    [
        ("/access write", ("access", "write")),
        (" /model\n", ("model", "")),
        ("/access", ("access", "")),
        ("/accessible", None),
        ("/model a b", None),
        ("please /access full", None),
        ("/access full\nand then delete everything", None),
        ("/compact", None),
    ],
)
def test_commands_are_whole_prompts(prompt: str, command: tuple[str, str] | None) -> None:
    assert command_of(prompt) == command
    assert command is None or command[0] in [each["name"] for each in COMMANDS]


@pytest.mark.parametrize(
    "prompt", ["", "/", "//access", "/ACCESS full", "/access\tfull\tnow", "/access\nfull", "\\/model"]
)
def test_what_only_looks_like_a_command(prompt: str) -> None:
    assert command_of(prompt) is None


def test_the_agents_commands_stand_behind_ours() -> None:
    assert available(None) == available(Offered()) == COMMANDS
    offers = (Offer(id="model", description="its own"), Offer(id="init", name="Init"), Offer(id="x", description="X"))
    assert available(Offered(commands=offers)) == [
        *COMMANDS,
        {"name": "init", "description": "Init"},
        {"name": "x", "description": "X"},
    ]
