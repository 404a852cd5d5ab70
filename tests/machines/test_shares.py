"""Machines that share a limit: never exceeded, fair, nobody starves."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.machines.shares import Granted, Share, fair_share, grant


def wants(**counts: int) -> dict[str, Share]:
    return {name: Share(wanted=count, granted=n) for n, (name, count) in enumerate(counts.items())}


def test_what_is_fair() -> None:
    assert fair_share(wants(crow=2, owl=1), 5) == {"crow": 2, "owl": 1}
    assert fair_share(wants(crow=9, owl=9), 5) == {"crow": 3, "owl": 2}  # the first was given something longest ago
    assert fair_share(wants(crow=9, owl=1, wren=9), 6) == {"crow": 3, "owl": 1, "wren": 2}
    assert fair_share(wants(crow=1, owl=1, wren=1), 2) == {"crow": 1, "owl": 1, "wren": 0}
    assert fair_share({}, 3) == {}


def test_what_is_above_the_fair_share_comes_back_when_it_ends() -> None:
    crow, owl = Share(held=4, wanted=9, granted=1), Share(wanted=4)
    both = {"crow": crow, "owl": owl}
    assert grant("owl", both, 4, 0) == Granted(held=0, start=0)  # nothing is free
    assert grant("crow", both, 4, 4) == Granted(held=4, start=2)  # all of it runs, and no more may start
    assert grant("crow", both, 4, 3) == Granted(held=3, start=2)  # one has ended
    assert grant("owl", {**both, "crow": Share(held=3, wanted=9)}, 4, 0) == Granted(held=1, start=1)


SHARES = st.dictionaries(
    st.sampled_from("abcde"), st.builds(Share, wanted=st.integers(0, 20), granted=st.integers(0, 9)), min_size=1
)


@given(SHARES, st.integers(1, 30))
def test_shares_are_fair(shares: dict[str, Share], most: int) -> None:
    fair = fair_share(shares, most)
    assert all(0 <= fair[name] <= share.wanted for name, share in shares.items())
    assert sum(fair.values()) == min(most, sum(share.wanted for share in shares.values()))
    unmet = [fair[name] for name, share in shares.items() if fair[name] < share.wanted]
    assert not unmet or max(fair.values()) <= min(unmet) + 1


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.integers(0, 6)), max_size=60), st.integers(1, 5)
)
def test_a_limit_is_never_exceeded_and_everybody_has_a_turn(steps: list[tuple[str, int, int]], most: int) -> None:
    """Machines come with other wishes, and with turns that have ended; then each wants one until it had one."""
    shares: dict[str, Share] = {}
    number = 0

    def ask(name: str, wanted: int, kept: int) -> Granted:
        nonlocal number
        mine = shares.get(name, Share())
        given = grant(name, {**shares, name: Share(held=mine.held, wanted=wanted, granted=mine.granted)}, most, kept)
        number += given.held > mine.held
        granted = number if given.held > mine.held else mine.granted
        shares[name] = Share(held=given.held, wanted=wanted, granted=granted)
        assert kept <= given.held and given.start <= given.held
        assert sum(share.held for share in shares.values()) <= most
        return given

    for name, wanted, ended in steps:
        ask(name, wanted, max(0, shares.get(name, Share()).held - ended))
    hungry = set("abc")
    for _ in range(6):
        for name in "abc":
            if ask(name, 9, 0).start:
                hungry.discard(name)
            ask(name, 9, 0)
    assert not hungry
