"""docs/terminal-table.md lists everything the emulator is checked with. Run this file to write it anew."""

import ast
import re
from pathlib import Path
from socket import gethostname

from ostler.terminal.screen.protocol import Modes, ScreenFacts
from terminal.screen_cases import HISTORIES, MODES, NOT_IN_VT, REPLIES, SHOWN, STYLED, TOLD

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "terminal-table.md"
BLOCK = re.compile(r"(<!-- checks -->\n).*(<!-- /checks -->)", re.S)
LONG = 60
FILES = ("test_screen_emulator.py", "screen/test_screens.py", "screen/test_tail.py", "test_screen_tmux.py")
TABLES = ("shown", "styled", "replies", "told_once", "modes", "the_vt_of_a_screen_with_its_history")


def test_the_table_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert filled(page) == page, "run python tests/terminal/test_screen_table.py"


def test_every_difference_is_named() -> None:
    names = {name for name, *_ in SHOWN + STYLED + MODES}
    assert names >= NOT_IN_VT


def filled(page: str) -> str:
    return BLOCK.sub(lambda found: found[1] + "\n" + checks() + "\n" + found[2], page)


def checks() -> str:
    parts = [
        table("Text and cursor", "shown", [(name, data, "; ".join(rows)) for name, data, rows, _ in SHOWN]),
        table("Styles", "styled", [(name, data, vt) for name, data, vt in STYLED]),
        table("Replies", "replies", REPLIES),
        table("What is told", "told_once", [(name, data, told(facts)) for name, data, facts in TOLD]),
        table("Modes", "modes", [(name, data, changed(modes)) for name, data, modes in MODES]),
        table("Screens with history", "the_vt_of_a_screen_with_its_history", [(*case, "") for case in HISTORIES]),
        *(others(file) for file in FILES),
    ]
    return "\n".join(parts)


def table(title: str, test: str, cases: list[tuple[str, bytes, str | bytes]]) -> str:
    rows = [f"| {name} | {code(data)} | {code(result)} | `test_{test}[{name}]` |" for name, data, result in cases]
    head = ["| what | bytes | result | test |", "|---|---|---|---|"]
    return "\n".join([f"### {title}", "", "In `tests/terminal/test_screen_emulator.py`.", "", *head, *rows, ""])


def others(file: str) -> str:
    """The tests that are no table, by their names."""
    found = [
        node
        for node in ast.parse((HERE / file).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    names = [
        node.name for node in found if node.name.startswith("test_") and node.name.removeprefix("test_") not in TABLES
    ]
    rows = [f"| {name.removeprefix('test_').replace('_', ' ')} | `{name}` |" for name in names]
    return "\n".join([f"### More, in `tests/terminal/{file}`", "", "| what | test |", "|---|---|", *rows, ""])


def code(value: str | bytes) -> str:
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    text = text.replace(f"//{gethostname()}/", "//HOST/")
    shown = "".join(visible(character) for character in text[:LONG]) + ("…" if len(text) > LONG else "")
    return f"`` {shown} ``" if shown else ""


def visible(character: str) -> str:
    if character == "\x1b":
        return "␛"
    if character == "|":
        return "\\|"
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def told(facts: ScreenFacts | None) -> str:
    return "nothing" if facts is None else differences(facts, ScreenFacts())


def changed(modes: Modes) -> str:
    return differences(modes, Modes()) or "none"


def differences(value: ScreenFacts | Modes, plain: ScreenFacts | Modes) -> str:
    names = [name for name in value.__struct_fields__ if getattr(value, name) != getattr(plain, name)]
    return ", ".join(f"{name}={getattr(value, name)!r}" for name in names)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
