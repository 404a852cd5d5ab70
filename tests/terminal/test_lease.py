import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ostler.errors import OstlerError
from ostler.terminal.lease import Author, Lease, LeaseChange
from still_clock import StillClock

ANN, BOB = Author("ann"), Author("bob")
TURN, OTHER = Author("turn 1", "automation"), Author("turn 2", "automation")


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def lease(clock):
    return Lease(clock, idle=60)


def change(before, holder, reason):
    return LeaseChange(before=before, holder=holder, reason=reason)


def denied(call, *arguments):
    with pytest.raises(OstlerError) as raised:
        call(*arguments)
    assert raised.value.kind == "denied"
    return raised.value.message, raised.value.hint


def test_nobody_types_without_it(lease):
    assert denied(lease.use, ANN) == ("ann must take the keyboard before typing", "")
    assert lease.take(ANN) == change(None, ANN, "taken")
    assert lease.take(ANN) is None
    assert lease.use(ANN) is None
    assert denied(lease.use, BOB) == ("bob may not type: ann has the keyboard", "Take it first")
    assert denied(lease.use, TURN) == ("turn 1 may not type: ann has the keyboard", "Wait until it is released")
    assert lease.release(BOB) is None
    assert lease.release(ANN) == change(ANN, None, "released")


def test_automation_yields_to_a_person_and_gets_it_back(lease):
    assert lease.take(TURN) == change(None, TURN, "taken")
    assert lease.take(ANN) == change(TURN, ANN, "taken")
    denied(lease.use, TURN)
    assert lease.take(BOB) == change(ANN, BOB, "taken")
    assert lease.release(BOB) == change(BOB, TURN, "released")
    assert lease.use(TURN) is None


def test_refused_automation_that_waits_gets_it_next(lease, clock):
    lease.wait(TURN)
    assert lease.waiting is None  # nobody holds it: there is nothing to wait for
    lease.take(ANN)
    lease.wait(ANN)
    lease.wait(BOB)
    assert lease.waiting is None  # people take it
    lease.wait(TURN)
    lease.wait(OTHER)
    assert lease.waiting == TURN  # who came first
    assert lease.release(ANN) == change(ANN, TURN, "released")
    lease.take(ANN)
    clock.now += 60
    assert lease.expire() == change(ANN, TURN, "idle")


def test_automation_takes_only_what_is_free(lease):
    lease.take(ANN)
    denied(lease.take, TURN)
    assert lease.due is None
    lease.release(ANN)
    lease.take(TURN)
    denied(lease.take, OTHER)


def test_an_idle_person_hands_it_back(lease, clock):
    lease.take(TURN)
    lease.take(ANN)
    clock.now = 50
    lease.use(ANN)
    assert lease.due == 110
    clock.now = 109
    assert lease.expire() is None
    denied(lease.take, TURN)
    clock.now = 110
    denied(lease.take, OTHER)
    assert lease.expire() == change(ANN, TURN, "idle")
    assert (lease.expire(), lease.due) == (None, None)


def test_automation_need_not_wait_for_the_call_of_expire(lease, clock):
    lease.take(TURN)
    lease.take(ANN)
    clock.now = 60
    assert lease.use(TURN) == change(ANN, TURN, "idle")


def test_a_person_without_automation_behind_keeps_it(lease, clock):
    lease.take(ANN)
    clock.now = 1e6
    assert lease.expire() is None
    assert lease.use(ANN) is None


def test_automation_that_has_gone_gets_nothing_back(lease):
    lease.take(TURN)
    lease.take(ANN)
    assert lease.release(TURN) is None
    assert lease.release(ANN) == change(ANN, None, "released")


class Leases(RuleBasedStateMachine):
    """Whatever happens: who follows the changes knows the holder, and only the holder types."""

    def __init__(self):
        super().__init__()
        self.clock = StillClock()
        self.lease = Lease(self.clock, idle=10)
        self.told = None

    def follow(self, call, *arguments):
        before = (self.lease.holder, self.lease.waiting, self.lease.due)
        try:
            change = call(*arguments)
        except OstlerError as error:
            assert error.kind == "denied"
            assert (self.lease.holder, self.lease.waiting, self.lease.due) == before
            return False
        if change:
            assert change.before == self.told
            assert change.holder != change.before
            self.told = change.holder
        return True

    authors = st.sampled_from([ANN, BOB, TURN, OTHER])

    @rule(author=authors)
    def take(self, author):
        free = self.lease.holder in (None, author)
        if self.follow(self.lease.take, author):
            assert self.lease.holder == author
        else:
            assert author.kind == "automation" and not free

    @rule(author=authors)
    def use(self, author):
        assert self.follow(self.lease.use, author) == (self.lease.holder == author)

    @rule(author=authors)
    def release(self, author):
        assert self.follow(self.lease.release, author)
        assert author not in (self.lease.holder, self.lease.waiting)

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds):
        self.clock.now += seconds

    @rule()
    def expire(self):
        assert self.follow(self.lease.expire)
        assert self.lease.due is None or self.lease.due > self.clock.now

    @invariant()
    def the_told_holder_is_the_holder(self):
        assert self.told == self.lease.holder

    @invariant()
    def only_behind_a_person_does_automation_wait(self):
        if self.lease.waiting:
            assert self.lease.waiting.kind == "automation"
            assert self.lease.holder and self.lease.holder.kind == "person"


TestLeases = Leases.TestCase
