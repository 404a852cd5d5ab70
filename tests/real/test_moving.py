"""A session of a real CLI goes from transport to transport, and its conversation with it."""

import json

import pytest

from ostler.model import Notice, TransportName
from real.test_tui import SETTLED
from real.yard import Yard, each

WAY: list[TransportName] = ["pipe", "pty", "tmux", "dialog", "pipe"]


@pytest.mark.timeout(240)
@each(("claude", "codex", "gemini"), core=("claude", "codex"))
async def test_the_conversation_goes_along(agent: str, yard: Yard) -> None:
    SETTLED[agent](yard)
    async with yard.ostler() as o:
        live = await yard.session(o)
        said: list[str] = []
        for n, transport in enumerate(WAY):
            await live.move(transport)
            yard.model.requests.clear()
            envelope = await live.run(f"the word number {n} is w0rd{n} [[say:Heard{n}.]]")
            assert (envelope.outcome, envelope.text) == ("done", f"Heard{n}."), (transport, envelope)
            # Of the model's requests, the one with this prompt has all that was said before, by both sides.
            mine = next(x for x in yard.model.asked if f"w0rd{n}" in x.user)
            whole = json.dumps(mine.body)
            assert [word for word in said if word not in whole] == [], (transport, whole)
            said += [f"w0rd{n}", f"Heard{n}."]
        turns = o.store.turns(live.id)
        assert [row.turn.transport for row in turns] == WAY
        assert len({row.envelope.agent_session for row in turns if row.envelope}) == 1
        moves = [e.text for e in o.events(live.id) if isinstance(e, Notice) and e.code == "moved"]
        assert [text.partition(":")[0] for text in moves] == [f"moved to {name}" for name in WAY[1:]]
        assert o.terminals.list(live.id, live=True) == []
