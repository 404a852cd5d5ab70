"""A false token server behind a false proxy: logins that are renewed, for CLIs that know but the real address.

A proxy for `https` that answers everything itself, with a certificate of its own. Each refresh token is good for one
renewal, as with the real ones: who asks for new tokens and does not keep them is logged out.
"""

import contextlib
import json
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOSTS = (
    *("platform.claude.com", "api.anthropic.com", "console.anthropic.com", "claude.ai", "chat.qwen.ai"),
    *("oauth2.googleapis.com", "www.googleapis.com", "cloudcode-pa.googleapis.com", "play.googleapis.com"),
    *("auth.openai.com", "chatgpt.com", "api.openai.com"),
)


class TokenServer:
    """What was asked for, and which refresh token is good now."""

    def __init__(self) -> None:
        self.good = "refresh-0"
        self.renewals = 0
        self.refused = 0
        self.heard: list[str] = []

    def renewed(self, token: str) -> dict[str, Any] | None:
        if token != self.good:
            self.refused += 1
            return None
        self.renewals += 1
        self.good = f"refresh-{self.renewals}"
        return {
            "access_token": f"access-{self.renewals}",
            "refresh_token": self.good,
            "expires_in": 28800,
            "token_type": "Bearer",
            "scope": "user:inference user:profile",
            "resource_url": "portal.qwen.ai",
        }


@contextlib.contextmanager
def token_server(folder: Path) -> Iterator[tuple[TokenServer, dict[str, str]]]:
    """The server, and the variables by which a CLI finds it."""
    key, certificate = _certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tokens = TokenServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError), context.wrap_socket(self.connection, server_side=True) as secure:
                plain, self.rfile, self.wfile = (self.rfile, self.wfile), secure.makefile("rb"), secure.makefile("wb")  # type: ignore[assignment]
                try:
                    self.handle_one_request()
                finally:
                    self.rfile.close()
                    self.wfile.close()
                    self.rfile, self.wfile = plain
            self.close_connection = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            tokens.heard.append(self.path)
            asked = json.loads(body) if body.startswith("{") else dict(urllib.parse.parse_qsl(body))
            if "refresh_token" not in asked:
                known = self.path.startswith("/tokeninfo")  # google's: a token is looked at; there is no model here
                self._answer(200 if known else 403, {"expires_in": 3600} if known else {"error": "forbidden"})
                return
            answer = tokens.renewed(str(asked["refresh_token"]))
            self._answer(400 if answer is None else 200, answer or {"error": "invalid_grant"})

        def do_GET(self) -> None:
            tokens.heard.append(self.path)
            self._answer(404, {"error": "not found"})

        def _answer(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    found = {
        "HTTPS_PROXY": url,
        "https_proxy": url,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    try:
        yield tokens, {**found, "NODE_EXTRA_CA_CERTS": str(certificate)}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _certificate(folder: Path) -> tuple[Path, Path]:
    key, certificate = folder / "token-server.key", folder / "token-server.pem"
    names = ",".join(f"DNS:{name}" for name in HOSTS)
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "2", "-keyout", str(key), "-out", str(certificate), "-subj", "/CN=ostler test"]
    subprocess.run([*made, "-addext", f"subjectAltName={names}"], check=True, capture_output=True)
    return key, certificate
