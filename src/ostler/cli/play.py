"""`ostler play`: a recording in the user's terminal."""

import os
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.terminals import complete_recorded

if TYPE_CHECKING:
    from ostler.model import TerminalRow
    from ostler.terminal.cast import Cast
    from ostler.work import Ostler


@click.command(short_help="Play the recording of a terminal.")
@click.argument("recording", required=False, metavar="[TERMINAL|SESSION|FILE]", shell_complete=complete_recorded)
@click.option("--speed", type=float, default=1.0, metavar="N", help="Play N times as fast.")
@click.option("--idle-limit", type=float, metavar="SECONDS", help="Shorten pauses to this.")
def play(recording: str | None, speed: float, idle_limit: float | None) -> int:
    """Play what a terminal showed, in its own time: an asciicast file, or a terminal by its id or name.

    For a session, that is its newest terminal. Without a name, the newest recording of this folder. Ctrl-C
    or q stops it. Sequences that would query or control your terminal are left out.

    \b
      ostler play
      ostler play t-k3x9
      ostler play demo.cast --speed 4 --idle-limit 1
    """
    if not speed > 0:
        raise click.UsageError("--speed must be more than 0")
    if idle_limit is not None and not idle_limit > 0:
        raise click.UsageError("--idle-limit must be more than 0")
    from ostler.terminal.cast import read_cast

    cast = read_cast(_path(recording))
    import asyncio

    return asyncio.run(_play(cast, speed, idle_limit))


def _path(recording: str | None) -> str:
    """A file by its path, else the recording of a terminal."""
    if recording and (os.path.exists(recording) or "/" in recording or recording.endswith(".cast")):
        return recording
    return recording_of(recording)


def recording_of(recording: str | None) -> str:
    """The file of a terminal's recording, by the terminal or its session. Raises not_found."""
    from ostler.cli.default_session import latest_recorded
    from ostler.cli.sessions import with_ostler

    async def path(o: "Ostler") -> str:
        row = latest_recorded(o) if recording is None else _recorded(o, recording)
        return await o.terminals.recording(row.id)

    return with_ostler(path)


def _recorded(o: "Ostler", key: str) -> "TerminalRow":
    """The terminal of that id or name, the newest of several; else the newest of the session. Raises not_found."""
    from ostler.cli.attach import found
    from ostler.errors import OstlerError

    every = o.terminals.list()
    named = [row for row in every if row.name == key and row.recording]
    if not named and o.store.find(key) and not any(row.id.startswith(key) for row in every):
        session = o.find(key)
        named = [row for row in every if row.session == session.id and row.recording]
    row = named[0] if named else found(o, key)
    if not row.recording:
        raise OstlerError("not_found", f"terminal {row.id} was not recorded")
    return row


async def _play(cast: "Cast", speed: float, idle_limit: float | None) -> int:
    import asyncio
    import signal
    from contextlib import suppress

    from ostler.cli.tty import UserTerminal

    with UserTerminal() as user:
        _warn_of_size(cast, user)
        task = asyncio.ensure_future(_show(cast, user, speed, idle_limit))
        loop = asyncio.get_running_loop()
        code = 0

        def stop(ended_with: int) -> None:
            nonlocal code
            code = ended_with
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, 130)
        if user.keys is not None:
            loop.add_reader(user.keys, _typed, user.keys, stop)
        with suppress(asyncio.CancelledError, OSError):  # the user stopped it, or the terminal has gone
            await task
    if user.shows:
        click.echo()
    return code


async def _show(cast: "Cast", user: Any, speed: float, idle_limit: float | None) -> None:
    from ostler.terminal.output_filter import OutputFilter
    from ostler.terminal.play import play as played

    output_filter = OutputFilter()
    await user.make_room()
    await played(cast, lambda data: user.write(output_filter.feed(data)), speed=speed, idle_limit=idle_limit)


def _typed(keys: int, stop: Any) -> None:
    try:
        data = os.read(keys, 1024)
    except OSError:
        data = b""
    if not data or b"\x03" in data:
        stop(130)
    elif b"q" in data:  # the usual way to leave is no error
        stop(0)


def _warn_of_size(cast: "Cast", user: Any) -> None:
    size, header = user.size, cast.header
    if user.shows and (size.cols < header.width or size.rows < header.height):
        wanted, here = f"{header.width}×{header.height}", f"{size.cols}×{size.rows}"
        click.echo(f"note: it was recorded at {wanted}, this terminal is {here}\r", err=True)
