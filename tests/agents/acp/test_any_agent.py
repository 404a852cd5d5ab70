"""Any ACP agent by its command line: what it is called, what is promised of it, and how it is launched."""

import pytest
from msgspec import structs

from agents.acp_replayed import HOST, turn_of
from ostler.agents.acp.any_agent import UNKNOWN, agent_of, launch
from ostler.agents.acp.known import known
from ostler.errors import OstlerError
from ostler.model import Launch


def test_an_agent_that_nobody_knows() -> None:
    agent = agent_of("mine", ("/opt/my agent", "--acp"))
    assert agent == structs.replace(
        UNKNOWN,
        name="mine",
        title="mine (ACP)",
        binaries=("mine",),
        install="name its command line: acp.mine in your settings",
    )
    assert (agent.one_shot, agent.models, agent.login_elsewhere) == (False, (), True)
    assert {*agent.unpromised} == {"read", "write"}  # what it does unasked nobody confines


def test_an_agent_of_a_known_program_keeps_what_is_known_of_it() -> None:
    argv = ("claude-agent-acp",)
    own = known(argv)
    assert own is not None
    agent = agent_of("mine", argv)
    assert (agent.name, agent.dialog, agent.unpromised) == ("mine", own.dialog, own.unpromised)


def test_its_command_line_stands_in_the_settings() -> None:
    assert launch(turn_of(prompt="--rm", model="m", access="read"), HOST) == Launch(argv=("agent",))


@pytest.mark.parametrize("lists", [{"tools_allowed": ("read",)}, {"tools_denied": ("shell",)}])
def test_lists_of_tools_are_not_dropped_in_silence(lists: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(OstlerError) as refused:
        launch(turn_of(**lists), HOST)
    assert refused.value.kind == "unsupported"
