"""`ostler up` and `down`: the server and its page."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.logs import LogOptions
    from ostler.machines.membership import JoinOptions
    from ostler.server.lock import Serves
    from ostler.server.tls import TlsFiles
    from ostler.settings import Settings

SERVER_LOG = "server.log"  # in the state folder
_STOP_SECONDS = 30.0


@click.command(short_help="Start the server with its page.")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT", help="The port (default: the last one, else a free one)."
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen (default: 127.0.0.1).")
@click.option("--expose", is_flag=True, help="Confirm that other machines may reach the address.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="Also answer under this URL. May be repeated.")
@click.option("--tls-cert", metavar="FILE", help="Serve https: the certificate (PEM), with those that issued it.")
@click.option("--tls-key", metavar="FILE", help="With --tls-cert: its private key (PEM).")
@click.option("--join", envvar="OSTLER_JOIN", metavar="URL", help="Join other machines: the address of their Postgres.")
@click.option("--labels", default="", metavar="LABEL,…", help="With --join: what this machine is good for.")
@click.option("--as", "machine", metavar="NAME", help="With --join: what it is called (default: its host name).")
@click.option("--advertise", metavar="URL", help="With --join: where other machines reach it.")
@click.option("--ca", metavar="FILE", help="With --join: certificates that prove machines with an https address.")
@click.option("--detach", is_flag=True, help="Run in the background; returns when it answers.")
@click.option("--open", "browse", is_flag=True, help="Open the page in a browser.")
@click.option("--json", is_flag=True, help="Print link, port and pid as JSON.")
@click.option("--ready-fd", type=int, hidden=True)
def up(**options: Any) -> None:
    """Start the server: sessions and terminals in a page, and the same over HTTP.

    It listens on this machine only. Only those with a link or a token get in. Ctrl-C or `ostler down` stops
    it; when it starts again, sessions are still there and browsers are still logged in.

    \b
      ostler up
      ostler up --detach --open
      ostler up --port 8080 --allow-origin https://ostler.example
      ostler up --host 0.0.0.0 --expose --tls-cert cert.pem --tls-key key.pem
      ostler up --join postgres://ostler@db/ostler --labels gpu
    """
    _check_flags(options)
    from ostler.cli.turns import settings_for

    settings = settings_for(None)
    if options["detach"]:
        _start_detached(options, settings)
    elif options["ready_fd"] is not None:
        _serve_detached(options, settings)
    else:
        _serve(options, settings, lambda serves: _print_started(serves, options, settings.home))


def _check_flags(options: dict[str, Any]) -> None:
    """Here, and not in the process of `--detach`: its words would be read in a log."""
    if bool(options["tls_cert"]) != bool(options["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key must be given together")
    if not options["join"] and any(options[each] for each in ("labels", "machine", "advertise", "ca")):
        raise click.UsageError("--labels, --as, --advertise and --ca need --join")


def _serve(options: dict[str, Any], settings: "Settings", ready: "Callable[[Serves], None]") -> None:
    import asyncio
    import gc

    from ostler.server.logs import start_server_log
    from ostler.server.running import ServerOptions, serve
    from ostler.work.turns.environment import secrets

    detached = os.path.join(settings.home, SERVER_LOG) if options["ready_fd"] is not None else ""
    start_server_log(_log_options(), secrets(os.environ, {}, settings.redact), detached=detached)
    server_options = ServerOptions(
        folder=os.getcwd(),
        host=options["host"],
        port=options["port"],
        expose=options["expose"],
        allowed=options["allow_origin"],
        join=_join_options(options),
        tls=_tls_files(options),
    )

    def started(serves: "Serves") -> None:
        ready(serves)
        gc.freeze()  # what was imported is never looked at again: each look holds up everybody
        gc.set_threshold(50_000)

    asyncio.run(serve(settings, os.environ, server_options, started))


def _tls_files(options: dict[str, Any]) -> "TlsFiles | None":
    from ostler.server.tls import TlsFiles

    if not options["tls_cert"]:
        return None
    return TlsFiles(certificate=os.path.abspath(options["tls_cert"]), key=os.path.abspath(options["tls_key"]))


def _join_options(options: dict[str, Any]) -> "JoinOptions | None":
    import platform

    from ostler.machines.membership import JoinOptions

    if not options["join"]:
        return None
    labels = tuple(dict.fromkeys(label.strip() for label in options["labels"].split(",") if label.strip()))
    return JoinOptions(
        directory=options["join"],
        name=options["machine"] or platform.node() or "machine",
        labels=labels,
        url=options["advertise"] or "",
        ca=os.path.abspath(options["ca"]) if options["ca"] else "",
    )


# -- in the background --------------------------------------------------------------------------------


def _start_detached(options: dict[str, Any], settings: "Settings") -> None:
    """A process of its own session, its log in the state folder; what it tells when it answers comes by a pipe."""
    import subprocess

    import msgspec

    from ostler.errors import OstlerError
    from ostler.server.lock import Serves, check_free
    from ostler.store.files import open_private_append, private_folder

    check_free(settings.home)  # the log is that of the server that runs
    log = private_folder(settings.home, known="ostler.db") / SERVER_LOG
    reading, writing = os.pipe()
    with open_private_append(log) as out, os.fdopen(reading, "rb") as pipe:
        argv = [sys.executable, "-P", "-m", "ostler", *_log_flags(), "up", "--ready-fd", str(writing)]
        argv += _passed_on(options)
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=(writing,),
            start_new_session=True,
            # Not among the arguments, which every user of the machine can read: a password may stand in it.
            env={**os.environ, **({"OSTLER_JOIN": options["join"]} if options["join"] else {})},
        )
        os.close(writing)
        try:
            answer = pipe.read()
        except BaseException:
            process.terminate()  # nobody waits for it any more
            raise
    if not answer:
        process.wait()
        last = log.read_bytes()[-2000:].decode(errors="replace").strip().rpartition("\n")[2]
        raise OstlerError("crashed", f"the server ended before it answered: {last or 'no output'}", f"See {log}")
    message = msgspec.json.decode(answer)
    if "error" in message:
        process.wait()
        raise OstlerError(**message["error"])
    _print_started(msgspec.convert(message, Serves), options, settings.home, _log_options().file or str(log))


def _serve_detached(options: dict[str, Any], settings: "Settings") -> None:
    import msgspec

    from ostler.errors import OstlerError

    with os.fdopen(options["ready_fd"], "wb") as pipe:
        try:
            _serve(options, settings, lambda serves: _report_start(pipe, serves))
        except OstlerError as error:
            if not pipe.closed:
                about = {"kind": error.kind, "message": error.message, "hint": error.hint}
                pipe.write(msgspec.json.encode({"error": about}))
                sys.exit(error.exit_code)  # who started it tells the user; the log may be another server's
            raise


def _report_start(pipe: Any, serves: "Serves") -> None:
    import msgspec

    pipe.write(msgspec.json.encode(serves))
    pipe.close()


def _passed_on(options: dict[str, Any]) -> list[str]:
    argv = [f"--host={options['host']}", *(f"--allow-origin={url}" for url in options["allow_origin"])]
    argv += [f"--port={options['port']}"] if options["port"] else []
    argv += [f"--labels={options['labels']}"] if options["labels"] else []
    argv += [f"--as={options['machine']}"] if options["machine"] else []
    argv += [f"--advertise={options['advertise']}"] if options["advertise"] else []
    argv += [f"--ca={os.path.abspath(options['ca'])}"] if options["ca"] else []
    argv += [f"--tls-cert={os.path.abspath(options['tls_cert'])}"] if options["tls_cert"] else []
    argv += [f"--tls-key={os.path.abspath(options['tls_key'])}"] if options["tls_key"] else []
    return argv + (["--expose"] if options["expose"] else [])


def _log_flags() -> list[str]:
    asked = _log_options()
    flags = [f"--log-level={asked.level}"] if asked.level else []
    return flags + ([f"--log-file={asked.file}"] if asked.file else [])


def _log_options() -> "LogOptions":
    from ostler.logs import LogOptions

    asked = click.get_current_context().find_root().obj
    return asked if isinstance(asked, LogOptions) else LogOptions()


# -- what is said -------------------------------------------------------------------------------------


def _print_started(serves: "Serves", options: dict[str, Any], home: str, log: str = "") -> None:
    from ostler.cli.user import user_name
    from ostler.server.auth import LINK_SECONDS, Authenticator

    auth = Authenticator(home)
    bases = [serves.url, *(url.rstrip("/") for url in options["allow_origin"])]
    links = [f"{base}/#t={auth.sign('link', 'admin', user_name(), LINK_SECONDS)}" for base in bases]
    if options["json"]:
        _print_json(serves, links, home, log)
    else:
        _print_lines(serves, links, log)
    sys.stdout.flush()
    if options["browse"]:
        _browse(home, links[0])


def _print_json(serves: "Serves", links: list[str], home: str, log: str) -> None:
    from ostler.cli.views import json_text

    facts = {"pid": serves.pid, "port": serves.port, "url": serves.url, "link": links[0], "state_folder": home}
    more = {"links": links[1:]} if links[1:] else {}
    click.echo(json_text({**facts, **more, **({"log": log} if log else {})}), nl=False)


def _print_lines(serves: "Serves", links: list[str], log: str) -> None:
    """Not wrapped by us: a link that is broken over two lines cannot be clicked."""
    click.echo(f"{click.style('●', fg='green')} ostler is up at {click.style(serves.url, bold=True)}\n")
    for word, link in zip(("open", *["or"] * len(links)), links, strict=False):
        click.echo(f"  {word:6} {click.style(link, fg='cyan')}")
    click.echo(click.style("         valid once, for an hour; `ostler link` creates another", dim=True))
    click.echo(f"  stop   {'ostler down' if log else 'ctrl-c, or `ostler down` in another shell'}")
    if log:
        click.echo(f"  log    {log}")


def _browse(home: str, link: str) -> None:
    """By a private file: a link in the arguments of a browser could be read by every user of the machine."""
    import webbrowser
    from html import escape
    from pathlib import Path

    from ostler.store.files import write_private

    page = Path(home) / "open.html"
    write_private(page, f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">'.encode())
    try:
        opened = webbrowser.get().open(page.as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        click.echo("note: there is no browser here; open the link elsewhere", err=True)


# -- down ---------------------------------------------------------------------------------------------


@click.command(short_help="Stop the server.")
def down() -> None:
    """Stop the server of this state folder, and wait until it is gone. Its turns are cancelled.

    \b
      ostler down
    """
    import select
    import signal

    from ostler.cli.turns import settings_for
    from ostler.errors import OstlerError
    from ostler.server.lock import who_serves

    home = settings_for(None).home
    serves = who_serves(home)
    if serves is None:
        click.echo("no server is running here")
        return
    try:
        handle = os.pidfd_open(serves.pid)
        try:
            if who_serves(home) == serves:  # still the same one: its pid is not another's by now
                signal.pidfd_send_signal(handle, signal.SIGTERM)
            ended, _, _ = select.select([handle], [], [], _STOP_SECONDS)
        finally:
            os.close(handle)
    except ProcessLookupError:
        ended = [0]
    if not ended:
        raise OstlerError("timed_out", f"the server ({serves.pid}) did not stop", f"End it with: kill -9 {serves.pid}")
    click.echo(f"stopped the server ({serves.pid})")
