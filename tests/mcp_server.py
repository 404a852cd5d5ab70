"""A small MCP server for tests: one tool, `shout`. By stdio as a program; by http and sse under `served`.

The tool says its text in capitals, and before it what the server was given as MARK (a variable, or a header).
"""

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = {"name": "shout", "description": "Says a text in capitals", "inputSchema": SCHEMA}


def answer(message: dict[str, Any], mark: str) -> dict[str, Any] | None:
    """None: a notification needs none."""
    if "id" not in message:
        return None
    params, result = message.get("params") or {}, {}
    match message.get("method"):
        case "initialize":
            about = {"name": "shouter", "version": "1"}
            version = params.get("protocolVersion", "2025-06-18")
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            said = f"{mark} {str(params['arguments']['text']).upper()}"
            result = {"content": [{"type": "text", "text": said}]}
        case "ping":
            pass
        case method:
            error = {"code": -32601, "message": f"no {method}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def main() -> None:
    for line in sys.stdin:
        if said := answer(json.loads(line), os.environ.get("MARK", "")):
            print(json.dumps(said), flush=True)


class Door(BaseHTTPRequestHandler):
    """POST /mcp answers at once (http). GET /sse opens a stream, on which answers to POST /said/N come (sse)."""

    protocol_version = "HTTP/1.1"
    streams: "list[queue.SimpleQueue[bytes]]"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = answer(message, self.headers.get("MARK", ""))
        body = json.dumps(said).encode() if said else b""
        stream = self.path.removeprefix("/said/")
        if stream != self.path and body:
            self.streams[int(stream)].put(b"event: message\ndata: " + body + b"\n\n")
        by_stream = stream != self.path or not body
        self.send_response(202 if by_stream else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "0" if by_stream else str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if by_stream else body)

    def do_GET(self) -> None:
        if self.path != "/sse":
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        own: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.streams.append(own)
        self.wfile.write(b"event: endpoint\ndata: /said/%d\n\n" % self.streams.index(own))
        with contextlib.suppress(OSError):
            while data := own.get():
                self.wfile.write(data)

    def do_DELETE(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The address of a server on loopback: add `/mcp` or `/sse`."""
    door = type("OwnDoor", (Door,), {"streams": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), door)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        for stream in door.streams:
            stream.put(b"")
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    main()
