"""Real CLIs without any privilege: once more as an ordinary user, where we are root."""

import os
from pathlib import Path

import pytest

from needs import needs
from real.test_walls import WALLED
from real.yard import each
from security.test_ordinary_user import TESTS, home, run_as_nobody

__all__ = ["home"]
pytestmark = [needs("root"), needs("setpriv"), pytest.mark.timeout(600)]
WORKS = "test_write_has_a_shell_and_the_conversation_goes_on_inside_and_outside"
HOOKS = "test_hooks_tell_what_the_agent_does"
SURVIVES = "test_a_resumed_conversation_survives_another_session_of_the_folder"
HOLDS = "test_nothing_gets_out_of_an_agent_that_allows_itself_everything"


@needs("landlock")
@each(WALLED, core=("claude",))
def test_an_agent_works_and_nothing_gets_out(agent: str, home: Path) -> None:
    clis, walls = Path(os.environ["OSTLER_TEST_CLIS"]), TESTS / "real" / "test_walls.py"
    env = {name: os.environ[name] for name in ("OSTLER_TEST_CLIS", "OSTLER_TEST_NODE")}
    tests = (f"{walls}::{WORKS}[{agent}]", f"{walls}::{HOLDS}[{agent}-write]")
    assert "2 passed" in run_as_nobody(home, env, tests, clis)


@pytest.mark.core
def test_gemini_has_hooks_and_keeps_conversations(home: Path) -> None:
    """It takes settings of the machine from root alone: what ostler adds to them has to go another way."""
    clis, real = Path(os.environ["OSTLER_TEST_CLIS"]), TESTS / "real"
    env = {name: os.environ[name] for name in ("OSTLER_TEST_CLIS", "OSTLER_TEST_NODE")}
    tests = (f"{real}/test_hooks.py::{HOOKS}[gemini]", f"{real}/test_gemini.py::{SURVIVES}[gemini]")
    assert "2 passed" in run_as_nobody(home, env, tests, clis)
