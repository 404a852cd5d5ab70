"""The application: every route, what handlers are given, and the gateway around it all."""

import os
from typing import Any

from ostler import clock
from ostler.machines.membership import Membership
from ostler.server.auth import Authenticator
from ostler.server.front_door import FrontDoor
from ostler.server.gateway import HOOKS, Gateway, OwnAddresses
from ostler.server.hooks import take_hook
from ostler.server.live import Live
from ostler.server.live_socket import live_sockets
from ostler.server.metrics import Metrics
from ostler.server.pages import Pages
from ostler.server.remote_sessions import RemoteSessions
from ostler.server.responses import Receive, Scope, Send
from ostler.server.routes_agents import AgentReports, agents
from ostler.server.routes_asks import asks
from ostler.server.routes_events import events
from ostler.server.routes_machines import machines
from ostler.server.routes_meta import About, choices, login_routes, server_routes
from ostler.server.routes_pipelines import pipelines
from ostler.server.routes_queue import queue
from ostler.server.routes_sessions import sessions
from ostler.server.routes_terminals import terminals
from ostler.server.routes_turns import turns
from ostler.server.routing import Route, Router
from ostler.server.run_processes import RunProcesses
from ostler.server.schedules import Schedules
from ostler.server.sockets import sockets
from ostler.server.uploads import Uploads
from ostler.work import Ostler

_GROUPS = (
    login_routes,
    server_routes,
    choices,
    agents,
    sessions,
    turns,
    queue,
    pipelines,
    machines,
    asks,
    events,
    terminals,
    sockets,
    live_sockets,
)
ROUTES: tuple[Route, ...] = tuple(route for group in _GROUPS for route in group.all)


class Site:
    """The ASGI application that a server serves, and what the one who serves it has to reach."""

    def __init__(self, gateway: Gateway, provided: dict[str, Any]) -> None:
        self.gateway = gateway
        self.auth: Authenticator = provided["auth"]
        self.metrics: Metrics = provided["metrics"]
        self.uploads: Uploads = provided["uploads"]
        self.live: Live = provided["watcher"]
        self.run_processes: RunProcesses = provided["run_processes"]
        self.front_door: FrontDoor | None = provided["front_door"]  # of a machine that has joined others
        self.schedules = Schedules(provided["ostler"], self.run_processes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.gateway(scope, receive, send)


def build(
    ostler: Ostler,
    own: OwnAddresses,
    *,
    folder: str | None = None,
    pages: Pages | None = None,
    terminal_commands: frozenset[str] | None = None,
    membership: Membership | None = None,
    reports: AgentReports | None = None,
) -> Site:
    """`terminal_commands`: the only programs that a terminal may run; None allows all. `membership`: among machines."""
    auth = Authenticator(ostler.store.folder, ostler.store)
    pages = pages or Pages()
    metrics = Metrics(ostler)
    provided: dict[str, Any] = {
        "ostler": ostler,
        "auth": auth,
        "metrics": metrics,
        "about": About(started_at=clock.now(), folder=folder or os.getcwd(), own=own),
        "uploads": Uploads(ostler.store.folder),
        "watcher": Live(ostler),
        "reports": reports or AgentReports(ostler),
        "membership": membership,
        "terminal_commands": terminal_commands,
        "run_processes": RunProcesses(ostler, membership),
        "routes": ROUTES,
    }
    front_door = FrontDoor(ostler, membership, provided["uploads"]) if membership is not None else None
    remote_sessions = RemoteSessions(front_door) if front_door is not None else None
    provided["watcher"].remote_sessions = remote_sessions
    provided |= {"front_door": front_door, "remote_sessions": remote_sessions}
    auth.membership = membership
    router = Router(ROUTES, provided)

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == HOOKS:
            await take_hook(ostler.callbacks, scope, receive, send)
            return
        shown = scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and pages.has(scope["path"])
        if front_door is None or shown:
            await (pages if shown else router)(scope, receive, send)
        else:
            await front_door(scope, receive, send, lambda receive: router(scope, receive, send))

    gateway = Gateway(routed, own, auth, pages.has, metrics.request)
    metrics.staying = gateway.staying
    return Site(gateway, provided)
