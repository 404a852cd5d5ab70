"""`ostler show` and `ostler watch`: what happened, and what happens."""

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.asking import refuse_together
from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.model import AnyEvent, Asked, Session, TurnRow
    from ostler.render.lines import Line
    from ostler.work import Ostler


@click.command(short_help="Show what happened in a session.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--turn", type=click.IntRange(min=1), metavar="N", help="Only the N-th turn.")
@click.option("--raw", is_flag=True, help="The agent's raw output, control characters written out.")
@click.option("--json", is_flag=True, help="Session, turns, envelopes and events as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Whole thoughts, tool output, raw records.")
def show(session: str | None, turn: int | None, raw: bool, json: bool, verbose: bool) -> None:
    """Show the turns of SESSION: prompts, what happened, how each ended.

    Without SESSION: the one used last in this folder.

    \b
      ostler show
      ostler show k3
      ostler show k3 --turn 2 --raw
    """
    refuse_together({"--raw": raw, "--json": json}, ("--raw", "--json"))
    from ostler.cli.default_session import latest_session

    async def read(o: "Ostler") -> "tuple[Session, list[tuple[TurnRow, list[AnyEvent]]]]":
        row = latest_session(o, session)
        turns = chosen_turns(o.store.turns(row.id), turn, row)
        return row, [(t, o.store.events(row.id, turn=t.id)) for t in turns]

    row, turns = with_ostler(read)
    if json:
        from ostler.cli.views import json_text

        click.echo(json_text({"session": row, "turns": [{"turn": t, "events": e} for t, e in turns]}), nl=False)
    elif raw:
        for t, _ in turns:
            _print_raw(t)
    else:
        from ostler.cli.live import drawing_width, print_lines

        width = drawing_width()
        for n, (t, events) in enumerate(turns):
            print_lines([*([[]] if n else []), *turn_lines(t, events, verbose, width)])


def chosen_turns(turns: "list[TurnRow]", number: int | None, row: "Session") -> "list[TurnRow]":
    """All of them, or the one of that number. Raises not_found."""
    if number is None:
        return turns
    if number > len(turns):
        from ostler.errors import OstlerError
        from ostler.render.lines import counted

        raise OstlerError("not_found", f"session {row.label} has {counted(len(turns), 'turn')}, no turn {number}")
    return [turns[number - 1]]


def turn_lines(
    row: "TurnRow", events: "Iterable[AnyEvent]", verbose: bool = False, width: int | None = None
) -> "list[Line]":
    """One turn from its prompt to its end; Markdown in blocks to be drawn where a terminal has a width."""
    from ostler.render.lines import BOLD, DIM, attached_line, ending
    from ostler.render.turn_renderer import TurnRenderer
    from ostler.terminal.safe import safe
    from ostler.work.turns.artifacts import diff_of

    home = os.path.expanduser("~")
    renderer = TurnRenderer(access=row.turn.access, home=home, verbose=verbose, width=width, markdown=width is not None)
    lines: list[Line] = [[("> ", DIM), (safe(line), BOLD)] for line in row.turn.prompt.split("\n")]
    lines += [attached_line(each) for each in row.turn.attachments]
    lines.append([])
    for event in events:
        lines += renderer.feed(event)
    lines += renderer.flush()
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
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--events", is_flag=True, help="Print each event as a line of JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything.")
def watch(session: str | None, events: bool, verbose: bool) -> int:
    """Follow the running turn of SESSION, from its beginning, until the session is idle.

    Ctrl-C stops watching; the turn keeps running (`ostler cancel` ends it). Without SESSION, the only one
    running, else the one used last in this folder.

    \b
      ostler watch
      ostler watch k3
      ostler watch k3 --events
    """
    from ostler.cli.default_session import running_or_latest

    async def follow(o: "Ostler") -> int:
        row = running_or_latest(o, session)
        await _follow(o, row, {"json": False, "quiet": False, "events": events, "verbose": verbose})
        return 0

    try:
        return with_ostler(follow)
    except KeyboardInterrupt:
        return 130


async def _follow(o: "Ostler", row: "Session", options: dict[str, Any]) -> None:
    from ostler.cli.answer import how_to_answer
    from ostler.cli.views import TurnDisplay, choose_view
    from ostler.model import Asked, Ended, Notice

    turns = o.store.turns(row.id)
    live = next((t for t in turns if t.state != "ended"), turns[-1] if turns else None)
    first = o.store.events(row.id, turn=live.id) if live else []
    after = first[0].seq - 1 if first else o.store.last_seq(row.id)
    view: TurnDisplay | None = None
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
            if not options["events"] and isinstance(event, Asked) and _is_open(o, event):
                view.show(Notice(text=how_to_answer(row.label, event)))
            ended = o.store.turn(turn) if isinstance(event, Ended) else None
            if ended and ended.envelope:
                view.end(ended.envelope)
    finally:
        if view is not None:
            view.stop()


def _is_open(o: "Ostler", asked: "Asked") -> bool:
    return any(each.id == asked.id for each in o.open_asks(asked.turn))
