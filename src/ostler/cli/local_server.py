"""The server of this state folder, asked by other ostler processes of the same user."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from ostler.errors import OstlerError

if TYPE_CHECKING:
    from ostler.machines.event_stream import ServerEvent
    from ostler.server.machine_client import MachineAnswer, MachineClient

_TOKEN_SECONDS = 86400.0  # a stream ends with the token that it was asked for with
_JSON = b"application/json"


class ServerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`machine`: the one that answered; "": this one."""

    body: bytes
    machine: str = ""


class LocalServer:
    """It is asked as an admin. Errors are those that it tells; it may be started again in between."""

    def __init__(self, home: str, needed_by: str) -> None:
        """`needed_by`: what people are told needs it, where none runs."""
        self._home, self._needed_by = home, needed_by
        self._client: MachineClient | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    async def ask(self, method: str, target: str, body: Any = None) -> Any:
        """What it answers. Raises what it says is wrong, and not_found where no server runs."""
        said = (await self.send(method, target, body)).body
        return msgspec.json.decode(said) if said else None

    async def send(self, method: str, target: str, body: Any = None, key: str = "") -> ServerAnswer:
        """`key`: the same request with the same key is carried out once."""
        data = b"" if body is None else msgspec.json.encode(body)
        async with await self.request(method, target, data, _JSON, key) as answer:
            try:
                said = await answer.body()
            except _network_errors() as error:
                raise self._lost(error) from error
            if answer.status >= 400:
                raise problem_of(said)
            name = dict(answer.headers).get(b"ostler-machine", b"")
            return ServerAnswer(body=said, machine=unquote(name.decode("latin-1")))

    async def request(
        self, method: str, target: str, data: bytes = b"", type: bytes = b"", key: str = ""
    ) -> "MachineAnswer":
        headers = [*self._headers(), (b"content-length", b"%d" % len(data))]
        headers += [(b"content-type", type)] if data else []
        headers += [(b"idempotency-key", key.encode())] if key else []
        try:
            return await self._connected().request(method, target, headers, _once(data))
        except _network_errors() as error:
            raise self._lost(error) from error

    async def stream(self, target: str) -> "AsyncIterator[ServerEvent]":
        """The events of an event stream."""
        from ostler.machines.event_stream import events_of, whole_frames

        headers = [*self._headers(), (b"accept", b"text/event-stream")]
        try:
            async with await self._connected().request("GET", target, headers, _once(b"")) as answer:
                if answer.status >= 400:
                    raise problem_of(await answer.body())
                rest = b""
                async for data in answer.chunks():
                    whole, rest = whole_frames(rest + data)
                    for event in events_of(whole):
                        yield event
        except _network_errors() as error:
            raise self._lost(error) from error

    def _headers(self) -> list[tuple[bytes, bytes]]:
        from ostler.cli.user import user_name
        from ostler.server.auth import Authenticator

        token = Authenticator(self._home).sign("bearer", "admin", user_name(), _TOKEN_SECONDS)
        return [(b"authorization", f"Bearer {token}".encode())]

    def _connected(self) -> "MachineClient":
        from ostler.server.lock import who_serves
        from ostler.server.machine_client import MachineClient

        if self._client is None:
            serves = who_serves(self._home)
            if serves is None or not serves.url:
                hint = "Start one that has joined the others: ostler up --join URL"
                what = f"{self._needed_by} needs a server on this machine, and none is running"
                raise OstlerError("not_found", what, hint)
            self._client = MachineClient(serves.url, fingerprint=serves.fingerprint)
        return self._client

    def _lost(self, error: Exception) -> OstlerError:
        """The next request looks again where it is."""
        self.close()
        return OstlerError("crashed", f"the server of this machine does not answer: {error}")


def problem_of(body: bytes) -> OstlerError:
    """What the server says is wrong."""
    from ostler.server.problems import ProblemAnswer

    try:
        problem = msgspec.json.decode(body, type=ProblemAnswer)
    except msgspec.MsgspecError:
        return OstlerError("crashed", "the server's answer cannot be understood")
    return OstlerError(problem.kind, problem.detail, problem.hint, problem.retry_at)


def _network_errors() -> tuple[type[Exception], ...]:
    from ostler.server.machine_client import NETWORK_ERRORS

    return NETWORK_ERRORS


async def _once(data: bytes) -> AsyncIterator[bytes]:
    if data:
        yield data
