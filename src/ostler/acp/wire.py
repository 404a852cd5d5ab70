"""JSON-RPC over two descriptors, one object a line, both sides asking: bounded, in order, never a stray byte."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from ostler.acp.errors import CANCELLED, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, AcpError, refusal_of
from ostler.agents import decode
from ostler.errors import OstlerError, internal_error
from ostler.process import LineFramer, chunks
from ostler.process.pipes import Feed
from ostler.terminal.safe import one_line

FRAME_LIMIT = 64 << 20
IN_FLIGHT = 256  # requests at work at a time
LEAVING = 20.0  # seconds that requests at work have to end once the client is gone
_encode = msgspec.json.Encoder().encode
_ID = re.compile(rb'^\s*\{[^{}\[\]]*?"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,100}")')

RpcId = int | str | None

_log = logging.getLogger(__name__)


class Served(Protocol):
    """Who answers."""

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result. Raises AcpError or OstlerError."""

    async def answered(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        """The client has this result: what it could not understand before may be told now."""

    async def notified(self, method: str, params: dict[str, Any]) -> None: ...

    async def cancel(self, method: str, params: dict[str, Any]) -> bool:
        """The client no longer wants this request. False: it may simply be broken off."""

    async def leave(self) -> None:
        """The client is gone: whatever is at work is to end soon."""


class _Work:
    """A request of theirs at work."""

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        self.method, self.params = method, params
        self.task: asyncio.Task[None] | None = None


class AcpConnection:
    """One connection. `run` reads until the client is gone; the descriptors stay open, and block again after it."""

    def __init__(self, source: int, sink: int, log: Callable[[str], None] = lambda line: None) -> None:
        self._source, self._sink, self._log = source, sink, log
        self._feed: Feed | None = None
        self._served: Served | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}  # our requests that wait for an answer
        self._at_work: dict[tuple[type, RpcId], _Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()  # nobody reads what we write

    # -- what we say

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Returns once it is written: a slow reader holds us back, and costs no memory."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """The client's result. Raises AcpError for its error, undelivered if it is gone. On cancel it is told so."""
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            if self._gone.is_set():
                raise gone()
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled() or not answer.done():
                await self._send(_notification("$/cancel_request", {"requestId": number}))
            raise
        finally:
            del self._asked[number]

    async def _send(self, frame: dict[str, Any]) -> None:
        assert self._feed is not None
        try:
            await self._feed.write(_line(frame))
        except OstlerError:
            self.stop()

    # -- what they say

    async def run(self, served: Served) -> None:
        """Serves until the client closes its end or reads no more; then all that is at work is ended."""
        self._served, self._feed = served, Feed(self._sink, borrowed=True)
        blocking = [(fd, os.get_blocking(fd)) for fd in (self._source, self._sink)]
        for fd, _ in blocking:
            os.set_blocking(fd, False)
        reading = asyncio.create_task(self._read())
        gone = asyncio.create_task(self._gone.wait())
        try:
            await asyncio.wait((reading, gone), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            await _end([reading, gone])
            await self._leave()
            for fd, was in blocking:
                with contextlib.suppress(OSError):  # it was closed, and needs nothing
                    os.set_blocking(fd, was)

    def stop(self) -> None:
        """As if the client were gone."""
        self._gone.set()

    async def _read(self) -> None:
        framer = LineFramer(cap=FRAME_LIMIT)
        async for chunk in chunks(self._source):
            for line in framer.feed(chunk):
                await self._handle_line(line.data, line.cut)
        for line in framer.close():
            await self._handle_line(line.data, line.cut)

    async def _handle_line(self, line: bytes, cut: bool) -> None:
        """Each frame gets a task; tasks begin in the order of the frames, so none overtakes another."""
        if cut:
            await self._too_large(line)
            return
        frame = decode(line)
        if not isinstance(frame, dict):
            if line.strip():
                self._log(f"not a message: {one_line(line[:200].decode(errors='replace'))}")
                await self._send(_error(None, _not_a_message(frame, line)))
        elif not isinstance(method := frame.get("method"), str):
            if "method" in frame or not {"result", "error"} & frame.keys():
                await self._invalid(frame)
            else:
                self._answered(frame)
        elif "id" in frame:
            await self._begin(frame["id"], method, frame.get("params"))
        else:
            self._own(self._notified(method, frame.get("params")))

    async def _invalid(self, frame: dict[str, Any]) -> None:
        """Neither a request nor an answer. An answer that we do not understand gets none: that could go on for ever."""
        self._log(f"neither a request nor an answer: {str(frame)[:200]}")
        id = frame.get("id")
        known = isinstance(id, int | str) and not isinstance(id, bool)
        refused = AcpError(INVALID_REQUEST, "a request needs the name of a method")
        await self._send(_error(id if known else None, refused))

    async def _too_large(self, beginning: bytes) -> None:
        """Its id can be known where it comes first, as it usually does: whoever waits for the answer gets one."""
        self._log(f"a message of more than {FRAME_LIMIT >> 20} MiB was dropped")
        if found := _ID.match(beginning):
            refused = AcpError(INVALID_REQUEST, f"the message is larger than {FRAME_LIMIT >> 20} MiB")
            await self._send(_error(decode(found[1]), refused))

    def _answered(self, frame: dict[str, Any]) -> None:
        number = frame.get("id")
        answer = self._asked.get(number) if isinstance(number, int) and not isinstance(number, bool) else None
        if answer is None or answer.done():
            self._log(f"an answer to an unknown request: {str(frame)[:200]}")
        elif "result" in frame:
            answer.set_result(frame["result"])
        else:
            error = frame.get("error")
            problem = error if isinstance(error, dict) else {}
            code, message = problem.get("code"), problem.get("message")
            refused = AcpError(code if isinstance(code, int) else INVALID_REQUEST, str(message or "refused"))
            answer.set_exception(refused)

    async def _begin(self, id: Any, method: str, params: Any) -> None:
        key = (type(id), id) if isinstance(id, int | str | None) and not isinstance(id, bool) else None
        wrong = None
        if key is None or key in self._at_work:
            wrong = AcpError(INVALID_REQUEST, "the id of a request must be a number, a string or null, and unique")
        elif not isinstance(params, dict | None):
            wrong = AcpError(INVALID_PARAMS, "params must be an object")
        elif len(self._at_work) >= IN_FLIGHT:
            wrong = AcpError(INVALID_REQUEST, f"{IN_FLIGHT} requests are already in progress")
        if wrong is not None:
            await self._send(_error(id if key is not None else None, wrong))
            return
        assert key is not None
        _log.debug("the client asks for %s", one_line(method))
        work = self._at_work[key] = _Work(method, params or {})
        work.task = self._own(self._serve(key, work))

    async def _serve(self, key: tuple[type, RpcId], work: _Work) -> None:
        assert self._served is not None
        result = None
        try:
            result = await self._served.request(work.method, work.params)
            answer = _result(key[1], result)
        except Exception as error:  # whatever it is: a request is answered exactly once
            fault = None if isinstance(error, OstlerError | AcpError) else error
            _log.log(logging.ERROR if fault else logging.DEBUG, "%s failed: %s", work.method, error, exc_info=fault)
            answer = _error(key[1], refusal_of(error))
        except asyncio.CancelledError:
            answer = _error(key[1], AcpError(CANCELLED, "cancelled"))
        finally:
            del self._at_work[key]
        await self._send(answer)
        if result is not None:
            await self._served.answered(work.method, work.params, result)

    async def _notified(self, method: str, params: Any) -> None:
        assert self._served is not None
        fields = params if isinstance(params, dict) else {}
        try:
            if method == "$/cancel_request":
                await self._cancel(fields.get("requestId", fields.get("id")))
            else:
                await self._served.notified(method, fields)
        except (OstlerError, AcpError) as error:
            self._log(f"{method}: {error}")

    async def _cancel(self, id: Any) -> None:
        assert self._served is not None
        work = self._at_work.get((type(id), id)) if isinstance(id, int | str | None) else None
        if work is None or work.task is None:
            return  # it was answered already
        if not await self._served.cancel(work.method, work.params):
            work.task.cancel()

    def _own(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log(internal_error(error))

    async def _leave(self) -> None:
        """Everything at work ends: by itself where it can, else it is broken off."""
        assert self._served is not None and self._feed is not None
        self._gone.set()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(gone())
        await self._served.leave()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LEAVING)
        self._feed.close()  # who waits for a reader that does not read waits no longer
        await _end(list(self._tasks))


async def _end(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _not_a_message(frame: Any, line: bytes) -> AcpError:
    if frame is None and line.strip() != b"null":
        return AcpError(PARSE_ERROR, "this is not JSON")
    if isinstance(frame, list):
        return AcpError(INVALID_REQUEST, "batches are not supported: send one message per line")
    return AcpError(INVALID_REQUEST, "a message must be an object")


def gone() -> OstlerError:
    return OstlerError("undelivered", "the client is gone")


def _line(frame: dict[str, Any]) -> bytes:
    try:
        return _encode(frame) + b"\n"
    except (UnicodeError, TypeError, msgspec.EncodeError):
        return json.dumps(frame, default=str).encode("ascii", "replace") + b"\n"


def _result(id: RpcId, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(id: RpcId, refused: AcpError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": refused.as_record()}


def _notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}
