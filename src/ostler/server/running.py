"""A server as it runs: started on sockets that are bound already, and stopped within a deadline."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import uvicorn
from msgspec import Struct, structs
from uvicorn.config import Config
from uvicorn.server import Server

from ostler import clock
from ostler.errors import OstlerError
from ostler.machines.directory import Directory
from ostler.machines.membership import JoinOptions, Membership, machine_id
from ostler.machines.states import BEAT
from ostler.server.app import Site, build
from ostler.server.connection import SETTINGS, load_websockets
from ostler.server.gateway import OwnAddresses, addresses_of, origin_of
from ostler.server.http_connection import HttpConnection, IdleConnections
from ostler.server.lock import ServerLock, Serves
from ostler.server.machine_client import tls_context
from ostler.server.machine_facts import MachineFactsSource
from ostler.server.ports import LOOPBACK, Listening, checked_host, is_any, listen, who_listens
from ostler.server.routes_agents import AgentReports
from ostler.server.shared_pool import SharedPool, forget_shared
from ostler.server.tls import TlsFiles, fingerprint_of, server_tls
from ostler.settings import Settings
from ostler.supervise import Loop
from ostler.work import Ostler
from ostler.work.folder_settings import loader

__all__ = ["Listening", "ServerOptions", "Serving", "listen", "serve", "serving"]

# The command loads `uvicorn` itself late (ostler/late.py), since multiprocessing comes with it. The only name that one
# of its modules takes from there is this one.
uvicorn.Config = Config  # type: ignore[misc]

GRACE = 3.0  # seconds for answers under way when the server stops
DEADLINE = 15.0  # seconds after which a server that was told to stop is gone whatever happens
_LOGIN_LOOK = 0.25  # seconds between looks at who is still logged in
_SWEEP = 3600.0

_log = logging.getLogger(__name__)


class ServerOptions(Struct, frozen=True, kw_only=True):
    """What `ostler up` was asked for."""

    folder: str
    host: str = LOOPBACK
    port: int | None = None  # None: the last one if it is free, else any
    expose: bool = False
    allowed: tuple[str, ...] = ()  # further URLs under which we are reached
    join: JoinOptions | None = None  # other machines
    tls: TlsFiles | None = None  # None: plain HTTP

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"


async def serve(
    settings: Settings, environ: Mapping[str, str], options: ServerOptions, ready: Callable[[Serves], None]
) -> None:
    """Serves until a signal comes. Raises `bad_request` if the port or the state folder is taken."""
    host = checked_host(options.host, options.expose)
    addresses_of((host,), 0, options.allowed)  # complains before anything is taken
    check_join(options.join, host)
    if options.tls is not None:
        server_tls(options.tls)
    lock = ServerLock(settings.home)
    try:
        listening = _listen(host, options.port or settings.port, lock.last.port if lock.last else 0)
        try:
            lock.write(Serves(pid=os.getpid(), port=listening.port))
            with stopped_by_signals() as stop:
                await _serve(settings, environ, options, listening, lock, ready, stop)
        finally:
            listening.close()
    finally:
        lock.release()


def check_join(join: JoinOptions | None, host: str) -> None:
    """Raises bad_request for what cannot be joined with."""
    if join is None:
        return
    Directory(join.directory)
    if join.ca:
        tls_context(join.ca)
    if join.url:
        origin_of(join.url)
    elif is_any(host):
        hint = "Give the address: --advertise http://ADDRESS:PORT"
        raise OstlerError("bad_request", f"other machines cannot reach this one at {host}", hint)


async def _serve(
    settings: Settings,
    environ: Mapping[str, str],
    options: ServerOptions,
    listening: Listening,
    lock: ServerLock,
    ready: Callable[[Serves], None],
    stop: asyncio.Event,
) -> None:
    own = own_addresses(listening, options)
    url = f"{options.scheme}://{_shown(listening.addresses[0])}:{listening.port}"
    async with Ostler(settings, environ, "up", loader(environ)) as ostler, _joined(ostler, options, url) as joined:
        site = build(ostler, own, folder=options.folder, membership=joined.membership, reports=joined.reports)
        async with serving(site, listening, options.tls) as running:
            known = fingerprint_of(options.tls) if options.tls else ""
            serves = Serves(pid=os.getpid(), port=listening.port, url=url, fingerprint=known, started_at=clock.now())
            lock.write(serves)
            # Hooks of agents could not check our certificate: with TLS they have a port of their own.
            if f"127.0.0.1:{listening.port}" in own.hosts and not options.tls:
                ostler.callbacks.serve_at(f"http://127.0.0.1:{listening.port}")
            _log.info("serving %s at %s", settings.home, url)
            ready(serves)
            ostler.screens.warm()  # the first terminal need not wait for its emulator
            ostler.warm_up(options.folder or os.getcwd())  # nor the first turn for its agent, where that is wished for
            await asyncio.to_thread(load_websockets)
            await _first(running, stop)


class _Joined(NamedTuple):
    membership: Membership | None
    reports: AgentReports


@contextlib.asynccontextmanager
async def _joined(ostler: Ostler, options: ServerOptions, url: str) -> AsyncIterator[_Joined]:
    """Among the other machines, if that was asked for. Raises store where the directory cannot be used."""
    reports = AgentReports(ostler)
    if options.join is None:
        await forget_shared(ostler.store)
        yield _Joined(None, reports)
        return
    join = structs.replace(options.join, url=options.join.url or url)
    source = MachineFactsSource(ostler, reports, join.labels, options.folder)
    id = await machine_id(ostler.store)
    async with Membership(Directory(join.directory), id, join, ostler.store.watch(), source.facts) as membership:
        source.looking.start()
        shared = SharedPool(ostler, membership)
        try:
            await shared.start()
            yield _Joined(membership, reports)
        finally:
            await shared.stop()
            await source.looking.stop()


def _listen(host: str, wanted: int, last: int) -> Listening:
    for port in dict.fromkeys((wanted,) if wanted else (last, 0)):
        try:
            return listen(host, port)
        except OSError as error:
            if wanted or port == 0:
                raise _not_bound(host, port, error) from error
    raise AssertionError("a free port is always tried")


def _not_bound(host: str, port: int, error: OSError) -> OstlerError:
    who = who_listens(port) if port else ""
    by = f" by {who}" if who else ""
    message = f"port {port} is taken{by}" if port else f"{host} cannot be listened on"
    hint = "Choose another --port, or leave it out" if port else ""
    return OstlerError("bad_request", f"{message}: {error.strerror}", hint)


def own_addresses(listening: Listening, options: ServerOptions) -> OwnAddresses:
    """A name that other machines use is ours too, but no browser has to be let in by it."""
    own = addresses_of(listening.addresses, listening.port, options.allowed, options.scheme)
    if options.join is None or not options.join.url:
        return own
    return structs.replace(own, hosts=own.hosts | {origin_of(options.join.url).partition("://")[2]})


def _shown(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[asyncio.Event]:
    """The event is set by the first INT, TERM or HUP; the second one, or the deadline, ends us at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    timers: list[asyncio.TimerHandle] = []

    def stop_or_exit() -> None:
        _log.info("told to stop")
        if stop.is_set():
            os._exit(130)  # the warden ends what still runs
        stop.set()
        timers.append(loop.call_later(DEADLINE, _give_up))

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop_or_exit)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        for timer in timers:
            timer.cancel()


def _give_up() -> None:
    print(f"ostler: the server did not stop within {DEADLINE:.0f} s and was killed", file=sys.stderr, flush=True)
    os._exit(1)


class Serving(Server):
    """uvicorn, without its signal handlers, and with streams that end when the server does."""

    def __init__(self, site: Site, tls: TlsFiles | None) -> None:
        context = server_tls(tls) if tls is not None else None
        super().__init__(
            Config(
                site,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=int(GRACE),
                http=partial(HttpConnection, idle=IdleConnections()),  # type: ignore[arg-type]
                ssl_context_factory=(lambda config, default: context) if context is not None else None,
                **SETTINGS,  # type: ignore[arg-type]
            )
        )
        for name in ("uvicorn.error", "uvicorn.access"):
            logging.getLogger(name).addFilter(_is_news)
        self._site = site
        self.answers = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals belong to the command that runs us

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._site.gateway.drop_all()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def serving(site: Site, listening: Listening, tls: TlsFiles | None = None) -> AsyncIterator["asyncio.Task[None]"]:
    """Answers from here on; at the end nothing of it is left. Yields the task, which ends early only by a fault."""
    server = Serving(site, tls)
    beside = [
        Loop("measuring the event loop", site.metrics.watch_lag),
        Loop("watching logins", partial(_watch_logins, site), longest=_LOGIN_LOOK),
        Loop("sweeping uploads", partial(_sweep, site), longest=_SWEEP),
        Loop("looking after runs of pipelines", site.run_processes.look_after),
        Loop("starting runs of schedules", site.schedules.step),
    ]
    if (queue := site.run_processes.queue) is not None:
        beside.append(Loop("looking at runs of all machines", queue.step, longest=BEAT))
    for loop in beside:
        loop.start()
    running = asyncio.create_task(server.serve(list(listening.sockets)))
    try:
        await _first(running, server.answers)
        yield running
    finally:
        server.should_exit = True
        for loop in beside:
            await loop.stop()
        await site.run_processes.close()
        await running
        if site.front_door is not None:
            site.front_door.close()
        listening.close()


async def _first(running: "asyncio.Task[None]", answers: asyncio.Event) -> None:
    waiting = asyncio.create_task(answers.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _watch_logins(site: Site) -> None:
    """Ends the connections of logins that have expired, and everybody's when there is another key, or none."""
    await asyncio.sleep(_LOGIN_LOOK)
    try:
        site.auth.refresh()
    finally:
        site.gateway.end_logins()


async def _sweep(site: Site) -> None:
    await asyncio.to_thread(site.uploads.sweep)
    await asyncio.sleep(_SWEEP)


def _is_news(record: logging.LogRecord) -> bool:
    """At lower levels every header of a WebSocket is told, tokens among them: never, whatever is set elsewhere."""
    return record.levelno >= logging.WARNING and not any(words in str(record.msg) for words in _PEERS_FAULT)


# What uvicorn logs as an error, the second one with a traceback, and is none of ours.
_PEERS_FAULT = ("without completing", "Invalid UTF-8 sequence")
