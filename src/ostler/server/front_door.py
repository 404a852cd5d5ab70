"""The front door: what is asked of this server and lies on another machine is passed on to it.

A token that is signed for that machine says who asks, with which rights: they hold there as they do here. What another
machine has passed on is never passed on again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from ostler.errors import ErrorKind, OstlerError
from ostler.machines.membership import Membership, SeenMachine
from ostler.server.addressing import address_of, named_machine, session_in_query, target_of
from ostler.server.auth import Person
from ostler.server.machine_client import NETWORK_ERRORS, MachineAnswer, MachineClient, no_body
from ostler.server.machine_finder import MachineFinder
from ostler.server.machine_sockets import pass_socket_on
from ostler.server.request_body import replayed
from ostler.server.responses import Pairs, Receive, Scope, Send
from ostler.server.session_placement import SessionPlacer
from ostler.server.uploads import Uploads
from ostler.work import Ostler

_ASKED = (b"accept", b"content-type", b"content-length", b"idempotency-key", b"last-event-id")
_ANSWERED = (b"content-type", b"content-length", b"content-disposition", b"retry-after", b"allow", b"x-accel-buffering")
_SECONDS = 5.0  # for what is asked on the way
PASSED = "passed"  # the route by which such a request is counted here; the other machine counts it by its own


class PassedRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request goes."""

    machine: SeenMachine
    path: str
    query: str


class PassedRequest(NamedTuple):
    """What is asked of the other machine."""

    method: str
    headers: Pairs
    receive: Receive
    sent: asyncio.Event  # set when all of the body was read

    async def body(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self.receive()
            more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]
        self.sent.set()


class FrontDoor:
    def __init__(self, ostler: Ostler, membership: Membership, uploads: Uploads) -> None:
        self.membership = membership
        self._uploads = uploads
        self._clients: dict[str, MachineClient] = {}  # by address
        self._finder = MachineFinder(ostler, membership, self.get)
        self._placer = SessionPlacer(ostler, membership)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, here: Callable[[Receive], Awaitable[None]]
    ) -> None:
        """Passes it on, or has it answered `here`. Raises what keeps it from being passed on."""
        person: Person | None = scope["state"].get("person")
        if person is None or person.via:
            await here(receive)
            return
        await self.membership.fresh()
        route, receive = await self._route(scope, receive, person)
        if route is None:
            await here(receive)
            return
        scope["path_template"] = PASSED
        if scope["type"] == "websocket":
            await self._pass_socket(route, person, receive, send)
        else:
            await self._pass_http(route, person, scope, receive, send)

    # -- where it goes

    async def _route(self, scope: Scope, receive: Receive, person: Person) -> tuple[PassedRoute | None, Receive]:
        path, query = scope["path"], scope["query_string"].decode("latin-1")
        name, rest = named_machine(path, query)
        is_new = scope.get("method") == "POST" and path.rstrip("/") == "/api/sessions"
        if name:
            named = self._finder.named(name)
            if named.state == "draining" and is_new:
                raise OstlerError(
                    "busy", f"machine {name} is draining and accepts no new sessions", "Choose another: ostler machines"
                )
            return self._to(named, path, rest), receive
        if is_new:
            return await self._placed(scope, receive)
        if (address := address_of(path)) is not None:
            key, machine = await self._finder.find(address.kind, address.key, person)
            return self._to(machine, address.with_key(key), query), receive
        session = session_in_query(path, query)
        if not session and scope["type"] == "http" and scope["method"] == "POST" and path == "/api/terminals":
            body, receive = await _read(receive)
            session = _session_in(body)
        if not session:
            return None, receive
        _, machine = await self._finder.find("session", session, person)
        return self._to(machine, path, query), receive

    async def _placed(self, scope: Scope, receive: Receive) -> tuple[PassedRoute | None, Receive]:
        """A new session: where its body says, else here."""
        body, receive = await _read(receive)
        if (found := self._placer.place(body)) is None:
            return None, receive
        machine, body = found
        scope["headers"] = _with_length(scope["headers"], len(body))
        return self._to(machine, scope["path"], ""), replayed(body, receive)

    def _to(self, machine: SeenMachine | None, path: str, query: str) -> PassedRoute | None:
        """None: it is here. Raises crashed or not_found for a machine that does not answer."""
        if machine is None or machine.id == self.membership.id:
            return None
        check_answers(machine)
        return PassedRoute(machine=machine, path=path, query=query)

    async def find_session(self, key: str, person: Person) -> tuple[str, SeenMachine | None]:
        """A session as it is called on its machine, and that machine; None: it is to be looked for here."""
        return await self._finder.find("session", key, person)

    # -- HTTP

    async def _pass_http(self, route: PassedRoute, person: Person, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and route.path.endswith("/turns"):
            body, receive = await _read(receive)
            body = await self._with_uploads(body, route.machine, person)
            receive = replayed(body, receive)
            scope["headers"] = _with_length(scope["headers"], len(body))
        sent = asyncio.Event()
        asked = PassedRequest(scope["method"], _passed_headers(scope), receive, sent)
        work = asyncio.create_task(self._exchange(route, person, asked, send))
        lost = asyncio.create_task(self.membership.until_lost(route.machine.id))
        left = asyncio.create_task(_left(receive, sent))
        try:
            await asyncio.wait({work, lost, left}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            elif lost.done():
                raise unreachable(route.machine, "it no longer answers")
        finally:
            for task in (work, lost, left):
                task.cancel()
            await asyncio.gather(work, lost, left, return_exceptions=True)

    async def _exchange(self, route: PassedRoute, person: Person, asked: "PassedRequest", send: Send) -> None:
        machine, target = route.machine, target_of(route.path, route.query)
        async with await self.ask(machine, person, asked.method, target, asked.headers, asked.body()) as answer:
            headers = [pair for pair in answer.headers if pair[0] in _ANSWERED]
            headers.append((b"ostler-machine", quote(machine.name).encode()))
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            async for data in _chunks(machine, answer):
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def ask(
        self,
        machine: SeenMachine,
        person: Person,
        method: str,
        target: str,
        headers: Pairs,
        body: AsyncIterator[bytes] | None = None,
    ) -> MachineAnswer:
        """The answer of another machine, from its first line on. Raises crashed if it cannot be reached."""
        token = self.membership.sign_for(machine, person.id, person.name, person.rights)
        signed: Pairs = [(b"authorization", f"Bearer {token}".encode()), *headers]
        try:
            answer = await self._client(machine).request(method, target, signed, body or no_body())
        except NETWORK_ERRORS as error:
            raise unreachable(machine, str(error) or "no answer") from error
        if answer.status == 401:  # it does not know us; whoever asked is logged in here
            await answer.__aexit__()
            raise unreachable(machine, "it rejected this machine's token")
        return answer

    async def get(self, machine: SeenMachine, person: Person, target: str) -> tuple[int, bytes]:
        """A whole answer, soon. Raises crashed."""
        try:
            async with asyncio.timeout(_SECONDS):
                async with await self.ask(machine, person, "GET", target, []) as answer:
                    return answer.status, await answer.body()
        except NETWORK_ERRORS as error:
            raise unreachable(machine, str(error) or "it did not answer in time") from error

    def _client(self, machine: SeenMachine) -> MachineClient:
        url = machine.row.url
        if url not in self._clients:
            self._clients[url] = MachineClient(url, self.membership.ca)
        return self._clients[url]

    # -- uploads go where the turn goes

    async def _with_uploads(self, body: bytes, machine: SeenMachine, person: Person) -> bytes:
        """The body of a new turn, with what was uploaded here handed over first."""
        try:
            turn = msgspec.json.decode(body)
            asked = [each for each in turn["attachments"] if each.get("upload")]
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
            return body  # nothing of it was uploaded, or the machine says what is wrong with it
        for each in asked:
            each["upload"] = await self._hand_over(each["upload"], machine, person)
        return msgspec.json.encode(turn) if asked else body

    async def _hand_over(self, id: Any, machine: SeenMachine, person: Person) -> Any:
        try:
            path = self._uploads.path(str(id))
        except OstlerError:
            return id  # uploaded there, or nowhere: the machine knows
        data = await asyncio.to_thread(path.read_bytes)
        headers = [(b"content-type", b"application/octet-stream"), (b"content-length", b"%d" % len(data))]
        target = target_of(f"/api/uploads/{path.name}", "")
        async with await self.ask(machine, person, "PUT", target, headers, _once(data)) as answer:
            said = await answer.body()
            if answer.status != 201:
                raise unreachable(machine, f"it rejected the upload ({answer.status})")
            return msgspec.json.decode(said)["upload"]

    # -- WebSockets

    async def _pass_socket(self, route: PassedRoute, person: Person, receive: Receive, send: Send) -> None:
        machine = route.machine
        token = self.membership.sign_for(machine, person.id, person.name, person.rights)
        url = f"{machine.row.url.rstrip('/')}{target_of(route.path, route.query)}"
        work = asyncio.create_task(pass_socket_on(url, token, machine.name, self.membership.ca, receive, send))
        lost = asyncio.create_task(self.membership.until_lost(machine.id))
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            else:
                raise unreachable(machine, "it no longer answers")
        finally:
            for task in (work, lost):
                task.cancel()
            await asyncio.gather(work, lost, return_exceptions=True)


# -- what is said -------------------------------------------------------------------------------------


class MachineAway(OstlerError):
    """What was asked for is on a machine that does not answer: `crashed`, or `not_found` for one that is gone."""

    def __init__(self, kind: ErrorKind, machine: SeenMachine, message: str, hint: str) -> None:
        super().__init__(kind, message, hint)
        self.machine = machine.name


def unreachable(machine: SeenMachine, why: str) -> MachineAway:
    hint = "Try again when it is back (ostler machines), or start over elsewhere: ostler run --on any"
    return MachineAway("crashed", machine, f"machine {machine.name} cannot be reached: {why}", hint)


def check_answers(machine: SeenMachine) -> None:
    """Raises MachineAway for a machine that is unreachable or gone."""
    if machine.state == "gone":
        hint = (
            "It resumes when that machine is back (ostler up --join, there). Start over elsewhere: ostler run --on any"
        )
        raise MachineAway("not_found", machine, f"it is on machine {machine.name}, which is gone", hint)
    if not machine.answers:
        raise unreachable(machine, "it has not been heard from for some time")


# -- bodies -------------------------------------------------------------------------------------------


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """The whole body, which the gateway has bounded, and a way to read it again."""
    whole, more = bytearray(), True
    while more:
        message = await receive()
        whole += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(whole), replayed(bytes(whole), receive)


def _with_length(headers: Pairs, length: int) -> Pairs:
    return [*(pair for pair in headers if pair[0].lower() != b"content-length"), (b"content-length", b"%d" % length)]


def _passed_headers(scope: Scope) -> Pairs:
    """Those that another machine may know, and how long the body is."""
    given = {name.lower(): value for name, value in scope["headers"]}
    headers = [(name, given[name]) for name in _ASKED if name in given]
    if b"content-length" in given or scope["method"] in ("GET", "HEAD"):
        return headers
    chunked = b"transfer-encoding" in given
    return [*headers, (b"transfer-encoding", b"chunked") if chunked else (b"content-length", b"0")]


async def _chunks(machine: SeenMachine, answer: MachineAnswer) -> AsyncIterator[bytes]:
    try:
        async for data in answer.chunks():
            yield data
    except NETWORK_ERRORS as error:
        raise unreachable(machine, str(error) or "its answer was cut off") from error


def _session_in(body: bytes) -> str:
    try:
        session = msgspec.json.decode(body)["session"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""  # the route says what is wrong with it
    return session if isinstance(session, str) else ""


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _left(receive: Receive, sent: asyncio.Event) -> None:
    """Waits until whoever asked has gone; the body is somebody else's to read."""
    await sent.wait()
    while (await receive())["type"] != "http.disconnect":
        pass
