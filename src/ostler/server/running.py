"""A server as it runs: started on sockets that are bound already, and stopped within a deadline."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import uvicorn
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.server.app import Site, build
from ostler.server.connection import SETTINGS
from ostler.server.door import door_of
from ostler.server.lock import ServerLock, Serves
from ostler.server.ports import LOOPBACK, Listening, checked_host, listen, who_listens
from ostler.server.problems import log
from ostler.settings import Settings
from ostler.work import Ostler

__all__ = ["Listening", "Plan", "Serving", "listen", "serve", "serving"]

GRACE = 3.0  # seconds for answers under way when the server stops
DEADLINE = 15.0  # seconds after which a server that was told to stop is gone whatever happens
_KEY_LOOK = 1.0
_SWEEP = 3600.0


class Plan(Struct, frozen=True, kw_only=True):
    """What `ostler up` was asked for."""

    folder: str
    host: str = LOOPBACK
    port: int | None = None  # None: the last one if it is free, else any
    expose: bool = False
    allowed: tuple[str, ...] = ()  # further URLs under which we are reached


async def serve(settings: Settings, environ: Mapping[str, str], plan: Plan, ready: Callable[[Serves], None]) -> None:
    """Serves until a signal comes. Raises `bad_request` if the port or the state folder is taken."""
    host = checked_host(plan.host, plan.expose)
    door_of((host,), 0, plan.allowed)  # complains before anything is taken
    lock = ServerLock(settings.home)
    try:
        listening = _listen(host, plan.port or settings.port, lock.last.port if lock.last else 0)
        try:
            lock.write(Serves(pid=os.getpid(), port=listening.port))
            with stopped_by_signals() as stop:
                await _serve(settings, environ, plan, listening, lock, ready, stop)
        finally:
            listening.close()
    finally:
        lock.release()


async def _serve(
    settings: Settings,
    environ: Mapping[str, str],
    plan: Plan,
    listening: Listening,
    lock: ServerLock,
    ready: Callable[[Serves], None],
    stop: asyncio.Event,
) -> None:
    door = door_of(listening.addresses, listening.port, plan.allowed)
    async with Ostler(settings, environ, "up") as ostler:
        site = build(ostler, door, folder=plan.folder)
        async with serving(site, listening) as running:
            url = f"http://{_shown(listening.addresses[0])}:{listening.port}"
            serves = Serves(pid=os.getpid(), port=listening.port, url=url, started_at=time.time())
            lock.write(serves)
            ready(serves)
            ostler.screens.warm()  # the first terminal need not wait for its emulator
            await _first(running, stop)


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


def _shown(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[asyncio.Event]:
    """The event is set by the first INT, TERM or HUP; the second one, or the deadline, ends us at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    timers: list[asyncio.TimerHandle] = []

    def told() -> None:
        if stop.is_set():
            os._exit(130)  # the warden ends what still runs
        stop.set()
        timers.append(loop.call_later(DEADLINE, _give_up))

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, told)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        for timer in timers:
            timer.cancel()


def _give_up() -> None:
    print(f"ostler: the server did not end within {DEADLINE:.0f} s and is ended", file=sys.stderr, flush=True)
    os._exit(1)


class Serving(uvicorn.Server):
    """uvicorn, without its signal handlers, and with streams that end when the server does."""

    def __init__(self, site: Site) -> None:
        super().__init__(
            uvicorn.Config(
                site,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=int(GRACE),
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
        self._site.doorway.drop_all()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def serving(site: Site, listening: Listening) -> AsyncIterator["asyncio.Task[None]"]:
    """Answers from here on; at the end nothing of it is left. Yields the task, which ends early only by a fault."""
    server = Serving(site)
    beside = [asyncio.create_task(each) for each in (site.metrics.watch_lag(), _watch_key(site), _sweep(site))]
    running = asyncio.create_task(server.serve(list(listening.sockets)))
    try:
        await _first(running, server.answers)
        yield running
    finally:
        server.should_exit = True
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await running
        listening.close()


async def _first(running: "asyncio.Task[None]", answers: asyncio.Event) -> None:
    waiting = asyncio.create_task(answers.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _watch_key(site: Site) -> None:
    """Whoever came in by the old key is put out when there is a new one, or none that can be read."""
    while True:
        await asyncio.sleep(_KEY_LOOK)
        try:
            changed = site.people.changed()
        except OstlerError as error:
            changed = True
            log.error("%s", error)
        if changed:
            site.doorway.drop_all()


async def _sweep(site: Site) -> None:
    while True:
        try:
            await asyncio.to_thread(site.uploads.sweep)
        except OSError as error:
            log.error("uploads cannot be swept: %s", error)
        await asyncio.sleep(_SWEEP)


def quiet_logs() -> None:
    """To stderr, and only what somebody should look at: a refused connection is an answer, no fault of ours."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    for name in ("uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _is_news(record: logging.LogRecord) -> bool:
    """At lower levels every header of a WebSocket is told, tokens among them: never, whatever is set elsewhere."""
    return record.levelno >= logging.WARNING and "without completing" not in str(record.msg)
