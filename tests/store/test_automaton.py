"""The automaton finds what a search for each word at each place finds."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.store.automaton import Automaton

WORDS = st.text(alphabet="ab", min_size=1, max_size=6)


def nodes(auto: Automaton[str], text: str) -> list[int]:
    node, seen = 0, []
    for unit in text:
        node = auto.after(node, unit)
        seen.append(node)
    return seen


@given(st.sets(WORDS, max_size=5), st.sets(WORDS, max_size=5), st.text(alphabet="abc", max_size=30))
def test_it_finds_what_a_search_finds(values: set[str], starts: set[str], text: str) -> None:
    auto = Automaton(values, [(word, word.upper()) for word in starts])
    for end, node in enumerate(nodes(auto, text), 1):
        before = text[:end]
        assert auto.found[node] == max((len(value) for value in values if before.endswith(value)), default=0)
        assert sorted(auto.begun[node]) == sorted((len(w), w.upper()) for w in starts if before.endswith(w))
        begun = [word[:n] for word in values | starts for n in range(1, len(word) + 1) if before.endswith(word[:n])]
        assert auto.depth[node] == max(map(len, begun), default=0)


def test_it_knows_what_goes_on() -> None:
    auto = Automaton([b"abc"], [(b"ad", "start")])
    a, ab, abc = (nodes_of(auto, text) for text in (b"a", b"ab", b"abc"))
    ad = nodes_of(auto, b"ad")
    assert [auto.inside[node] for node in (0, a, ab, abc, ad)] == [False, True, True, False, False]
    assert [auto.opening[node] for node in (0, a, ab, abc, ad)] == [(), ("start",), (), (), ()]


def nodes_of(auto: Automaton[str], text: bytes) -> int:
    node = 0
    for unit in text:
        node = auto.after(node, unit)
    return node
