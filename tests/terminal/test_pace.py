from ostler.terminal.pace import Budget, Pace
from ostler.testing import Clock


async def test_the_first_at_once_and_the_last_never_lost(clock: Clock) -> None:
    calls, seen = list[int](), list[int]()
    pace = Pace(200, lambda: seen.append(len(calls)))
    for number in range(100):
        calls.append(number)
        pace()
    assert seen == [1]
    await clock.turn(201)
    assert seen == [1, 100]
    await clock.turn(201)  # a pause
    calls.append(100)
    pace()
    assert seen == [1, 100, 101]


async def test_flush_runs_what_waits_once() -> None:
    seen: list[str] = []
    pace = Pace(1000, lambda: seen.append("run"))
    pace.flush()
    assert seen == []
    pace()
    pace()
    pace.flush()
    pace.flush()
    assert seen == ["run", "run"]


def test_a_budget_of_so_many_a_second() -> None:
    budget = Budget(10, 5, now=0.0)
    assert [budget.take(0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [budget.take(0.1), budget.take(0.1)] == [True, False]
    assert [budget.take(100.0) for _ in range(6)] == [True] * 5 + [False]
