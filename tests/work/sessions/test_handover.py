"""What another agent is told when it takes over."""

from ostler.model import Envelope, Plan, PlanStep, Problem, Session, Turn, TurnRow
from ostler.work.sessions.handover import HandedWork, cut, handover_prompt

SESSION = Session(id="k3", agent="claude", folder="/w", created_at=1.0, used_at=1.0)


def row(n: int, prompt: str, text: str = "", error: Problem | None = None) -> TurnRow:
    turn = Turn(id=f"t{n}", session="k3", agent="claude", prompt=prompt, folder="/w")
    envelope = Envelope(
        status="error" if error else "ok",
        outcome="failed" if error else "done",
        summary="",
        text=text,
        turn=turn.id,
        session="k3",
        agent="claude",
        served_by="claude",
        started_at=1.0,
        duration_ms=1,
        error=error,
    )
    return TurnRow(id=turn.id, session="k3", state="ended", turn=turn, created_at=1.0, envelope=envelope)


def test_everything_that_is_known_is_told_once() -> None:
    quota = Problem(kind="limited", message="5-hour limit reached")
    steps = (PlanStep(text="read", status="done"), PlanStep(text="write", status="active"), PlanStep(text="test"))
    work = HandedWork(
        session=SESSION,
        turns=[row(1, "add a parser", "I added it."), row(2, "now test it", error=quota)],
        plan=Plan(steps=steps),
        diffs=["", "--- a/x\n+++ b/x\n"],
    )
    assert handover_prompt(work) == (
        "You take over work that another agent (claude) began in this folder. Its conversation is not yours: this is "
        "what you need to know of it.\n\n"
        "## What was asked\n\n1. add a parser\n2. now test it\n\n"
        "## What was done\n\nThe last turn is failed: 5-hour limit reached.\n\nIts last answer:\n\nI added it.\n\n"
        "## Its plan\n\n- [x] read\n- [~] write\n- [ ] test\n\n"
        "## What it changed\n\n```diff\n--- a/x\n+++ b/x\n```\n\n"
        "## What to do now\n\nLook at the state of the files first, since the changes above may be incomplete. Then go "
        "on where the other agent stopped, and finish what was asked last."
    )


def test_an_instruction_stands_at_the_end_and_what_is_not_known_is_left_out() -> None:
    told = handover_prompt(HandedWork(session=SESSION, turns=[row(1, "go")]), " only the docs ")
    assert told.endswith("## What to do now\n\nonly the docs")
    assert "plan" not in told and "diff" not in told


def test_of_many_prompts_the_last_are_told() -> None:
    told = handover_prompt(HandedWork(session=SESSION, turns=[row(n, f"prompt {n}") for n in range(1, 14)]))
    assert "(and 3 before)\n4. prompt 4\n" in told and "prompt 3" not in told


def test_of_a_long_text_both_ends_stay() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("a" * 50 + "b" * 50, 30) == "a" * 20 + "\n[… 70 characters left out …]\n" + "b" * 10
