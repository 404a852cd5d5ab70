"""Many words looked for at once, one step for each unit of the text (Aho and Corasick's automaton).

A node stands for the longest end of what was read that begins one of the words. Node 0 stands for nothing.
"""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

FAR = 1 << 62


class Automaton(Generic[T]):
    """`values` are found by their length, `starts` by what they are the start of.

    All lists are by node. `children`: the node after one more unit. `fallback`: the next shorter end that begins
    a word. `found`: the length of the longest value that ends here. `begun`: the starts that end here, each with
    its length. `inside`: whether a value goes on from here; `opening`: which starts do. `seen`: how far from here
    (back, or on) a text may be seen, if of no value that may have begun more than a third is to be seen.
    """

    def __init__(self, values: Iterable[Any], starts: Iterable[tuple[Any, T]]) -> None:
        self.children: list[dict[Any, int]] = [{}]
        self.depth = [0]
        self.found = [0]
        self.begun: list[tuple[tuple[int, T], ...]] = [()]
        self.inside = [False]
        self.opening: list[tuple[T, ...]] = [()]
        self.seen = [FAR]
        for value in values:
            self._add_value(value)
        for word, what in starts:
            self._add_start(word, what)
        self.fallback = [0] * len(self.children)
        self._link()

    def _add_value(self, value: Any) -> None:
        def through(node: int) -> None:
            self.inside[node] = True
            self.seen[node] = min(self.seen[node], len(value) // 3 - self.depth[node])

        self.found[self._add(value, through)] = len(value)

    def _add_start(self, word: Any, what: T) -> None:
        def through(node: int) -> None:
            self.opening[node] += (what,)

        node = self._add(word, through)
        self.begun[node] += ((len(word), what),)

    def _add(self, word: Any, through: Any) -> int:
        node = 0
        for unit in word:
            if node:
                through(node)
            following = self.children[node].get(unit)
            if following is None:
                following = self._new(node, unit)
            node = following
        return node

    def _new(self, parent: int, unit: Any) -> int:
        node = len(self.children)
        self.children[parent][unit] = node
        self.children.append({})
        self.depth.append(self.depth[parent] + 1)
        self.found.append(0)
        self.begun.append(())
        self.inside.append(False)
        self.seen.append(FAR)
        self.opening.append(())
        return node

    def _link(self) -> None:
        """By depth: each fallback is shorter, so it is whole when it is needed."""
        level = list(self.children[0].values())
        while level:
            for node in level:
                behind = self.fallback[node]
                self.found[node] = self.found[node] or self.found[behind]
                self.begun[node] += self.begun[behind]
                self.seen[node] = min(self.seen[node], self.seen[behind])
                for unit, child in self.children[node].items():
                    self.fallback[child] = self.after(behind, unit)
            level = [child for node in level for child in self.children[node].values()]

    def after(self, node: int, unit: Any) -> int:
        """The node after one more unit."""
        while (following := self.children[node].get(unit)) is None:
            if node == 0:
                return 0
            node = self.fallback[node]
        return following
