"""Real CLIs behind walls without any privilege: once more as an ordinary user, where we are root."""

import os
from pathlib import Path

import pytest

from needs import needs
from real.test_walls import WALLED
from real.yard import each
from security.test_ordinary_user import TESTS, home, run_as_nobody

__all__ = ["home"]
pytestmark = [needs("root"), needs("setpriv"), needs("landlock"), pytest.mark.timeout(600)]
WORKS = "test_write_has_a_shell_and_the_conversation_goes_on_inside_and_outside"
HOLDS = "test_nothing_gets_out_of_an_agent_that_allows_itself_everything"


@each(WALLED, core=("claude",))
def test_an_agent_works_and_nothing_gets_out(agent: str, home: Path) -> None:
    clis, walls = Path(os.environ["OSTLER_TEST_CLIS"]), TESTS / "real" / "test_walls.py"
    env = {name: os.environ[name] for name in ("OSTLER_TEST_CLIS", "OSTLER_TEST_NODE")}
    tests = (f"{walls}::{WORKS}[{agent}]", f"{walls}::{HOLDS}[{agent}-write]")
    assert "2 passed" in run_as_nobody(home, env, tests, clis)
