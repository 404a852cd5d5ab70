"""A system prompt is added to the agent's own, or stands for it: in turns of one process, resumed ones, and dialogs."""

import pytest

from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import TransportName
from ostler.work import LiveSession
from real.yard import AGENTS as NAMES
from real.yard import Yard

pytestmark = pytest.mark.parametrize("agent", NAMES)

GIVEN = "Answer like an ostler of the Golden Lion"
# What the agents' own system prompts say.
OWN = {
    "claude": "authorized security testing",
    "codex": "You are Codex",
    "gemini": "# Core Mandates",
    "qwen": "You are Qwen Code",
    "opencode": "You are opencode",
    "copilot": "You are the GitHub Copilot CLI",
}


async def told(yard: Yard, live: LiveSession, transport: TransportName) -> list[str]:
    """The system prompts of the requests that brought the model a prompt, in which ours may stand."""
    yard.model.requests.clear()
    async for _ in live.run("how many horses?", transport=transport):
        pass
    assert live.last is not None and live.last.ok, live.last
    return [x.system for x in yard.model.asked if "how many horses?" in x.text and GIVEN in x.text]


async def test_a_system_prompt_is_added_to_the_agents_own_or_stands_for_it(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, system=GIVEN)
        assert any(OWN[yard.agent] in system for system in await told(yard, live, "pipe"))
        live = await yard.session(o, system=GIVEN, system_mode="replace")
        if not AGENTS[yard.agent].replaces_system:
            with pytest.raises(OstlerError, match="cannot be replaced") as caught:
                await told(yard, live, "pipe")
            assert caught.value.kind == "unsupported"
            return
        transports: tuple[TransportName, ...] = ("pipe", "pipe", "dialog")  # the second and the third are resumed
        for transport in transports:
            systems = await told(yard, live, transport)
            assert systems and all(GIVEN in system and OWN[yard.agent] not in system for system in systems), systems
