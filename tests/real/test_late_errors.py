"""A model server that fails after a tool has run: what was done before does not prove the end."""

import pytest

from real.test_dialogs import DIALOGS, asked_turn
from real.yard import Yard

pytestmark = [pytest.mark.parametrize("agent", DIALOGS), pytest.mark.timeout(240)]


@pytest.mark.core
async def test_an_error_after_a_tool_is_no_success(yard: Yard) -> None:
    """Tokens were counted and a tool was called; codex-acp then says the error as its answer."""
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        prompt = f"{yard.asking('echo x > made.txt')}[[error:{yard.server_error}]]"
        envelope, _ = await asked_turn(o, live, prompt, "allow")
        assert (yard.folder / "made.txt").exists()
        assert (envelope.status, envelope.error and envelope.error.kind) == ("error", "overloaded"), envelope
