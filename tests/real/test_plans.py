"""claude's to-do list, by its real CLI: there under every access, and told whole, one-shot and in a dialog."""

import pytest

from ostler.model import Plan
from real.yard import Yard

pytestmark = [pytest.mark.timeout(240), pytest.mark.parametrize("agent", ["claude"])]

WORK = (
    ('[[tool:TaskCreate:{"subject":"feed","description":"hay"}]]', [("feed", "pending")]),
    ('[[tool:TaskCreate:{"subject":"groom","description":"x"}]]', [("feed", "pending"), ("groom", "pending")]),
    ('[[tool:TaskUpdate:{"taskId":"1","status":"in_progress"}]]', [("feed", "active"), ("groom", "pending")]),
    ('[[tool:TaskUpdate:{"taskId":"1","status":"completed"}]]', [("feed", "done"), ("groom", "pending")]),
    ('[[tool:TaskUpdate:{"taskId":"2","status":"deleted"}]]', [("feed", "done")]),
)


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
@pytest.mark.parametrize("access", ["read", "write"])
async def test_the_list_is_told_whole_turn_after_turn(yard: Yard, transport: str, access: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access=access)
        for prompt, steps in WORK:
            events = [event async for event in live.run(prompt, transport=transport)]
            assert live.last.ok and live.last.denied == (), live.last
            plans = [[(step.text, step.status) for step in e.steps] for e in events if isinstance(e, Plan)]
            assert plans == [steps]
