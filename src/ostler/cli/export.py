"""`ostler export`."""

import os
import stat
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.export.record import RunRecord, SessionRecord
    from ostler.model import Session
    from ostler.work import Ostler

FORMATS = ("ndjson", "asciicast", "atif", "otel")


@click.command(short_help="Export a session or a pipeline run for other programs.")
@click.argument("session", metavar="[SESSION|RUN]", required=False, shell_complete=complete_session)
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="ndjson", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write to this file.")
@click.option(
    "--endpoint", metavar="URL", help="otel: where spans are posted, such as http://localhost:4318/v1/traces."
)
@click.option("--content", is_flag=True, help="otel: with prompts, answers, arguments and outputs.")
def export(session: str | None, form: str, output: str | None, endpoint: str | None, content: bool) -> None:
    """Export SESSION, or a RUN of a pipeline. Without a name: the session used last in this folder.

    \b
      ostler export k3 --format ndjson      # everything, one JSON object per line
      ostler export k3 --format asciicast   # what its terminal showed
      ostler export k3 --format atif        # a trajectory; of a run, one a line for each session
      ostler export k3 --format otel        # OpenTelemetry spans, posted to a collector
    """
    if form != "otel" and (endpoint or content):
        raise click.UsageError("--endpoint and --content are for --format otel")
    if form == "asciicast":
        write_output(_recording(session), output)
        return
    record = with_ostler(lambda o: _read(o, session))
    if form == "otel":
        _send(record, endpoint, content)
    elif form == "atif":
        write_output(_trajectories(record), output)
    else:
        from ostler.export.record import ndjson

        write_output(ndjson(record), output)


async def _read(o: "Ostler", key: str | None) -> "SessionRecord | RunRecord":
    from ostler.cli.default_session import latest_session
    from ostler.errors import OstlerError, quoted
    from ostler.export.record import RunRecord
    from ostler.pipelines.runs import Runs

    if key is None or o.store.find(key):
        return _session(o, latest_session(o, key))
    runs = Runs(o.store)
    try:
        run = runs.find(key)
    except OstlerError as error:
        what = f"there is no session and no pipeline run {quoted(key)}"
        raise OstlerError("not_found", what, "See: ostler sessions, ostler pipeline list") from error
    nodes = runs.nodes(run.id)
    known = o.store.sessions_of(id for node in nodes.values() for id in node.sessions.values())
    sessions = {
        name: tuple(_session(o, known[id]) for id in node.sessions.values() if id in known)
        for name, node in nodes.items()
    }
    return RunRecord(row=run, nodes=tuple(nodes.values()), sessions=sessions)


def _session(o: "Ostler", row: "Session") -> "SessionRecord":
    from ostler.export.record import SessionRecord, TurnRecord

    turns = o.store.turns(row.id)
    return SessionRecord(
        row=row,
        turns=tuple(TurnRecord(row=turn, events=tuple(o.store.events(row.id, turn=turn.id))) for turn in turns),
    )


def _trajectories(record: "SessionRecord | RunRecord") -> Iterable[bytes]:
    import msgspec

    from ostler import __version__
    from ostler.export.atif import trajectory
    from ostler.export.record import RunRecord

    sessions = record.all_sessions() if isinstance(record, RunRecord) else (record,)
    return (msgspec.json.encode(trajectory(each, f"ostler {__version__}")) + b"\n" for each in sessions)


def _send(record: "SessionRecord | RunRecord", endpoint: str | None, content: bool) -> None:
    from ostler import __version__
    from ostler.export.otlp import send
    from ostler.export.spans import spans
    from ostler.render.lines import counted

    made = spans(record, content)
    send(made, endpoint, __version__)
    click.echo(f"sent {counted(len(made), 'span')}")


def _recording(session: str | None) -> Iterable[bytes]:
    """The recording of the session's newest terminal."""
    from ostler.cli.play import recording_of

    with open(recording_of(session), "rb") as file:
        while data := file.read(1 << 20):
            yield data


def write_output(pieces: Iterable[bytes], output: str | None) -> None:
    """To stdout, or to a file that nobody else can read: prompts and outputs are in it."""
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        return
    fd = os.open(output, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(fd, "wb") as file:
        if stat.S_ISREG(os.fstat(fd).st_mode):  # and no pipe
            _make_private(fd, output)
            os.ftruncate(fd, 0)
        for piece in pieces:
            file.write(piece)


def _make_private(fd: int, output: str) -> None:
    """One that was there may be open to others."""
    try:
        os.fchmod(fd, 0o600)
    except PermissionError:
        from ostler.errors import OstlerError

        raise OstlerError("denied", f"{output} belongs to another user", "Write to another file") from None
