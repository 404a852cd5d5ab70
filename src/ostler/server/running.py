"""A server as it runs: started on sockets that are bound already, and stopped within a deadline."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn

from ostler.server.app import Site
from ostler.server.connection import SETTINGS
from ostler.server.ports import Listening, listen

__all__ = ["Listening", "Serving", "listen", "serving"]

GRACE = 3.0  # seconds for answers under way when the server stops
_KEY_LOOK = 1.0


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
    beside = [asyncio.create_task(site.metrics.watch_lag()), asyncio.create_task(_watch_key(site))]
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
    """Whoever came in by the old key is put out when there is a new one."""
    while True:
        await asyncio.sleep(_KEY_LOOK)
        if site.people.changed():
            site.doorway.drop_all()


def quiet_logs() -> None:
    """Only what somebody should look at. Refused connections are an answer, not an error of ours."""
    for name in ("uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return "without completing" not in str(record.msg)


def told_to(stream: Any) -> None:
    """Log lines go to this stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
