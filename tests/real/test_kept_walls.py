"""Real CLIs behind walls in processes that stay: turn after turn, in another ostler process, resumed."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.model import Envelope, TransportName
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from real.test_tui import open_asks, run, visible
from real.test_walls import without_sandbox
from real.yard import Yard
from work.panes.own_tmux import own_tmux, panes

__all__ = ["visible"]
pytestmark = [pytest.mark.timeout(600), needs("landlock")]
# Adds a line to a file of the turn's own temporary folder, and shows all of them in the folder.
ADD = '[[shell:echo {0} >> "$TMPDIR/kept" && cat "$TMPDIR/kept" > kept.txt]] [[say:Turn {0}.]]'


async def allowed(o: Ostler, live: LiveSession, prompt: str, **options: Any) -> Envelope:
    """A turn in which a person says yes to whatever is asked."""
    turn = asyncio.create_task(run(live, prompt, **options))
    while not turn.done():
        for ask in open_asks(o):
            with contextlib.suppress(OstlerError):  # it is closed by now
                await o.answer(live.id, AskAnswer(ask=ask.id, option="allow", by="Eve"))
        await asyncio.wait([turn], timeout=0.1)
    return turn.result()[0]


# A pane stays the longest. codex is not among them: it has a sandbox of its own.
@pytest.mark.parametrize(
    ("agent", "transport"),
    [*((agent, "tmux") for agent in ("claude", "gemini", "qwen", "copilot")), ("claude", "pty"), ("gemini", "pty")],
)
async def test_a_process_that_stays_has_what_is_behind_its_wall(visible: Yard, transport: TransportName) -> None:
    without_sandbox(visible)
    state, kept = Path(visible.env["OSTLER_HOME"]), visible.folder / "kept.txt"
    with own_tmux(state):
        async with visible.ostler(OSTLER_WALLS="required") as o:
            live = await visible.session(o, access="write")
            for number in (1, 2, 3):
                envelope = await allowed(o, live, ADD.format(number), transport=transport)
                assert envelope.ok and envelope.usage is not None, (number, envelope)
            assert kept.read_text().split() == ["1", "2", "3"]
            assert len(o.terminals.list(live.id)) == (0 if transport == "dialog" else 1)
        async with visible.ostler(OSTLER_WALLS="required") as o:
            live = await o.session(session=live.id)
            for number in (4, 5):
                envelope = await allowed(o, live, ADD.format(number), transport=transport)
                assert envelope.ok and envelope.usage is not None, (number, envelope)
            assert kept.read_text().split() == [*(["1", "2", "3"] if transport == "tmux" else []), "4", "5"]
            visible.model.requests.clear()
            for number in (6, 7):
                envelope = await allowed(o, live, f"[[say:Turn {number}.]]", transport=transport, access="read")
                assert envelope.ok and envelope.text == f"Turn {number}.", (number, envelope)
            assert any("Turn 1." in x.text for x in visible.model.asked)
            await o.close_session(live.id)
        assert panes(state) == []
    assert list((state / "tmp").iterdir()) == []
