"""Further flags of an agent's CLI in its own screen: they reach it, and what widens the access does not."""

import pytest

from ostler.errors import OstlerError
from work.scripted import Stable


async def test_they_reach_it_and_what_widens_is_refused(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    envelope, _ = await stable.turn("go", transport="pty", agent_flags=["--system=Be brief."])
    assert envelope.text == "Here."
    assert "--system=Be brief." in stable.script.launches[0].argv
    with pytest.raises(OstlerError) as raised:
        await stable.turn("go", transport="pty", agent_flags=["--access=full"])
    assert raised.value.kind == "denied"
