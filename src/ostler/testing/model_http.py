"""The HTTP side of the scripted model: bodies in, JSON or event streams out."""

import gzip
import json
import re
import socket
import zlib
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from ostler.testing.answers import FINAL, ModelAnswer, ModelRequest, decide
from ostler.testing.wires import INPUT, Wire, wire_of

if TYPE_CHECKING:
    from ostler.testing.model import Exchange, ScriptedModel

CUT_AFTER, BROKEN_PIECE = 5, 3
MODEL = {
    "id": "scripted",
    "object": "model",
    "owned_by": "ostler",
    "type": "model",
    "display_name": "Scripted",
    "created_at": "2025-01-01T00:00:00Z",
}


class Stopped(Exception):
    """The client went away or the server stops: nothing more is to be said on this connection."""


class ModelHandler(BaseHTTPRequestHandler):
    """One connection to the scripted model."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a delayed acknowledgement would cost 40 ms a request
    server: "ScriptedModel"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the requests are kept by the server."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        exchange = self._kept(None)
        if self._path.rstrip("/").endswith("/models"):
            self._json(exchange, 200, {"object": "list", "models": [], "data": [MODEL]})
        else:
            self._json(exchange, 404, _unknown(self._path))

    def do_POST(self) -> None:
        raw = self._body()
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {"unreadable": raw[:200].decode("utf-8", "replace")}
        exchange = self._kept(body)
        wire = wire_of(self._path)
        if self._path.endswith("/count_tokens"):
            self._json(exchange, 200, {"input_tokens": INPUT})
        elif self._path.endswith(":countTokens"):
            self._json(exchange, 200, {"totalTokens": INPUT})
        elif wire is None or not isinstance(body, dict):
            self._json(exchange, 404 if wire is None else 400, _unknown(self._path))
        else:
            self._guarded(exchange, wire, body)

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _kept(self, body: Any) -> "Exchange":
        from ostler.testing.model import Exchange

        exchange = Exchange(self.command, self.path, dict(self.headers.items()), body)
        if isinstance(body, dict) and (wire := wire_of(self._path)):
            exchange.api, exchange.user = wire.name, wire.read(body).user
        self.server.note(exchange)
        return exchange

    def _guarded(self, exchange: "Exchange", wire: Wire, body: dict[str, Any]) -> None:
        try:
            self._answer(exchange, wire, self._asked(wire, body))
        except (OSError, Stopped):
            self.close_connection = True
            self.server.note(exchange, aborted=True, ended=True)

    def _asked(self, wire: Wire, body: dict[str, Any]) -> ModelRequest:
        asked = wire.read(body)
        named = re.search(r"/models/([^:/]+):", self._path)
        asked.model = str(body.get("model") or (named[1] if named else "scripted"))
        asked.stream = bool(body.get("stream")) or self._path.endswith(":streamGenerateContent")
        asked.body = json.dumps(body, ensure_ascii=False).replace("\\n", "\n")
        return asked

    def _answer(self, exchange: "Exchange", wire: Wire, asked: ModelRequest) -> None:
        answer = decide(asked, self.server.scenario, self.server.rules)
        if answer.status >= 400:
            if self.server.still_fails(asked.user, answer):
                return self._json(exchange, answer.status, wire.error(answer.status, answer.message))
            answer = ModelAnswer(text=FINAL)
        if answer.hang is not None:
            self._go_on(self.server.pause(self.connection, answer.hang))
        if asked.stream:
            return self._stream(exchange, wire, asked, answer)
        return self._whole(exchange, wire, asked, answer)

    def _whole(self, exchange: "Exchange", wire: Wire, asked: ModelRequest, answer: ModelAnswer) -> None:
        if answer.hold is not None:
            self._held(exchange, answer.hold)
        if answer.delay:
            self._go_on(self.server.pause(self.connection, answer.delay * 200))
        raw = json.dumps(wire.whole(answer, asked.model)).encode()
        if answer.malformed:
            raw = raw[: len(raw) // 2]
        self._head(exchange, 200, {"Content-Type": "application/json", "Content-Length": str(len(raw))})
        if answer.cut:
            self.wfile.write(raw[: len(raw) // 2])
            return self._cut(exchange)
        self.wfile.write(raw)
        self.server.note(exchange, ended=True)
        return None

    def _stream(self, exchange: "Exchange", wire: Wire, asked: ModelRequest, answer: ModelAnswer) -> None:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
        self._head(exchange, 200, headers)
        for number, (name, data) in enumerate(wire.stream(answer, asked.model), 1):
            if answer.cut and number > CUT_AFTER:
                return self._cut(exchange)
            if answer.hold is not None and number == CUT_AFTER:
                self._held(exchange, answer.hold)
            text = data if isinstance(data, str) else json.dumps(data)
            if answer.malformed and number == BROKEN_PIECE:
                text = '{"broken": '
            self._chunk((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
            if answer.delay:
                self._go_on(self.server.pause(self.connection, answer.delay))
        self.wfile.write(b"0\r\n\r\n")
        self.server.note(exchange, ended=True)
        return None

    def _held(self, exchange: "Exchange", name: str) -> None:
        self.server.note(exchange, held=True)
        self._go_on(self.server.hold(self.connection, name))
        self.server.note(exchange, held=False)

    def _go_on(self, how: str) -> None:
        if how != "on":
            raise Stopped(how)

    def _cut(self, exchange: "Exchange") -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        self.server.note(exchange, ended=True)

    # -- bytes

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = self._chunked_body()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match self.headers.get("Content-Encoding", ""):
            case "gzip":
                return gzip.decompress(data)
            case "deflate":
                return zlib.decompress(data)
        return data

    def _chunked_body(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline().split(b";")[0].strip() or b"0", 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _head(self, exchange: "Exchange", status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.server.note(exchange, began=True, status=status)

    def _json(self, exchange: "Exchange", status: int, value: Any) -> None:
        raw = json.dumps(value).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        if status == 429 or status >= 500:
            headers |= {"Retry-After": "1", "Retry-After-Ms": "50"}  # the APIs send both, the clients read one of them
        self._head(exchange, status, headers)
        self.wfile.write(raw)
        self.server.note(exchange, ended=True)

    def _chunk(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))


def _unknown(path: str) -> dict[str, Any]:
    return {"error": {"message": f"the scripted model has no {path}", "type": "not_found_error"}}
