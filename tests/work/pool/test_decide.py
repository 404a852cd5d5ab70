"""The pool's decision: no limit is ever exceeded, nothing starves, and each wait has a reason."""

import random
from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from ostler.model import PoolLimits
from ostler.model.pool import Claim, IdleProcess, PoolState, PoolTurn, SharedLimits, SharedSlots
from ostler.work.pool.decide import AGING, PATIENCE, decide, keys_of, may_start

AGENTS = ("claude", "codex", "exec")


def turn(n: int, agent: str = "claude", *, runs: bool = False, since: float = 0.0, **more: object) -> PoolTurn:
    names = ("account", "profile", "folder", "priority", "memory_mb", "nested")
    claim = Claim(agent=agent, **{"account": agent, **{k: v for k, v in more.items() if k in names}})
    rest = {k: v for k, v in more.items() if k not in names}
    return PoolTurn(**{"id": f"t{n}", "session": f"s{n}", "n": n, "claim": claim, "since": since, "runs": runs, **rest})


def state(*turns: PoolTurn, now: float = 0.0, **more: object) -> PoolState:
    limits = {name: more.pop(name) for name in list(more) if name in PoolLimits.__struct_fields__}
    return PoolState(now=now, turns=turns, limits=PoolLimits(**limits), **more)


def reasons(of: PoolState) -> dict[str, str]:
    return {wait.turn: wait.reason for wait in decide(of).waiting}


# -- one rule at a time


def test_without_limits_everything_starts() -> None:
    assert decide(state(turn(1), turn(2))).start == ("t1", "t2")


def test_a_limit_says_how_many_are_busy() -> None:
    busy = [turn(n, runs=True) for n in (1, 2, 3)]
    assert reasons(state(*busy, turn(4), agents={"claude": 3})) == {"t4": "claude 3/3 busy"}
    assert reasons(state(*busy, turn(4), total=3)) == {"t4": "3/3 turns busy"}
    work = [turn(1, account="work", runs=True), turn(2, account="work")]
    assert reasons(state(*work, accounts={"work": 1})) == {"t2": "account work 1/1 busy"}
    reviews = [turn(1, profile="reviewer", runs=True), turn(2, profile="reviewer")]
    assert reasons(state(*reviews, profiles={"reviewer": 1})) == {"t2": "profile reviewer 1/1 busy"}


def test_a_machine_runs_what_it_has_of_the_limits_of_all() -> None:
    limits = SharedLimits(total=9, agents={"claude": 5})
    slots = SharedSlots(held={"agent:claude": 2, "total:": 3}, until=10.0)
    both = {"shared": slots, "limits": PoolLimits(shared=limits)}
    turns = [turn(1, runs=True), turn(2), turn(3), turn(4, "codex"), turn(5, "codex"), turn(6, "exec")]
    decision = decide(PoolState(now=0.0, turns=tuple(turns), **both))
    assert decision.start == ("t2", "t4", "t6")
    assert {wait.turn: (wait.kind, wait.reason) for wait in decision.waiting} == {
        "t3": ("shared", "claude: this machine holds 2 of 5 shared slots"),
        "t5": ("shared", "turns: this machine holds 3 of 9 shared slots"),
    }
    late = decide(PoolState(now=10.0, turns=(turn(1), turn(2, "exec"), turn(3, nested=True)), **both))
    assert late.start == ("t2", "t3")
    assert late.waiting[0].reason == "the limits over all machines are not known at the moment"
    alone = PoolState(now=10.0, turns=tuple(turns), limits=PoolLimits(shared=limits))  # it has not joined others
    assert len(decide(alone).start) == 5


def test_another_agent_overtakes_one_that_waits_for_its_own_limit() -> None:
    decision = decide(state(turn(1, runs=True), turn(2), turn(3, "codex"), agents={"claude": 1}))
    assert decision.start == ("t3",)
    assert [(wait.turn, wait.position) for wait in decision.waiting] == [("t2", 1)]


def test_commands_do_not_count_for_the_total_but_for_their_own_limit() -> None:
    assert decide(state(turn(1, runs=True), turn(2, "exec"), total=1)).start == ("t2",)
    assert reasons(state(turn(1, "exec", runs=True), turn(2, "exec"), agents={"exec": 1})) == {"t2": "exec 1/1 busy"}


def test_a_turn_begun_by_an_agent_never_waits_for_the_one_that_waits_for_it() -> None:
    assert may_start(state(turn(1, runs=True), turn(2, nested=True), total=1), "t2")


def test_one_turn_of_a_session_at_a_time_in_their_order() -> None:
    found = reasons(state(turn(1, session="k", runs=True), turn(2, session="k"), turn(3, session="m")))
    assert found == {"t2": "the session is busy"}
    decision = decide(state(turn(1, session="k"), turn(2, session="k", priority=10)))
    assert decision.start == ("t1",)
    assert decision.waiting[0].reason == "behind another turn of its session"


def test_priority_first_then_folders_in_turn_then_the_oldest() -> None:
    waiting = [turn(1, folder="a"), turn(2, folder="a"), turn(3, folder="b"), turn(4, folder="c", priority=1)]
    order = ["t4", "t1", "t3", "t2"]
    for most in (1, 2, 3, 4):
        assert list(decide(state(*waiting, total=most)).start) == order[:most]


def test_a_folder_with_running_turns_comes_after_one_without() -> None:
    found = decide(state(turn(1, folder="a", runs=True), turn(2, folder="a"), turn(3, folder="b"), total=2))
    assert found.start == ("t3",)


def test_sessions_of_a_folder_take_turns() -> None:
    mine = [turn(n, session=f"s{n}", folder="a") for n in (1, 2)]
    again = structs.replace(turn(3, folder="a"), session="s1")
    assert decide(state(*mine, again, total=5)).start == ("t1", "t2")


def test_priority_grows_while_a_turn_waits() -> None:
    old, new = turn(1, folder="a", since=0.0), turn(2, folder="b", since=10 * AGING, priority=5)
    assert decide(state(old, new, total=1, now=10 * AGING)).start == ("t1",)


def test_memory_that_is_taken_and_memory_that_is_free() -> None:
    one, two = turn(1, memory_mb=300, runs=True, since=-100), turn(2, memory_mb=300)
    assert reasons(state(one, two, memory_mb=500)) == {"t2": "memory: 300 MB of 500 MB taken, needs 300 MB"}
    assert reasons(state(one, two, available_mb=500)) == {"t2": "memory: 500 MB free, needs 300 MB"}
    assert may_start(state(one, two, available_mb=600), "t2")
    fresh = structs.replace(one, since=-1)  # what it takes is still seen as free
    assert not may_start(state(fresh, two, available_mb=600), "t2")


def test_what_runs_alone_does_not_wait_for_memory() -> None:
    assert may_start(state(turn(1, memory_mb=9000), memory_mb=100, available_mb=50), "t1")


def test_file_descriptors_are_those_of_the_process_that_decides() -> None:
    mine, other = turn(1, owner="me"), turn(2, owner="you")
    decision = decide(state(mine, other, me="me", room=0))
    assert decision.start == ("t2",) and decision.waiting[0].reason == "too few file descriptors"


def test_an_account_that_is_parked_waits_until_its_quota_is_back() -> None:
    waiting = state(turn(1), turn(2, "codex"), parked={"claude": 90.0}, now=50.0)
    decision = decide(waiting)
    assert decision.start == ("t2",)
    assert [(wait.kind, wait.reason, wait.until) for wait in decision.waiting] == [("quota", "claude is limited", 90.0)]
    assert may_start(structs.replace(waiting, now=90.0), "t1")


def test_a_session_that_is_held_holds_up_nobody_else() -> None:
    decision = decide(state(turn(1), turn(2), total=1, held={"s1": "a person has the keyboard"}))
    assert decision.start == ("t2",) and decision.waiting[0].reason == "a person has the keyboard"


def test_what_the_first_in_line_needs_is_kept_for_it_in_the_end() -> None:
    """It needs two limits, of which others always take one: without that it would wait for ever."""
    running = [turn(1, "codex", account="work", runs=True), turn(2, "claude", account="home", runs=True)]
    first = turn(3, "claude", account="work")
    newer = turn(4, "claude", account="home", since=PATIENCE)
    limits = {"agents": {"claude": 2}, "accounts": {"work": 1}}
    assert decide(state(*running, first, newer, now=PATIENCE - 1, **limits)).start == ("t4",)
    assert decide(state(*running, first, newer, now=PATIENCE, **limits)).start == ()


def test_idle_processes_end_when_they_are_old_or_turns_wait_for_memory() -> None:
    idle = (
        IdleProcess(session="a", memory_mb=100, since=5),
        IdleProcess(session="b", memory_mb=100, since=3),
        IdleProcess(session="c", memory_mb=100, since=1, kept_until=50),
    )
    one, two = turn(1, memory_mb=300, runs=True, since=-100), turn(2, memory_mb=300)
    assert decide(state(one, idle=idle, now=10)).end == ()
    assert decide(state(one, idle=idle, now=50)).end == ("c",)
    assert decide(state(one, two, memory_mb=500, idle=idle[:2], now=10)).end == ("b",)


# -- whatever comes

claims = st.builds(
    Claim,
    agent=st.sampled_from(AGENTS),
    account=st.sampled_from(("claude", "work", "home")),
    profile=st.sampled_from(("", "reviewer")),
    folder=st.sampled_from(("a", "b", "c")),
    priority=st.integers(-10, 10),
    memory_mb=st.sampled_from((0.0, 100.0, 400.0)),
    nested=st.just(False),
)
some = st.one_of(st.none(), st.integers(1, 4))
named = st.dictionaries(st.sampled_from((*AGENTS, "work", "home", "reviewer")), st.integers(1, 3))
limits_of_all_kinds = st.builds(
    PoolLimits,
    total=some,
    agents=named,
    accounts=named,
    profiles=named,
    memory_mb=st.one_of(st.none(), st.sampled_from((300.0, 1000.0))),
)


def exceeded(limits: PoolLimits, running: list[PoolTurn]) -> list[str]:
    """The limits that these exceed together."""
    taken = Counter(key for each in running for key in keys_of(each.claim))
    most = {
        ("total", ""): limits.total,
        **{("agent", name): n for name, n in limits.agents.items()},
        **{("account", name): n for name, n in limits.accounts.items()},
        **{("profile", name): n for name, n in limits.profiles.items()},
    }
    found = [str(key) for key, n in most.items() if n is not None and taken[key] > n]
    memory = sum(each.claim.memory_mb for each in running)
    if limits.memory_mb is not None and memory > limits.memory_mb and len(running) > 1:
        found.append("memory")
    return found


class Yard:
    """Turns that come, are started as the decision says, and end; time goes on by a second a step."""

    def __init__(self, limits: PoolLimits) -> None:
        self.limits, self.now, self.n = limits, 0.0, 0
        self.turns: dict[str, PoolTurn] = {}
        self.begun: Counter[str] = Counter()  # by folder and by session
        self.served: dict[str, float] = {}

    def come(self, claim: Claim, session: str | None = None) -> str:
        self.n += 1
        id = f"t{self.n}"
        new = PoolTurn(id=id, session=session or f"s{self.n}", n=self.n, claim=claim, since=self.now)
        self.turns[id] = new
        return id

    def step(self) -> tuple[str, ...]:
        self.now += 1.0
        before = [each for each in self.turns.values() if each.runs]
        turns = tuple(map(self._with_history, self.turns.values()))
        started = decide(PoolState(now=self.now, turns=turns, limits=self.limits)).start
        for id in started:
            self.turns[id] = structs.replace(self.turns[id], runs=True, since=self.now)
            for name in (self.turns[id].claim.folder, self.turns[id].session):
                self.begun[name] += 1
                self.served[name] = self.now
        running = [each for each in self.turns.values() if each.runs]
        assert exceeded(self.limits, running) == [], (before, started)
        sessions = [each.session for each in running]
        assert len(sessions) == len(set(sessions)), "two turns of one session"
        return started

    def _with_history(self, turn: PoolTurn) -> PoolTurn:
        folder, session = (self.served.get(name, 0.0) for name in (turn.claim.folder, turn.session))
        return structs.replace(turn, folder_served=folder, session_served=session)

    def end(self, which: int) -> None:
        running = [id for id, each in self.turns.items() if each.runs]
        if running:
            del self.turns[running[which % len(running)]]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), claims, st.one_of(st.none(), st.sampled_from(("s", "z")))),
        st.tuples(st.just("end"), st.integers(0, 9), st.none()),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(limits_of_all_kinds, steps)
def test_no_limit_is_ever_exceeded_and_in_the_end_everything_has_run(limits: PoolLimits, steps: list) -> None:
    yard = Yard(limits)
    for what, value, session in steps:
        if what == "come":
            yard.come(value, session)
        else:
            yard.end(value)
        yard.step()
    for n in range(len(yard.turns) * 2):
        yard.end(n)
        yard.step()
    assert yard.turns == {}


@settings(deadline=None, max_examples=40, phases=[Phase.explicit, Phase.generate])
@given(limits_of_all_kinds, claims, st.lists(claims, min_size=1, max_size=3))
def test_nothing_starves_however_many_others_keep_coming(limits: PoolLimits, mine: Claim, others: list[Claim]) -> None:
    """Others keep coming that may be preferred to it, and each that runs ends some time: it is started nevertheless."""
    yard = Yard(limits)
    for other in others:
        yard.come(other)
    yard.step()
    id = yard.come(mine)
    for n in range(int(25 * AGING)):
        if id not in yard.turns or yard.turns[id].runs:
            return
        if sum(not each.runs for each in yard.turns.values()) < 6:
            yard.come(others[n % len(others)])
        if n % 3 == 0:
            yard.end(0)  # the one that came first of those that run
        yard.step()
    raise AssertionError("it never started")


@given(st.lists(claims, max_size=8), limits_of_all_kinds)
def test_each_turn_that_waits_is_either_started_or_told_why_not(waiting: list[Claim], limits: PoolLimits) -> None:
    turns = tuple(PoolTurn(id=f"t{n}", session=f"s{n}", n=n, claim=c, since=0.0) for n, c in enumerate(waiting))
    decision = decide(PoolState(now=0.0, turns=turns, limits=limits))
    told = [wait.turn for wait in decision.waiting]
    assert sorted([*decision.start, *told]) == [each.id for each in turns]
    assert [wait.position for wait in decision.waiting] == list(range(1, len(told) + 1))
    assert all(wait.reason for wait in decision.waiting)


# -- fair


def spread(yard: Yard, names: tuple[str, ...], dice: random.Random) -> int:
    """How far apart these were at most in what they had begun, as long as each of them had something that waits."""
    most = 0
    while True:
        yard.step()
        waiting = {name for each in yard.turns.values() if not each.runs for name in (each.claim.folder, each.session)}
        if not waiting >= {*names}:
            return most
        begun = [yard.begun[name] for name in names]
        most = max(most, max(begun) - min(begun))
        running = [each for each in yard.turns.values() if each.runs]
        del yard.turns[min(running, key=lambda each: each.since + dice.random() * 3).id]  # all take about as long


@pytest.mark.parametrize("seed", range(5))
def test_folders_are_served_alike_though_one_came_with_all_its_turns_before_the_others(seed: int) -> None:
    memory = {"claude": 200.0, "codex": 250.0, "gemini": 300.0}
    yard = Yard(PoolLimits(total=5, agents={"claude": 3}, memory_mb=1000.0))
    for folder in "abcde":
        for n in range(40):
            agent = ("claude", "codex", "gemini")[n % 3]
            yard.come(Claim(agent=agent, account=agent, folder=folder, memory_mb=memory[agent]))
    assert spread(yard, tuple("abcde"), random.Random(seed)) <= 3


def test_sessions_of_a_folder_are_served_alike_though_one_came_with_all_its_turns_before_the_others() -> None:
    yard = Yard(PoolLimits(total=1))
    for session in ("first", "second", "third"):
        for _ in range(10):
            yard.come(Claim(agent="claude", account="claude", folder="a"), session)
    assert spread(yard, ("first", "second", "third"), random.Random(0)) <= 1
