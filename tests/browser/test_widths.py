"""The page counts columns as the server's emulator does: its table is compared with libghostty."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyghostty

TABLE = Path(__file__).parents[2] / "web/src/terminal/widths_table.ts"


def test_every_character_is_as_wide_as_the_emulator_has_it() -> None:
    page = {0: set(ranges("ZERO")), 2: set(ranges("WIDE"))}
    edges = {near for found in page.values() for each in found for near in (each - 1, each, each + 1)}
    around = sorted(code for code in {*edges, *range(0xA0, 0x3000)} if 0xA0 <= code < 0x110000 and not surrogate(code))
    terminal = pyghostty.Terminal(cols=80, rows=5)
    wrong = []
    for code in around:
        terminal.feed(f"\r\x1b[2Ka{chr(code)}b".encode())
        width = terminal.get("cursor_x", "uint16_t") - 2
        told = 0 if code in page[0] else 2 if code in page[2] else 1
        if width != told:
            wrong.append((hex(code), width, told))
    assert wrong == []


def ranges(name: str) -> Iterator[int]:
    """The characters of a table."""
    found = re.search(rf"const {name} =\n(.*?);", TABLE.read_text(), re.DOTALL)
    assert found
    last = 0
    for part in "".join(re.findall(r'"(.*?)"', found[1])).split(" "):
        step, _, more = part.partition(".")
        start = last + int(step, 36)
        last = start + int(more or "0", 36)
        yield from range(start, last + 1)


def surrogate(code: int) -> bool:
    return 0xD800 <= code < 0xE000
