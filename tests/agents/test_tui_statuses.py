"""What the faces tell of recorded screens (tests/captures/tui), beside what was known when they were recorded."""

from collections import Counter

import pytest

from ostler.agents.tui import Status
from tui_corpus import CORPUS, STATUSES, By, lines_of, moments, recordings, scores, told, turns

AGENTS = ("claude", "codex", "gemini", "script")


@pytest.mark.parametrize("agent", AGENTS)
def test_there_are_enough_moments(agent: str) -> None:
    known = Counter(moment.status for moment in moments(agent))
    assert known.total() >= 40 and set(known) == set(STATUSES)
    sizes = {tuple(lines_of(path)[0]["size"]) for path in recordings(agent)}
    assert sizes >= {(80, 24), (120, 30), (200, 50)}


def test_the_recordings_are_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) < 2_000_000


@pytest.mark.parametrize("agent", AGENTS)
def test_a_screen_with_signals_tells_the_status(agent: str) -> None:
    found = [(m.recording, m.what, m.status, told(m, "screen and signals")) for m in moments(agent)]
    assert [wrong for wrong in found if wrong[2] != wrong[3]] == []


@pytest.mark.parametrize("by", ["screen", "screen and signals"])
@pytest.mark.parametrize("agent", AGENTS)
def test_questions_are_told_and_nobody_is_believed_dead(agent: str, by: By) -> None:
    found = scores(list(moments(agent)), by)
    asking, ended = found["asking"], found["ended"]
    assert (asking.precision or 0) >= 0.99 and (asking.recall or 0) >= 0.99
    assert ended.said == ended.right
    if by != "screen":
        assert ended.recall == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_a_screen_alone_tells_most(agent: str) -> None:
    """codex has no busy line while it writes its answer: its title and state tell."""
    least: dict[Status, float] = {"ready": 0.98, "busy": 0.75 if agent == "codex" else 0.97}
    found = scores(list(moments(agent)), "screen")
    assert all((found[status].recall or 0) >= share for status, share in least.items())


@pytest.mark.parametrize("agent", AGENTS)
def test_a_turn_ends_as_it_ended_and_never_before(agent: str) -> None:
    found = list(turns(agent))
    assert {turn.how for turn in found} == {"done", "failed", "interrupted", "ended"}
    assert [turn for turn in found if turn.early] == []
    assert [turn for turn in found if turn.decided != turn.how] == []
