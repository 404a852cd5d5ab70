"""What an agent's process finds in its environment, and what must not be shown of it."""

from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.model import Launch, Turn
from ostler.work.turns.agent_environment import environment_of, environment_outside, redactor_of, with_config
from work.scripted import Stable

CLAUDE, SCRIPT = AGENTS["claude"], AGENTS["script"]


def a_turn(**options: Any) -> Turn:
    return Turn(id="t1", session="s1", agent="claude", prompt="x", folder="/w", **options)


async def test_what_is_said_later_counts_more(stable: Stable) -> None:
    launch = Launch(argv=("claude",), env={"BY": "launch"}, default_env={"MINE": "default", "OTHER": "default"})
    async with stable.ostler() as o:
        setup = o.setup_in(str(stable.folder))
        setup = structs.replace(
            setup, settings=structs.replace(setup.settings, env={"MINE": "settings", "BY": "settings"})
        )
        env = environment_of(setup, a_turn(env={"MINE": "turn"}), CLAUDE, launch, None)
        assert (env["MINE"], env["BY"], env["OTHER"]) == ("turn", "launch", "default")
        outside = environment_outside(setup, a_turn(env={"MINE": "turn"}), CLAUDE)
        assert (outside["MINE"], outside["BY"], "OTHER" in outside) == ("turn", "settings", False)


async def test_the_scripted_agent_alone_is_steered(stable: Stable) -> None:
    async with stable.ostler(OSTLER_SCRIPT_HOME="/elsewhere", OSTLER_SCENARIO="/plays/this") as o:
        setup = o.setup_in(str(stable.folder))
        env = environment_outside(setup, a_turn(), SCRIPT)
        assert (env["OSTLER_SCRIPT_HOME"], env["OSTLER_SCENARIO"]) == ("/elsewhere", "/plays/this")
        assert not [name for name in environment_outside(setup, a_turn(), CLAUDE) if name.startswith("OSTLER_S")]


@pytest.mark.parametrize("config", ["user", "private"])
async def test_a_private_config_is_a_home_of_its_own(stable: Stable, config: Any) -> None:
    async with stable.ostler(XDG_CONFIG_HOME="/x") as o:
        setup = o.setup_in(str(stable.folder))
        setup = structs.replace(setup, settings=structs.replace(setup.settings, config=config))
        env = with_config(setup, CLAUDE)
        if config == "user":
            assert (env["HOME"], env["XDG_CONFIG_HOME"]) == (str(stable.home), "/x")
        else:
            assert env["HOME"] == str(stable.state / "homes" / "claude") and "XDG_CONFIG_HOME" not in env
            assert (stable.state / "homes" / "claude").stat().st_mode & 0o777 == 0o700


async def test_keys_of_the_agent_and_values_that_the_settings_name_are_not_shown(stable: Stable) -> None:
    async with stable.ostler(ANTHROPIC_API_KEY="sk-of-the-agent-1", MY_PASS_WORD="hunter-hunter-2") as o:
        setup = o.setup_in(str(stable.folder))
        setup = structs.replace(setup, settings=structs.replace(setup.settings, redact=("MY_PASS_WORD",)))
        env = {"ANTHROPIC_API_KEY": "sk-of-the-agent-1", "MY_PASS_WORD": "hunter-hunter-2"}
        shown = redactor_of(setup, a_turn(), CLAUDE, env, None).text("sk-of-the-agent-1 hunter-hunter-2 and more")
        assert "agent-1" not in shown and "hunter" not in shown and shown.endswith("and more")
