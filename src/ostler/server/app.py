"""The application: every router by name, what handlers are given, and the door around it all."""

import os
import time
import warnings
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.exceptions import LitestarDeprecationWarning
from litestar.openapi import OpenAPIConfig

import ostler as package
from ostler.server.answer import Receive, Scope, Send
from ostler.server.bodies import JsonRequest
from ostler.server.door import Door, Doorway
from ostler.server.live import Live
from ostler.server.metrics import Metrics
from ostler.server.pages import Pages
from ostler.server.people import People, Person
from ostler.server.problems import on_error
from ostler.server.routes_agents import AgentReports, agents
from ostler.server.routes_asks import asks
from ostler.server.routes_events import events
from ostler.server.routes_meta import About, meta
from ostler.server.routes_sessions import sessions
from ostler.server.routes_terminals import terminals
from ostler.server.routes_turns import turns
from ostler.server.sockets import sockets
from ostler.server.uploads import Uploads
from ostler.work import Ostler

ROUTERS: tuple[Router, ...] = (
    meta,
    agents,
    sessions,
    turns,
    asks,
    events,
    terminals,
    sockets,
)  # fmt: skip


class Site:
    """The ASGI application that a server serves, and what the one who serves it has to reach."""

    def __init__(self, doorway: Doorway, inside: Litestar, people: People, metrics: Metrics, uploads: Uploads) -> None:
        self.doorway, self.inside, self.people = doorway, inside, people
        self.metrics, self.uploads = metrics, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.doorway(scope, receive, send)


def build(
    ostler: Ostler,
    door: Door,
    *,
    folder: str | None = None,
    pages: Pages | None = None,
    terminal_commands: frozenset[str] | None = None,
) -> Site:
    """`terminal_commands`: the only programs that a terminal may run; None allows all."""
    people = People(ostler.store.folder, ostler.store)
    pages = pages or Pages()
    metrics = Metrics(ostler)
    uploads = Uploads(ostler.store.folder)
    about = About(started_at=time.time(), folder=folder or os.getcwd(), door=door)
    inside = litestar_of(
        ostler=ostler,
        people=people,
        metrics=metrics,
        about=about,
        uploads=uploads,
        watcher=Live(ostler),
        reports=AgentReports(ostler),
        terminal_commands=terminal_commands,
    )

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        shown = scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and pages.has(scope["path"])
        await (pages if shown else inside)(scope, receive, send)  # type: ignore[arg-type]

    doorway = Doorway(routed, door, people, pages.has, metrics.request)
    metrics.staying = doorway.staying
    return Site(doorway, inside, people, metrics, uploads)


def litestar_of(**given: Any) -> Litestar:
    """The routes, with what their handlers may ask for by name."""
    constants = {name: Provide(_giver(value), sync_to_thread=False) for name, value in given.items()}
    with warnings.catch_warnings():
        # Some hundred of them at every start: names that say where they come from are wanted by version 3.
        warnings.simplefilter("ignore", LitestarDeprecationWarning)
        return Litestar(
            route_handlers=list(ROUTERS),
            dependencies={**constants, "person": Provide(_person, sync_to_thread=False)},
            request_class=JsonRequest,
            exception_handlers={Exception: on_error},
            after_exception=[_remember],
            openapi_config=OpenAPIConfig(
                title="ostler",
                version=package.__version__,
                use_handler_docstrings=True,
                openapi_router=_Unlisted("/", route_handlers=[]),
            ),
            request_max_body_size=None,  # the door has limits of its own
            logging_config=None,
            debug=False,
        )


class _Unlisted(Router):
    """The framework would add pages that load scripts from elsewhere; we serve openapi.json alone."""

    def register(self, value: Any) -> list[Any]:
        return []


def _giver(value: Any) -> Any:
    return lambda: value


def _person(scope: Any) -> Person:
    person: Person = scope["state"]["person"]
    return person


async def _remember(error: Exception, scope: Any) -> None:
    """A WebSocket that is not accepted is told the error as an answer (see answer.py)."""
    scope["state"]["error"] = error
