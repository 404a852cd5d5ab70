"""A prompt on its way to a TUI: what it may leave behind. How it gets there: tests/work/transports/test_pty.py."""

from types import SimpleNamespace
from typing import Any

import pytest

from ostler.agents import AGENTS
from ostler.agents.tui import Signals, TuiScreen
from ostler.errors import OstlerError
from ostler.work.tuis.delivery import QUIET, STEADY, Delivery, pieces
from ostler.work.tuis.evidence import Evidence


def test_a_prompt_that_the_program_works_on_no_longer_stands_in_its_box() -> None:
    evidence, unused = Evidence(), Any
    delivery = Delivery(
        face=unused,
        watch=unused,
        typist=unused,
        evidence=evidence,
        name="script",
        text="go",
        start_limit=1.0,
        receipt_limit=1.0,
        reached=unused,
    )
    assert not delivery.leaves_text
    delivery.pasted = True
    assert delivery.leaves_text
    evidence.sent(1.0)
    evidence.add("screen", "busy", 2.0)  # its looks do not say so
    assert delivery.leaves_text
    evidence.add("OSC 7501", "busy", 3.0)  # its own word does, also where the turn is cancelled just now
    assert not delivery.leaves_text


def test_a_screen_that_is_still_being_drawn_is_not_ready() -> None:
    """gemini draws its box, and a moment later everything anew: a paste that came in between was lost."""
    rule, box = "─" * 60, " >   Type your message or @path/to/file"
    watch = SimpleNamespace(
        signals=Signals(), modes=SimpleNamespace(bracketed_paste=True), changed_at=1e12, screen=None
    )
    face: Any = AGENTS["gemini"].tui
    unused: Any = None
    delivery = Delivery(
        face=face,
        watch=watch,  # type: ignore[arg-type]
        typist=unused,
        evidence=Evidence(),
        name="gemini",
        text="go",
        start_limit=1.0,
        receipt_limit=1.0,
        reached=unused,
    )
    watch.screen = TuiScreen(rows=(rule, box))
    assert not delivery._is_ready()
    watch.changed_at = 0.0  # nothing more is drawn: the banner has gone up and away
    assert delivery._is_ready()
    watch.changed_at, watch.screen = 1e12, TuiScreen(rows=("   Gemini CLI v0.61.0", rule, box))
    assert delivery._is_ready()
    watch.screen, delivery.used = TuiScreen(rows=(rule, box)), True
    assert delivery._is_ready()


async def test_a_program_that_ends_just_before_it_is_typed_to_has_crashed() -> None:
    class Gone(Delivery):
        async def _until_ready(self) -> None:
            raise OstlerError("not_found", "the terminal t-1 has ended", "Open another one")

    unused: Any = None
    delivery = Gone(
        face=unused,
        watch=unused,
        typist=unused,
        evidence=Evidence(),
        name="script",
        text="go",
        start_limit=1.0,
        receipt_limit=1.0,
        reached=unused,
    )
    with pytest.raises(OstlerError, match="script ended while it was given the prompt") as raised:
        await delivery.send()
    assert raised.value.kind == "crashed"


def test_the_first_prompt_waits_where_nothing_tells_that_keys_are_taken() -> None:
    unused: Any = None
    watch = SimpleNamespace(signals=Signals())
    for agent, used, seconds in (
        *(("copilot", False, QUIET), ("copilot", True, STEADY), ("gemini", False, STEADY)),
        *(("claude", False, QUIET), ("claude", True, STEADY)),  # in tmux, which tells no state
    ):
        face: Any = AGENTS[agent].tui
        delivery = Delivery(
            face=face,
            watch=watch,  # type: ignore[arg-type]
            typist=unused,
            evidence=Evidence(),
            name=agent,
            text="go",
            start_limit=1.0,
            receipt_limit=1.0,
            reached=unused,
            used=used,
        )
        assert delivery._patience() == seconds


def test_a_prompt_in_pieces() -> None:
    lines = "a line\n" * 50
    cut = pieces(lines, 14)
    assert "".join(cut) == lines and all(not part[-1].isspace() for part in cut[:-1])
    assert pieces("abcde", 0) == ["abcde"] and pieces("abcde", 2) == ["ab", "cd", "e"] and pieces("ab", 2) == ["ab"]
