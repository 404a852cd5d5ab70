"""Runs a command as a turn of a session of its own: `ostler exec`."""

import os
import shlex
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import Struct

from ostler.access import Access
from ostler.errors import OstlerError, quoted
from ostler.model import AnyEvent, Limits, Turn, TurnOptions
from ostler.process import Size
from ostler.work.sessions.context import SessionContext
from ostler.work.sessions.live_session import LiveSession, Prepared, settings_notices
from ostler.work.sessions.rows import new_session_row
from ostler.work.transports.transport import OutputSink
from ostler.work.turns.checked_types import check_types
from ostler.work.turns.checks import check_folder
from ostler.work.turns.command import command_attempt, is_empty, walled_command
from ostler.work.turns.handle import TurnHandle


class ExecOptions(Struct, frozen=True, kw_only=True):
    """How a command is run: see `Ostler.exec`."""

    folder: str
    name: str | None
    limits: Limits
    env: dict[str, str]
    access: Access
    tty: Size | None
    stdin: bytes | int
    shown: OutputSink | None


def run_command(context: SessionContext, argv: Sequence[str], options: ExecOptions) -> TurnHandle:
    """Begins when it is awaited or iterated; raises missing, not_found, denied then."""
    return TurnHandle(lambda handle: _run(handle, context, () if is_empty(argv) else argv, options))


async def _run(
    handle: TurnHandle, context: SessionContext, argv: Sequence[str], options: ExecOptions
) -> AsyncGenerator[AnyEvent, None]:
    folder = check_folder(options.folder)
    if isinstance(argv, str):
        what = f"{quoted(argv[:100])} is a single string; a list of a program and its arguments is expected"
        raise OstlerError("bad_request", what, 'For a line of the shell: ["sh", "-c", "…"]')
    setup = context.setup_in(folder)
    row = new_session_row(
        context.store, setup.settings, agent="exec", folder=folder, name=options.name, access=options.access
    )
    turn = Turn(
        id=f"{row.id}-{os.urandom(5).hex()}",
        session=row.id,
        agent="exec",
        prompt=shlex.join(argv),
        folder=row.folder,
        access=options.access,
        env=options.env,
        limits=options.limits,
    )
    check_types(turn)
    handle.stop.turn = turn.id
    environ = {**setup.environ, **options.env}
    attempt = command_attempt(turn, argv, environ, setup.settings.redact, options.stdin, options.shown, options.tty)
    attempt = walled_command(attempt, setup.settings, str(context.store.folder))
    asked = TurnOptions(access=options.access)  # it has a session of its own, and never waits for it
    prepared = Prepared(
        prompt=turn.prompt, options=asked, attempt=attempt, setup=setup, notices=settings_notices(setup)
    )
    live = LiveSession(context, row, stored=False)
    with context.turns.cancellable(handle.stop):
        async with aclosing(live.run_prepared(handle, prepared)) as events:
            async for event in events:
                yield event
