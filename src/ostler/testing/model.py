"""The scripted model server: four model APIs on loopback, answers by script, every request kept.

    with ScriptedModel(scenario="text") as model:
        ...                                   # point an agent at model.url
        model.wait_for(lambda x: x.began)     # an answer is being streamed
        model.requests[-1].body               # what the agent really sent

    POST …/messages                Anthropic Messages     POST …/responses          OpenAI Responses
    POST …/chat/completions        OpenAI Chat            POST …:generateContent    Gemini, also as a stream
    GET  …/models                  a small list           …/count_tokens, …:countTokens

What it can answer stands in `ostler.testing.answers`.
"""

import json
import os
import select
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ostler.errors import OstlerError
from ostler.testing.answers import ModelAnswer, Rules
from ostler.testing.model_http import ModelHandler
from ostler.testing.wire_requests import text_of

CREDENTIALS = frozenset(
    {"authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "cookie", "openai-api-key"}
)


class Exchange:
    """One request and how far its answer got. Fields change only while it is being answered."""

    def __init__(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> None:
        self.at = time.time()
        self.method = method
        self.path = _without_key(path)
        self.headers = {name: value for name, value in headers.items() if name.lower() not in CREDENTIALS}
        self.credentials = tuple(sorted(name.lower() for name in headers if name.lower() in CREDENTIALS))
        self.body = body
        self.api = ""  # anthropic, responses, chat, gemini; "" for everything else
        self.user = ""  # the newest user text
        self.status = 0
        self.began = False  # the first piece of the answer is on its way
        self.held = False  # it waits for `release`
        self.ended = False
        self.aborted = False  # the client went away before the end

    @property
    def system(self) -> str:
        """The system prompt, in any of the formats."""
        body = self.body if isinstance(self.body, dict) else {}
        gemini = body.get("systemInstruction")
        parts = [text_of(body.get("system")), text_of(body.get("instructions"))]
        parts.append(text_of(gemini.get("parts")) if isinstance(gemini, dict) else text_of(gemini))
        for message in [*_list(body.get("messages")), *_list(body.get("input"))]:
            if isinstance(message, dict) and message.get("role") in ("system", "developer"):
                parts.append(text_of(message.get("content")))
        return "\n".join(part for part in parts if part)

    @property
    def text(self) -> str:
        """The whole body as text: good for `"the first prompt" in exchange.text`."""
        return json.dumps(self.body, ensure_ascii=False)

    def row(self) -> dict[str, Any]:
        return {
            "at": round(self.at, 3),
            "method": self.method,
            "path": self.path,
            "headers": self.headers,
            "body": self.body,
        }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _without_key(path: str) -> str:
    """Gemini clients may put their key into the query."""
    base, _, query = path.partition("?")
    kept = [part for part in query.split("&") if part and not part.lower().startswith(("key=", "api_key="))]
    return base + ("?" + "&".join(kept) if kept else "")


class Gate:
    """An event that `select` can wait for beside a socket. Once open it stays open."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        return self._read

    def open(self) -> None:
        os.write(self._write, b".")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


class ScriptedModel(ThreadingHTTPServer):
    """A model server that plays by script. Listens on 127.0.0.1 from the start; answers from `start`."""

    daemon_threads = False  # server_close waits for every thread
    request_queue_size = 128

    def __init__(
        self, scenario: str = "text", *, port: int = 0, rules: Rules = (), log: str | Path | None = None
    ) -> None:
        self._log = _open_log(log) if log else None
        super().__init__(("127.0.0.1", port), ModelHandler)
        self.scenario = scenario
        self.rules = rules
        self.requests: list[Exchange] = []
        self._changed = threading.Condition()
        self._stopping = Gate()
        self._gates: dict[str, Gate] = {}
        self._connections: set[socket.socket] = set()
        self._failures: dict[str, int] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead agents here, with keys that open nothing."""
        key = "scripted-key-opens-nothing"
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": key,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": key,
            "OPENAI_MODEL": "scripted",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": key,
            "COPILOT_PROVIDER_BASE_URL": f"{self.url}/v1",
            "COPILOT_PROVIDER_API_KEY": key,
            "COPILOT_MODEL": "scripted",
            "COPILOT_OFFLINE": "true",
        }

    @property
    def asked(self) -> list[Exchange]:
        """The requests to a model, without lists, counts and unknown paths."""
        return [exchange for exchange in list(self.requests) if exchange.api]

    # -- life

    def server_bind(self) -> None:
        """Without HTTPServer's search for the host's full name, which may ask a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.port

    def start(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="scripted-model")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Returns once every thread is gone; requests that hang or stream are broken off."""
        if self._stopped:
            return
        self._stopped = True
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self._stopping.open()
        with self._changed:
            connections = list(self._connections)
        for connection in connections:
            _hang_up(connection)
        self.server_close()
        for gate in (self._stopping, *self._gates.values()):
            gate.close()
        if self._log is not None:
            os.close(self._log)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- for tests

    def wait_for(self, predicate: Callable[[Exchange], Any], timeout: float = 30.0) -> Exchange:
        """The first exchange, old or new, for which `predicate` is true. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for exchange in self.requests:
                    if predicate(exchange):
                        return exchange
                left = deadline - time.monotonic()
                if left <= 0:
                    seen = ", ".join(f"{x.method} {x.path}" for x in self.requests) or "none"
                    raise TimeoutError(f"no such request within {timeout} s; seen: {seen}")
                self._changed.wait(left)

    def release(self, name: str = "") -> None:
        """Lets every answer held under `name` go on, now and later."""
        self._gate(name).open()

    # -- for the door

    def note(self, exchange: Exchange, **changes: Any) -> None:
        """Keeps an exchange, or what became of it, and tells who waits."""
        with self._changed:
            for name, value in changes.items():
                setattr(exchange, name, value)
            if not changes:
                self.requests.append(exchange)
                if self._log is not None:
                    os.write(self._log, json.dumps(exchange.row()).encode() + b"\n")
            self._changed.notify_all()

    def pause(self, connection: socket.socket, seconds: float) -> Literal["on", "gone", "stopped"]:
        """Waits, unless the client goes away or the server stops."""
        return self._select(connection, None, seconds)

    def hold(self, connection: socket.socket, name: str) -> Literal["on", "gone", "stopped"]:
        return self._select(connection, self._gate(name), None)

    def still_fails(self, user: str, answer: ModelAnswer) -> bool:
        """Counts the errors given to one text: `error:429:2` fails twice, then answers."""
        with self._changed:
            given = self._failures.get(user, 0)
            self._failures[user] = given + 1
        return answer.times is None or given < answer.times

    def _select(
        self, connection: socket.socket, gate: Gate | None, seconds: float | None
    ) -> Literal["on", "gone", "stopped"]:
        poll = select.poll()
        for watched in (self._stopping, connection, gate):
            if watched is not None:
                poll.register(watched.fileno(), select.POLLIN)
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = {fd for fd, _ in poll.poll(left)}
            if self._stopping.fileno() in ready:
                return "stopped"
            if not ready or (gate is not None and gate.fileno() in ready):
                return "on"
            if not connection.recv(1, socket.MSG_PEEK):
                return "gone"
            poll.unregister(connection.fileno())  # it sent more (a pipelined request): that can wait

    def _gate(self, name: str) -> Gate:
        with self._changed:
            if name not in self._gates:
                self._gates[name] = Gate()
            return self._gates[name]

    # -- connections: `stop` must be able to break off each of them

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handle_error(request, client_address)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is gone already


def _open_log(path: str | Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def serve(
    port: int = 0,
    scenario: str = "text",
    log: str | Path | None = None,
    *,
    rules: Rules = (),
    ready: Callable[[ScriptedModel], None] | None = None,
) -> None:
    """Serves until KeyboardInterrupt; `ready` is called once it listens. Raises OstlerError if it cannot."""
    try:
        model = ScriptedModel(scenario, port=port, rules=rules, log=log)
    except OSError as error:
        what = f"the log {log}" if error.filename else f"port {port} of 127.0.0.1"
        raise OstlerError("bad_request", f"cannot use {what}: {error.strerror}", "Choose another one") from error
    with model:
        try:
            if ready is not None:
                ready(model)
            threading.Event().wait()
        except KeyboardInterrupt:
            pass  # that is how it is ended
