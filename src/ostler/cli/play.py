"""`ostler play`: a recording in the user's terminal."""

import os
from typing import TYPE_CHECKING, Any

import click

from ostler.cli.terminals import complete_recorded

if TYPE_CHECKING:
    from ostler.terminal.cast import Cast
    from ostler.work import Ostler


@click.command(short_help="Play the recording of a terminal.")
@click.argument("recording", metavar="TERMINAL|FILE", shell_complete=complete_recorded)
@click.option("--speed", type=float, default=1.0, metavar="N", help="N times as fast.")
@click.option("--idle-limit", type=float, metavar="SECONDS", help="No pause longer than this.")
def play(recording: str, speed: float, idle_limit: float | None) -> int:
    """Play what a terminal showed, in its own time: an asciicast file, or a terminal by its id.

    Ctrl-C or q stops it. What would ask or act on your terminal is left out.

    \b
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


def _path(recording: str) -> str:
    """A file by its path, else the recording of a terminal."""
    if os.path.exists(recording) or "/" in recording or recording.endswith(".cast"):
        return recording
    from ostler.cli.sessions import with_ostler
    from ostler.errors import OstlerError

    async def path(o: "Ostler") -> str:
        row = o.terminals.find(recording)
        if not row.recording:
            raise OstlerError("not_found", f"terminal {row.id} was not recorded")
        return row.recording

    return with_ostler(path)


async def _play(cast: "Cast", speed: float, idle_limit: float | None) -> int:
    import asyncio
    import signal
    from contextlib import suppress

    from ostler.cli.tty import UserTerminal

    with UserTerminal() as user:
        _warn_of_size(cast, user)
        task = asyncio.ensure_future(_show(cast, user, speed, idle_limit))
        loop = asyncio.get_running_loop()
        stopped = False

        def stop() -> None:
            nonlocal stopped
            stopped = True
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop)
        if user.keys is not None:
            loop.add_reader(user.keys, _typed, user.keys, stop)
        with suppress(asyncio.CancelledError, OSError):
            await task
    if user.shows:
        click.echo()
    return 130 if stopped else 0


async def _show(cast: "Cast", user: Any, speed: float, idle_limit: float | None) -> None:
    from ostler.terminal.outward import Outward
    from ostler.terminal.play import play as played

    outward = Outward()
    await user.make_room()
    await played(cast, lambda data: user.write(outward.feed(data)), speed=speed, idle_limit=idle_limit)


def _typed(keys: int, stop: Any) -> None:
    try:
        data = os.read(keys, 1024)
    except OSError:
        data = b""
    if not data or b"\x03" in data or b"q" in data:
        stop()


def _warn_of_size(cast: "Cast", user: Any) -> None:
    size, header = user.size, cast.header
    if user.shows and (size.cols < header.width or size.rows < header.height):
        wanted, here = f"{header.width}×{header.height}", f"{size.cols}×{size.rows}"
        click.echo(f"note: it was recorded at {wanted}, this terminal has {here}\r", err=True)
