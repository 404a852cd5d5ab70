"""The pool in words."""

from ostler.model import Waiting
from ostler.work.pool.pool import time_of_day
from ostler.work.pool.view import AgentMemory, ParkedAccount, QueueView, UsedSlots, usage_lines, wait_text


def test_a_wait_says_until_when() -> None:
    assert wait_text(Waiting(turn="t", position=1, kind="limit", reason="claude 3/3 busy")) == "claude 3/3 busy"
    quota = Waiting(turn="t", position=1, kind="quota", reason="claude is limited", until=0.0)
    assert wait_text(quota) == f"claude is limited until {time_of_day(0.0)}"


def test_what_is_taken_in_lines() -> None:
    view = QueueView(
        running=(),
        waiting=(),
        slots=(
            UsedSlots(kind="total", name="", taken=3, most=None),
            UsedSlots(kind="agent", name="claude", taken=2, most=3, of_all=20, held=4),
            UsedSlots(kind="account", name="work", taken=1, most=1),
        ),
        memory=(
            AgentMemory(agent="claude", memory_mb=310.4, measured=True),
            AgentMemory(agent="codex", memory_mb=200.0, measured=False),
        ),
        parked=(ParkedAccount(account="gemini", until=0.0),),
    )
    assert usage_lines(view) == [
        "running: 3 turns (claude 2/3 and 4/20 of all machines, account work 1/1)",
        "memory: claude 310 MB, codex 200 MB (not measured)",
        f"parked: gemini until {time_of_day(0.0)}",
    ]
