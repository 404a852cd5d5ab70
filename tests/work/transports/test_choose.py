"""How a turn is run is decided in one place."""

from typing import get_args

import pytest
from msgspec import structs

from ostler.agents import AGENTS, Agent
from ostler.errors import OstlerError
from ostler.model import TransportName
from ostler.work.transports.choose import (
    best_transport,
    check_transport,
    choose_transport,
    command_transport,
    face_of,
    transports_of,
    tui_of,
)

CLAUDE, SCRIPT = AGENTS["claude"], AGENTS["script"]
BARE = structs.replace(CLAUDE, name="bare", dialog=None, tui=None, in_terminal=None)
PLAIN = structs.replace(CLAUDE, name="plain", dialog=None, tui=None)
DIALOG_ONLY = structs.replace(CLAUDE, name="talker", one_shot=False)


@pytest.mark.parametrize(
    ("wanted", "named", "server", "chosen"),
    [
        ("pipe", CLAUDE, CLAUDE, "pipe"),
        ("dialog", CLAUDE, CLAUDE, "dialog"),
        ("pty", SCRIPT, SCRIPT, "pty"),
        ("pipe", DIALOG_ONLY, DIALOG_ONLY, "dialog"),
        ("pipe", DIALOG_ONLY, SCRIPT, "dialog"),  # the stand-in is run as the agent would be
        ("pipe", PLAIN, PLAIN, "pipe"),
    ],
)
def test_a_turn(wanted: TransportName, named: Agent, server: Agent, chosen: str) -> None:
    assert choose_transport(wanted, named, server, AGENTS.values()) == chosen


def test_the_best_one_is_a_dialog_where_there_is_one() -> None:
    assert (best_transport(CLAUDE), best_transport(PLAIN)) == ("dialog", "pipe")


@pytest.mark.parametrize(
    ("wanted", "agent", "message", "hint"),
    [
        ("dialog", PLAIN, "plain does not support dialogs", "Agents that do: claude"),
        (
            "pty",
            PLAIN,
            "ostler does not know the screen of plain",
            "Agents that can be run in their own screen: script",
        ),
        (
            "tmux",
            structs.replace(DIALOG_ONLY, tui=None),
            "talker can only be run in a dialog, not in a pane",
            "Use --dialog",
        ),
    ],
)
def test_what_cannot_run_it(wanted: TransportName, agent: Agent, message: str, hint: str) -> None:
    with pytest.raises(OstlerError) as raised:
        choose_transport(wanted, agent, agent, [PLAIN, SCRIPT if wanted == "pty" else CLAUDE])
    assert (raised.value.kind, raised.value.message, raised.value.hint) == ("unsupported", message, hint)


def test_a_command() -> None:
    assert command_transport(empty=False, in_terminal=False) == "pipe"
    assert command_transport(empty=False, in_terminal=True) == "terminal"
    assert command_transport(empty=True, in_terminal=True) == command_transport(empty=True, in_terminal=False)
    assert command_transport(empty=True, in_terminal=False) == "nothing"


def test_an_agent_is_launched_for_its_transport() -> None:
    assert face_of(CLAUDE, "pipe") is None
    assert face_of(CLAUDE, "dialog") is CLAUDE.dialog is not None
    assert tui_of(SCRIPT, "pipe") is None
    assert tui_of(SCRIPT, "pty") is SCRIPT.tui is not None
    assert tui_of(SCRIPT, "tmux") is SCRIPT.tui and tui_of(SCRIPT, "tmux", "output") is None


@pytest.mark.parametrize("agent", [*AGENTS.values(), BARE, DIALOG_ONLY], ids=lambda agent: agent.name)
def test_what_an_agent_has_is_what_it_is_not_refused(agent: Agent) -> None:
    def is_refused(name: TransportName) -> bool:
        try:
            check_transport(name, agent, AGENTS.values())
        except OstlerError as error:
            assert error.kind == "unsupported"
            return True
        return False

    assert [name for name in get_args(TransportName) if not is_refused(name)] == list(transports_of(agent))


def test_a_move_to_a_pipe_that_there_is_not() -> None:
    with pytest.raises(OstlerError, match="talker can only run in dialogs") as raised:
        check_transport("pipe", DIALOG_ONLY, AGENTS.values())
    assert "claude, codex" in raised.value.hint
