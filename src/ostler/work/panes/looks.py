"""Panes for people: which there are, how to attach to them, and all of them at once."""

from typing import Literal

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.process.tmux import TmuxPlace, run_tmux
from ostler.store import Store
from ostler.work.panes.notes import PaneNote, PaneNotes, Shows

ALL = "all"  # the window that has them all


class PaneRow(Struct, frozen=True, kw_only=True):
    """A pane as people are told of it. `state`: of its session, or `gone` where the pane has ended."""

    session: str
    name: str | None
    agent: str
    state: str
    pane: str
    server: Literal["own", "user"]
    shows: Shows


def pane_rows(notes: PaneNotes, store: Store) -> list[PaneRow]:
    rows = []
    for note in notes.all():
        session = store.session(note.session)
        over = not note.lives and note.shows == "tui"
        rows.append(
            PaneRow(
                session=note.session,
                name=session.name if session else None,
                agent=note.agent,
                state="gone" if over or session is None else session.state,
                pane=note.pane,
                server="own" if note.place.config else "user",
                shows=note.shows,
            )
        )
    return rows


def attach_command(notes: PaneNotes, session: str | None, within: bool) -> tuple[tuple[str, ...], str]:
    """What to run, and in which folder. Raises `not_found` where there is no pane. `within`: we are in a tmux."""
    found = [note for note in notes.all() if note.lives or note.shows == "output"]
    if session is not None:
        found = [note for note in found if note.session == session]
    found.sort(key=lambda note: (bool(note.place.config), note.used_at), reverse=True)
    if not found:
        where = f"session {session} has no pane" if session is not None else "no tmux pane is open"
        raise OstlerError("not_found", where, 'Start one: ostler run claude "…" --transport tmux')
    place, pane = found[0].place, found[0].pane if session is not None else ""
    return _attach(place, pane, within), place.folder


def _attach(place: TmuxPlace, pane: str, within: bool) -> tuple[str, ...]:
    """In ostler's own server each who looks has a view of his own, which goes when he leaves."""
    at = (";", "select-window", "-t", pane, ";", "select-pane", "-t", pane) if pane else ()
    if place.config:
        view = ("new-session", "-t", place.session, ";", "set-option", "destroy-unattached", "on")
        return place.argv(*view, *at)
    if within:
        return place.argv("switch-client", "-t", pane or place.session)
    return place.argv("attach-session", "-t", place.session, *at)


async def tile_panes(notes: PaneNotes, off: bool = False) -> int:
    """Puts all panes of ostler's own server into one window, or each into its own; how many there are."""
    there = [note for note in notes.all() if note.place.config and (note.lives or note.shows == "output")]
    if not there:
        raise OstlerError("not_found", "no tmux pane is open", 'Start one: ostler run claude "…" --transport tmux')
    place = there[0].place
    target = there[0].pane
    for note in there[1:]:
        window = await _window(place, note)
        together = window == await _window(place, there[0])
        if off and together:
            await run_tmux(place, "break-pane", "-d", "-s", note.pane, "-n", await _name(place, note))
        elif not off and not together:
            await run_tmux(place, "join-pane", "-d", "-s", note.pane, "-t", target)
            await run_tmux(place, "select-layout", "-t", target, "tiled")
    await run_tmux(place, "rename-window", "-t", target, await _name(place, there[0]) if off else ALL)
    return len(there)


async def _window(place: TmuxPlace, note: PaneNote) -> str:
    return (await run_tmux(place, "display-message", "-p", "-t", note.pane, "#{window_id}")).strip()


async def _name(place: TmuxPlace, note: PaneNote) -> str:
    return (await run_tmux(place, "display-message", "-p", "-t", note.pane, "#{@ostler_name}")).strip()
