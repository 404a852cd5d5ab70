"""`ostler diff`: what the turns of a session changed."""

import sys
from typing import TYPE_CHECKING

import click

from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.model import Session, TurnRow
    from ostler.render.lines import Line
    from ostler.work import Ostler


@click.command(short_help="Show what a session changed.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--turn", type=click.IntRange(min=1), metavar="N", help="Only the N-th turn.")
@click.option("--stat", is_flag=True, help="Only the files, and how many lines of each.")
@click.option("--json", is_flag=True, help="Turns, files and diffs as JSON.")
def diff(session: str | None, turn: int | None, stat: bool, json: bool) -> None:
    """Show what SESSION changed in its folder, turn by turn, as patches.

    In a pipe there is nothing but the patches, ready for `git apply`. Without SESSION: the one used last in
    this folder.

    \b
      ostler diff
      ostler diff k3 --turn 2
      ostler diff k3 --stat
    """
    from ostler.cli.asking import refuse_together
    from ostler.cli.default_session import latest_session
    from ostler.cli.show import chosen_turns

    refuse_together({"--stat": stat, "--json": json}, ("--stat", "--json"))

    async def read(o: "Ostler") -> "tuple[Session, list[tuple[int, TurnRow, str]]]":
        row = latest_session(o, session, with_commands=False)
        every = o.store.turns(row.id)
        numbers = {t.id: n for n, t in enumerate(every, 1)}
        return row, [(numbers[t.id], t, _diff(t)) for t in chosen_turns(every, turn, row)]

    row, turns = with_ostler(read)
    changed = [each for each in turns if each[2]]
    if json:
        _print_json(row, turns)
    elif not changed:
        said = "read-only" if all(t.turn.access == "read" for _, t, _ in turns) else "nothing was changed"
        click.echo(f"no changes in {row.label} ({said})", err=True)
    elif stat:
        _print_stat(changed)
    else:
        _print(changed)


def _diff(row: "TurnRow") -> str:
    """As it was kept, whole."""
    path = row.envelope.artifacts.get("diff") if row.envelope else None
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _print_json(row: "Session", turns: "list[tuple[int, TurnRow, str]]") -> None:
    from ostler.cli.views import json_text

    changed = [
        {
            "n": n,
            "turn": t.id,
            "files": t.envelope.files if t.envelope else (),
            "diff": text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        }
        for n, t, text in turns
    ]
    click.echo(json_text({"session": row.id, "turns": changed}), nl=False)


def _print(turns: "list[tuple[int, TurnRow, str]]") -> None:
    if not sys.stdout.isatty():
        for _, _, text in turns:
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
        return
    from ostler.cli.live import print_lines

    for i, (n, row, text) in enumerate(turns):
        print_lines([*([[]] if i else []), _head(n, row), *map(_coloured, text.splitlines())])


def _print_stat(turns: "list[tuple[int, TurnRow, str]]") -> None:
    from ostler.cli.live import print_lines
    from ostler.render.lines import changed_files

    for i, (n, row, text) in enumerate(turns):
        print_lines([*([[]] if i else []), _head(n, row), *changed_files(text, most=None)])


def _head(n: int, row: "TurnRow") -> "Line":
    from ostler.render.lines import BOLD, DIM
    from ostler.terminal.safe import one_line

    return [(f"turn {n} ", DIM), (one_line(row.turn.prompt, 100), BOLD)]


def _coloured(line: str) -> "Line":
    from ostler.render.lines import BAD, BOLD, CODE, GOOD
    from ostler.terminal.safe import safe

    style = ""
    if line.startswith(("diff --git ", "index ", "--- ", "+++ ", "new file", "deleted file", "rename ")):
        style = BOLD
    elif line.startswith("@@"):
        style = CODE
    elif line.startswith("+"):
        style = GOOD
    elif line.startswith("-"):
        style = BAD
    return [(safe(line.encode("utf-8", "surrogateescape").decode("utf-8", "replace").expandtabs(4)), style)]
