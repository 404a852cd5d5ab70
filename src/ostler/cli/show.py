"""`ostler show` and `ostler watch`: what happened, and what happens."""

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.asking import refuse_together
from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.words import AnyEvent, Session, TurnRow
    from ostler.work import Ostler
    from ostler.work.lines import Line


@click.command(short_help="Show what happened in a session.")
@click.argument("session", shell_complete=complete_session)
@click.option("--turn", type=click.IntRange(min=1), metavar="N", help="Only the N-th turn.")
@click.option("--raw", is_flag=True, help="The agent's raw output, control characters written out.")
@click.option("--json", is_flag=True, help="Session, turns, envelopes and events as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Whole thoughts, tool output, raw records.")
def show(session: str, turn: int | None, raw: bool, json: bool, verbose: bool) -> None:
    """Show the turns of SESSION: prompts, what happened, how each ended.

    \b
      ostler show k3
      ostler show k3 --turn 2 --raw
    """
    refuse_together({"--raw": raw, "--json": json}, ("--raw", "--json"))

    async def read(o: "Ostler") -> "tuple[Session, list[tuple[TurnRow, list[AnyEvent]]]]":
        row = o.find(session)
        turns = _chosen(o.store.turns(row.id), turn, row)
        return row, [(t, o.store.events(row.id, turn=t.id)) for t in turns]

    row, turns = with_ostler(read)
    if json:
        from ostler.cli.live import json_text

        click.echo(json_text({"session": row, "turns": [{"turn": t, "events": e} for t, e in turns]}), nl=False)
    elif raw:
        for t, _ in turns:
            _print_raw(t)
    else:
        from ostler.cli.live import print_lines

        for n, (t, events) in enumerate(turns):
            print_lines([*([[]] if n else []), *told(t, events, verbose)])


def _chosen(turns: "list[TurnRow]", number: int | None, row: "Session") -> "list[TurnRow]":
    if number is None:
        return turns
    if number > len(turns):
        from ostler.errors import OstlerError
        from ostler.work.lines import counted

        raise OstlerError("not_found", f"session {row.id} has {counted(len(turns), 'turn')}, no turn {number}")
    return [turns[number - 1]]


def told(row: "TurnRow", events: "Iterable[AnyEvent]", verbose: bool = False) -> "list[Line]":
    """One turn from its prompt to its end."""
    from ostler.terminal.safe import safe
    from ostler.work.lines import BOLD, DIM, Story, ending
    from ostler.work.turn_terminal import diff_of

    story = Story(access=row.turn.access, home=os.path.expanduser("~"), verbose=verbose)
    lines: list[Line] = [[("> ", DIM), (safe(line), BOLD)] for line in row.turn.prompt.split("\n")]
    lines.append([])
    for event in events:
        lines += story.feed(event)
    lines += story.flush()
    if row.envelope is None:
        return [*lines, [], [(f"… {row.state}", DIM)]]
    return [*lines, [], *ending(row.envelope, diff_of(row.envelope))]


def _print_raw(row: "TurnRow") -> None:
    from ostler.terminal.safe import safe

    for name in ("stdout", "stderr"):
        path = row.envelope.artifacts.get(name) if row.envelope else None
        if not path:
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                (sys.stdout if name == "stdout" else sys.stderr).write(safe(line))


@click.command(short_help="Follow a session live from another shell.")
@click.argument("session", shell_complete=complete_session)
@click.option("--events", is_flag=True, help="Print each event as a line of JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything.")
def watch(session: str, events: bool, verbose: bool) -> int:
    """Follow the turn that runs in SESSION, from its beginning, until the session is idle.

    Ctrl-C stops watching; the turn goes on (`ostler cancel` ends it).

    \b
      ostler watch k3
      ostler watch k3 --events
    """

    async def follow(o: "Ostler") -> int:
        row = o.find(session)
        await _follow(o, row, {"json": False, "quiet": False, "events": events, "verbose": verbose})
        return 0

    try:
        return with_ostler(follow)
    except KeyboardInterrupt:
        return 130


async def _follow(o: "Ostler", row: "Session", options: dict[str, Any]) -> None:
    from ostler.cli.live import View, choose_view

    turns = o.store.turns(row.id)
    live = next((t for t in turns if t.state != "ended"), turns[-1] if turns else None)
    first = o.store.events(row.id, turn=live.id) if live else []
    after = first[0].seq - 1 if first else o.store.last_seq(row.id)
    view: View | None = None
    turn = ""
    try:
        async for event in o.follow(row.id, after=after):
            if event.turn != turn or view is None:
                turn = event.turn
                began = o.store.turn(turn)
                access = began.turn.access if began else row.access
                view = choose_view(**options, access=access, hint="ctrl-c stops watching")
                view.begin(row.agent)
            view.show(event)
            ended = o.store.turn(turn) if type(event).__name__ == "Ended" else None
            if ended and ended.envelope:
                view.end(ended.envelope)
    finally:
        if view is not None:
            view.stop()
