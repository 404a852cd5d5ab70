"""The page's own files: the only thing that anybody may fetch."""

import asyncio
import gzip
import hashlib
import mimetypes
import os
import re
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ostler.server.compression import takes_gzip
from ostler.server.responses import Pairs, Receive, Scope, Send

BUILT = Path(__file__).parent / "page"

# xterm.js writes style elements of its own; all else comes from our files.
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_NAME = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")  # no part begins with a dot: nothing leads out
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".html": "text/html",
          ".svg": "image/svg+xml", ".json": "application/json", ".woff2": "font/woff2", ".webmanifest":
          "application/manifest+json", ".wasm": "application/wasm"}  # fmt: skip
_TEXT = ("text/", "application/json", "application/manifest", "image/svg")

_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>ostler: no page yet</title>
<body style="font: 16px/1.5 system-ui; max-width: 40rem; margin: 4rem auto; padding: 0 1rem">
<h1>The page has not been built</h1>
<p>The server works: everything under <code>/api</code> answers. This copy of ostler runs from its sources, and the
page is built from them by <code>make page</code>. Then load this address again.</p>
</body></html>
"""


class PageFile(Struct, frozen=True):
    data: bytes
    media_type: str
    tag: str
    stamp: tuple[int, int]  # when it was changed, and its size
    encoding: bytes = b""


class Pages:
    """Serves a folder of built files, read once and again when they change."""

    def __init__(self, folder: Path = BUILT) -> None:
        self._folder = folder
        self._files: dict[str, PageFile] = {}
        self._packed: dict[str, PageFile] = {}

    def has(self, path: str) -> bool:
        """Whether this path is the page or one of its files; the page itself always is."""
        return path == "/" or (_NAME.fullmatch(path) is not None and self._stamp(path) is not None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """For GET and HEAD of a path that `has` knows."""
        path = "/index.html" if scope["path"] == "/" else scope["path"]
        file = self._file(path)
        if file is None:
            await _respond(scope, send, 503, [(b"content-type", b"text/html; charset=utf-8")], _NOT_BUILT.encode())
            return
        if takes_gzip(scope["headers"]):
            file = await self._pack(path, file)
        # Files under /assets/ have a digest in their names: they never change.
        caching = b"public, max-age=31536000, immutable" if path.startswith("/assets/") else b"no-cache"
        headers = [
            (b"content-type", file.media_type.encode()),
            (b"etag", file.tag.encode()),
            (b"cache-control", caching),
            (b"vary", b"Accept-Encoding"),
        ]
        if file.encoding:
            headers.append((b"content-encoding", file.encoding))
        if any(name == b"if-none-match" and file.tag.encode() in value for name, value in scope["headers"]):
            await _respond(scope, send, 304, headers[1:4], b"")
        else:
            await _respond(scope, send, 200, headers, file.data)

    def _file(self, path: str) -> PageFile | None:
        stamp = self._stamp(path)
        known = self._files.get(path)
        if stamp is None or (known is not None and known.stamp == stamp):
            return known if stamp else None
        try:
            data = (self._folder / path[1:]).read_bytes()
        except OSError:
            return None  # it went away just now
        tag = f'"{hashlib.sha256(data).hexdigest()[:24]}"'
        self._files[path] = PageFile(data, _media_type(path), tag, stamp)
        return self._files[path]

    async def _pack(self, path: str, file: PageFile) -> PageFile:
        """The same compressed, once for all who ask; under a tag of its own, as it is another sequence of bytes."""
        known = self._packed.get(path)
        if known is not None and known.stamp == file.stamp:
            return known
        data = await asyncio.to_thread(gzip.compress, file.data, mtime=0)
        if len(data) < len(file.data):  # a font or an image is compressed already
            file = replace(file, data=data, tag=f'{file.tag[:-1]}-gzip"', encoding=b"gzip")
        self._packed[path] = file
        return file

    def _stamp(self, path: str) -> tuple[int, int] | None:
        try:
            found = os.stat(self._folder / path[1:], follow_symlinks=False)
        except (OSError, ValueError):
            return None
        return (found.st_mtime_ns, found.st_size) if found.st_mode & 0o170000 == 0o100000 else None


def _media_type(path: str) -> str:
    suffix = os.path.splitext(path)[1]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith(_TEXT) else kind


async def _respond(scope: Scope, send: Send, status: int, headers: Pairs, body: bytes) -> None:
    headers = [*headers, (b"content-security-policy", POLICY.encode())]
    if status != 304:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    shown = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": shown, "more_body": False})
