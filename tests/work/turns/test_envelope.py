"""What a turn cost, how it ended and how that is told: never more than was proven, never a guessed figure."""

from typing import Any

import pytest
from msgspec import structs

from ostler import clock
from ostler.model import Denial, Envelope, Exit, FileChange, Problem, Turn, TurnRow, Usage, Verdict
from ostler.work.turns.envelope import Findings, Sums, counters_before, envelope_of, summary, unwatched_envelope

TURN = Turn(id="k3-1", session="k3", agent="codex", prompt="go", folder="/w", access="write", model="asked-for")
NEXT = structs.replace(TURN, id="k3-2", agent_session="A", resume=True)
BROKE = Problem(kind="crashed", message="it broke. Twice", hint="Try again")


def tokens(input: int | None, output: int | None = None, **more: int) -> Usage:
    return Usage(input_tokens=input, output_tokens=output, **more)


def verdict(usage: Usage | None = None, cost: float | None = None, cumulative: bool = False, **more: Any) -> Verdict:
    return Verdict(**{"outcome": "done", "usage": usage, "cost_usd": cost, "cumulative": cumulative, **more})


def summed(*attempts: tuple[Turn, Verdict, dict[str, float] | None]) -> Sums:
    sums = Sums()
    for attempt in attempts:
        sums.add(*attempt)
    return sums


# -- figures ----------------------------------------------------------------------------------------


def test_one_attempt_is_taken_as_it_is() -> None:
    assert Sums() == Sums(usage=None, cost_usd=None, steps=None, counters=None, counted=0)
    one = summed((TURN, verdict(tokens(10, 2), 0.5, steps=3), None))
    assert one == Sums(usage=tokens(10, 2), cost_usd=0.5, steps=3, counters=None, counted=1)
    assert summed((TURN, verdict(), None)) == Sums(counted=1)


def test_attempts_add_up_figure_by_figure() -> None:
    first, second = verdict(tokens(10, 2, cached_tokens=4), 0.5, steps=3), verdict(tokens(5, 1), 0.25, steps=1)
    both = summed((TURN, first, None), (TURN, second, None))
    assert both == Sums(
        usage=tokens(15, 3), cost_usd=0.75, steps=4, counted=2
    )  # what was cached the second did not say


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0)])
def test_an_attempt_that_tells_nothing_makes_the_sum_unknown(order: tuple[int, ...]) -> None:
    tried = (verdict(tokens(10, 2), 0.5, steps=3), verdict())
    sums = summed(*((TURN, tried[which], None) for which in order))
    assert sums == Sums(usage=None, cost_usd=None, steps=None, counted=len(order))


def test_nothing_is_a_figure_too() -> None:
    sums = summed((TURN, verdict(tokens(0, 0), 0.0, steps=0), None), (TURN, verdict(tokens(0, 1), 0.0, steps=0), None))
    assert sums == Sums(usage=tokens(0, 1), cost_usd=0.0, steps=0, counted=2)


# -- counters of a whole conversation ---------------------------------------------------------------


def test_of_a_new_conversation_the_counters_are_the_turns() -> None:
    sums = summed((TURN, verdict(tokens(100, 20), 0.5, cumulative=True), {"input_tokens": 70.0}))
    assert sums.usage == tokens(100, 20) and sums.cost_usd == 0.5
    assert sums.counters == {"input_tokens": 100.0, "output_tokens": 20.0, "cost_usd": 0.5}


def test_of_a_conversation_that_goes_on_the_turn_is_what_was_added() -> None:
    before = {"input_tokens": 100.0, "output_tokens": 20.0, "cost_usd": 0.5}
    sums = summed((NEXT, verdict(tokens(130, 20), 0.75, cumulative=True), before))
    assert (sums.usage, sums.cost_usd) == (tokens(30, 0), 0.25)
    assert sums.counters == {"input_tokens": 130.0, "output_tokens": 20.0, "cost_usd": 0.75}


def test_without_the_counters_of_before_nothing_is_guessed_but_they_are_kept() -> None:
    sums = summed((NEXT, verdict(tokens(130, 20), 0.75, cumulative=True), None))
    assert (sums.usage, sums.cost_usd) == (None, None)
    assert sums.counters == {"input_tokens": 130.0, "output_tokens": 20.0, "cost_usd": 0.75}


def test_a_figure_that_was_not_known_before_is_not_known_of_the_turn() -> None:
    now = verdict(tokens(130, 20), 0.75, cumulative=True)
    assert summed((NEXT, now, {"input_tokens": 100.0})).usage == tokens(30, None)
    assert summed((NEXT, now, {"input_tokens": 100.0})).cost_usd is None
    assert (summed((NEXT, now, {"cost_usd": 0.5})).usage, summed((NEXT, now, {"cost_usd": 0.5})).cost_usd) == (
        None,
        0.25,
    )


@pytest.mark.parametrize(
    "before",
    [
        {"input_tokens": 131.0, "output_tokens": 20.0, "cost_usd": 0.5},
        {"input_tokens": 100.0, "output_tokens": 20.0, "cost_usd": 0.8},
    ],
)
def test_counters_that_went_back_are_somebody_elses(before: dict[str, float]) -> None:
    sums = summed((NEXT, verdict(tokens(130, 20), 0.75, cumulative=True), before))
    assert (sums.usage, sums.cost_usd) == (None, None)


def test_after_a_turn_that_told_no_counters_the_next_one_is_not_charged_for_all() -> None:
    """A turn that was cancelled before its first figures: what the conversation had used stays unknown."""
    cut = summed((NEXT, verdict(None, cumulative=True, outcome="cancelled"), {"input_tokens": 100.0}))
    assert cut == Sums(counters=None, counted=1)
    assert summed((NEXT, verdict(tokens(5000), cumulative=True), cut.counters)).usage is None


# -- where they stood -------------------------------------------------------------------------------


def row(**changes: Any) -> TurnRow:
    ended = envelope(agent_session="A")
    whole = {"id": "k3-1", "session": "k3", "state": "ended", "turn": TURN, "created_at": 1.0, "envelope": ended}
    return TurnRow(**{**whole, "counters": {"input_tokens": 7.0}, **changes})


def envelope(**changes: Any) -> Envelope:
    found = Findings(turn=TURN, served_by="codex", started_at=0.0, seconds=1.0, verdict=verdict(), sums=Sums())
    return structs.replace(envelope_of(found), **changes)


def test_counters_are_those_of_the_last_turn_of_the_same_conversation() -> None:
    assert counters_before(row(), "A") == {"input_tokens": 7.0}
    assert counters_before(row(counters=None), "A") is None
    assert counters_before(None, "A") is None
    assert counters_before(row(envelope=None), "A") is None  # nobody saw its end
    assert counters_before(row(), "B") is None
    assert counters_before(row(), None) is None
    assert counters_before(row(envelope=envelope(agent_session=None)), "A") is None


# -- envelopes --------------------------------------------------------------------------------------


def test_the_whole_envelope_of_good_work() -> None:
    denied = Denial(tool="shell", target="rm", access="full")
    proven = verdict(text="All done.", model="m-1", agent_session="A", evidence=("result",), denied=(denied, denied))
    found = Findings(
        turn=TURN,
        served_by="claude",
        started_at=5.0,
        seconds=2.0004,
        verdict=proven,
        sums=Sums(usage=tokens(1, 2), cost_usd=0.5, steps=4),
        exit=Exit(code=0),
        leaked=("sleep 9",),
        artifacts={"stdout": "/a"},
        name="baker",
        structured={"n": 1},
        files=(FileChange(path="x"),),
    )
    assert envelope_of(found) == Envelope(
        status="ok",
        outcome="done",
        summary="All done.",
        text="All done.",
        turn="k3-1",
        session="k3",
        name="baker",
        agent="codex",
        served_by="claude",
        agent_session="A",
        model="m-1",
        folder="/w",
        access="write",
        started_at=5.0,
        duration_ms=2000,
        structured={"n": 1},
        denied=(denied,),  # told once, however often it was refused
        artifacts={"stdout": "/a"},
        usage=tokens(1, 2),
        cost_usd=0.5,
        steps=4,
        exit=Exit(code=0),
        error=None,
        evidence=("result",),
        leaked=("sleep 9",),
        files=(FileChange(path="x"),),
    )


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "timed_out", "unproven", "crashed"])
def test_whatever_is_not_done_is_an_error_without_an_answer_by_the_schema(outcome: Any) -> None:
    judged = verdict(outcome=outcome, error=BROKE, text="I am sure that it worked.")
    found = Findings(
        turn=TURN,
        served_by="codex",
        started_at=0.0,
        seconds=0.0,
        verdict=judged,
        sums=Sums(),
        structured={"looks": "good"},
    )
    told = envelope_of(found)
    assert (told.status, told.ok, told.outcome, told.structured) == ("error", False, outcome, None)
    assert (told.summary, told.text, told.error) == ("it broke. Twice", "I am sure that it worked.", BROKE)
    assert told.model == "asked-for"  # as it named no other


def test_a_duration_is_never_below_zero() -> None:
    found = Findings(turn=TURN, served_by="codex", started_at=9.0, seconds=-3.0, verdict=verdict(), sums=Sums())
    assert envelope_of(found).duration_ms == 0


def test_a_turn_that_nobody_carries_claims_nothing() -> None:
    gone = Problem(kind="crashed", message="the process is gone")
    told = unwatched_envelope(row(created_at=clock.now() - 5), "crashed", gone, "A")
    assert 5000 <= told.duration_ms < 125_000
    assert (told.status, told.outcome, told.error, told.summary) == ("error", "crashed", gone, "the process is gone")
    assert (told.agent, told.served_by, told.agent_session, told.turn) == ("codex", "codex", "A", "k3-1")
    assert (told.text, told.usage, told.cost_usd, told.exit, told.evidence) == ("", None, None, None, ())


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("", ""),
        ("   \n\t ", ""),
        ("One. Two! Three? Four.", "One. Two! Three?"),
        ("Version 1.2.3 of x.py is out", "Version 1.2.3 of x.py is out"),
        ("第一。 第二！ 第三？ 第四。", "第一。 第二！ 第三？"),
        ("# Done\n\n**It** works:\n\n> `make`\n", "Done It works: make"),
        ("Before.\n```py\nimport x. y. z.\n```\nAfter.", "Before. After."),
        ("```\nnever closed", "never closed"),
        ("x" * 400, "x" * 400),
        ("x" * 401, "x" * 399 + "…"),
        ("y" * 398 + "  zz", "y" * 398 + "…"),
    ],
)
def test_summaries_of_answers(text: str, short: str) -> None:
    assert summary(text, None) == short


def test_what_failed_counts_before_what_was_said() -> None:
    assert summary("All is well.", BROKE) == "it broke. Twice"
