"""A headless turn in a pane: its records go to files that ostler reads, and are shown in the pane as they come."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import AnyEvent, TerminalClosed, TerminalOpened
from ostler.store.files import write_private
from ostler.work import leftovers
from ostler.work.dialogs.open_dialogs import not_begun
from ostler.work.panes.hook_file import HookFile
from ostler.work.panes.notes import PaneNote
from ostler.work.panes.pane_terminal import PaneStart, PaneTakeover
from ostler.work.panes.pane_tui import pane_options
from ostler.work.panes.replay import Replay
from ostler.work.panes.tailed import TailedProcess
from ostler.work.panes.viewer import ViewedTurn
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.terminals.terminals import Terminals
from ostler.work.transports.launch_files import place_files
from ostler.work.transports.pipe import PipeRun
from ostler.work.transports.stop import LeftInPane, unless_stopped
from ostler.work.transports.transport import Attempt, Carried, TurnContext
from ostler.work.turns.artifacts import lends_logins, remove_files

if TYPE_CHECKING:
    from ostler.work.panes.open_panes import Panes

STREAMS = ("stdin", "stdout", "stderr")


async def run_output(attempt: Attempt, context: TurnContext, panes: "Panes", terminals: Terminals) -> Carried:
    """The command from its start, or from where it is taken up, to its end; its pane stays, to be read and used again.

    When ostler closes, the command goes on, and so it does when ostler is killed.
    """
    folder = panes.notes.pane_folder(attempt.turn.session)
    try:
        starting = _taken_up if attempt.adopts is not None else _started
        program = await unless_stopped(starting(attempt, context, panes, terminals), context.stop)
    except OstlerError as error:
        if context.stop.left:
            raise LeftInPane from error
        return not_begun(error)
    context.stop.can_leave = True
    if attempt.adopts is not None:
        replay, add = Replay(attempt.adopts), context.add

        async def add_new(events: list[AnyEvent]) -> None:
            await add(replay.new(events))

        context = structs.replace(context, add=add_new)
    process = TailedProcess(program, folder, context.stop)
    try:
        if program is not None:
            context.artifacts.paths["recording"] = program.row.recording
            await context.add([TerminalOpened(terminal=program.row.id, title=program.row.name)])
        carried = await PipeRun(attempt, process, context).to_end()
        if program is not None:
            code = program.exit.code if program.exit else None
            await context.add([TerminalClosed(terminal=program.row.id, exit_code=code)])
    except LeftInPane:
        raise
    except BaseException:
        if program is not None and not program.done.done():
            await program.end()
        raise
    finally:
        await process.release()
    await asyncio.to_thread(_clean_up, folder, panes.notes.get(attempt.turn.session))
    return carried


async def _started(attempt: Attempt, context: TurnContext, panes: "Panes", terminals: Terminals) -> PtyTerminal:
    from ostler.work.panes.open_panes import new_note

    session = panes.session(attempt.turn.session)
    place = await panes.place(context.settings)
    again = await _again(panes, panes.notes.get(session.id), place.key)
    folder = await asyncio.to_thread(panes.notes.make_folder, session.id)
    placed = place_files(attempt)
    note = new_note(attempt, place)
    start = PaneStart(
        servers=panes.servers,
        notes=panes.notes,
        place=place,
        session=session,
        note=partial(_noted, attempt, placed),
        streams=(str(folder / "stdin"), str(folder / "stdout"), str(folder / "stderr")),
        viewer=(sys.executable, "-P", "-m", "ostler.work.panes.viewer", str(folder)),
        remove=() if lends_logins(placed) else placed,
        again=again,
    ).start
    try:
        await asyncio.to_thread(_write_input, attempt, folder)
        return await terminals.open_program(session.id, pane_options(attempt, note, start))
    except BaseException:
        remove_files(placed)
        raise


async def _taken_up(attempt: Attempt, context: TurnContext, panes: "Panes", terminals: Terminals) -> PtyTerminal | None:
    note = panes.notes.get(attempt.turn.session)
    if note is None or not note.lives:
        return None  # it has ended meanwhile: its files tell how
    if (hooks := HookFile.of(attempt, note.placed)) is not None:
        await asyncio.to_thread(hooks.take_over)
    start = PaneTakeover(servers=panes.servers, notes=panes.notes, note=note).start
    return await terminals.open_program(note.session, pane_options(attempt, note, start))


async def _again(panes: "Panes", note: PaneNote | None, place: tuple[str, str, str]) -> str:
    """The session's pane, if a command has ended there and it is still to be seen; any other one is closed."""
    if note is None:
        return ""
    if not note.lives and note.shows == "output" and note.place.key == place:
        try:
            client = await panes.servers.client(note.place, make=False)
            words = ("display-message", "-p", "-t", note.pane, "#{@ostler_session} #{pane_dead}")
            if await client.command(*words) == [f"{note.session} 1"]:
                return note.pane
        except OstlerError:
            return ""  # its server has ended
    await panes.end_pane(note)
    return ""


def _noted(attempt: Attempt, placed: tuple[str, ...], made: PaneNote) -> PaneNote:
    if placed:
        leftovers.pass_on(placed[-1], made.pid, made.start_time)
    return structs.replace(made, agent=attempt.agent.name, turn=attempt.turn.id, placed=placed)


def _write_input(attempt: Attempt, folder: Path) -> None:
    for name in STREAMS:
        (folder / name).unlink(missing_ok=True)
    write_private(folder / "stdin", attempt.launch.stdin)
    turn = structs.replace(attempt.effective_turn, env={}, mcp=(), attachments=(), schema=None)
    viewed = ViewedTurn(agent=attempt.records_of, turn=turn, home=attempt.env.get("HOME", ""))
    write_private(folder / "turn.json", msgspec.json.encode(viewed))


def _clean_up(folder: Path, note: PaneNote | None) -> None:
    """The streams are artifacts of the turn by now, without secrets."""
    for name in (*STREAMS, "turn.json"):
        (folder / name).unlink(missing_ok=True)
    if note is not None:
        remove_files(note.placed)
