"""Turns of nodes on this machine: what a node waits for beside their end."""

import asyncio

from ostler.model import TurnOptions
from ostler.pipelines.local_turns import LocalTurns
from ostler.pipelines.model import Node
from waiting import until
from work.conftest import stable  # noqa: F401
from work.forward.test_sender import Backend, backend, configure, forwarding, slow  # noqa: F401
from work.scripted import Stable


async def test_the_next_node_waits_until_the_backend_has_the_result(stable: Stable, backend: Backend) -> None:  # noqa: F811
    configure(stable, forwarding(backend))
    backend.answers = [slow]
    node = Node(name="tell", agent="script", prompt="…", options=TurnOptions(wait_for="forwarded"))
    async with stable.ostler() as o:
        turns = LocalTurns(o, asyncio.Event())
        session = await turns.new_session(node, str(stable.folder))
        turn = await turns.begin(session, "[[say:fed]]", node, "once")
        ended = asyncio.create_task(turns.ended(turn))
        await until(lambda: backend.heard and o.find_turn(turn).state == "ended")
        done, _ = await asyncio.wait({ended}, timeout=0.3)
        assert not done
        backend.go_on.set()
        assert (await ended).text == "fed"
        assert o.store.outbox_size(turn) == 0
