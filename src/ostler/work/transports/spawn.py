"""Starts the process of an attempt."""

from ostler.process import Process, Warden
from ostler.work.transports.launch_files import place_files
from ostler.work.transports.transport import Attempt
from ostler.work.turns.artifacts import lends_logins, remove_files


async def spawn_attempt(
    attempt: Attempt, warden: Warden, *, mark: str, keep_stdin: bool = False
) -> tuple[Process, tuple[str, ...]]:
    """The process, and the files that were placed for it: whoever releases the process removes them.

    Raises what keeps it from starting, and then leaves no file behind.
    """
    placed = place_files(attempt)
    try:
        process = await warden.spawn(
            attempt.launch.argv,
            cwd=attempt.turn.folder,
            env=attempt.env,
            mark=mark,
            stdin=attempt.launch.stdin if attempt.stdin is None else attempt.stdin,
            keep_stdin=keep_stdin,
            wall=attempt.wall,
            remove=() if lends_logins(placed) else placed,
        )
    except BaseException:
        remove_files(placed)
        raise
    return process, placed
