"""What of all that comes to a turn's callback is taken: understood, once, not too fast, not too much. Pure."""

import hashlib
from typing import Any

from msgspec import Struct

from ostler.agents import decode

TEXT_LIMIT = 4000  # characters of one text that the journal keeps
MOST = 10_000  # hooks of one turn
BURST = 200  # that may come at once
RATE = 50.0  # and a second, after that
_NAME = 100


class Taken(Struct, frozen=True, kw_only=True):
    """What a hook told."""

    name: str
    payload: dict[str, Any]
    digest: bytes  # by which it is known when it is told again


class Repeated(Struct, frozen=True, kw_only=True):
    """It was told before."""

    digest: bytes


class Refused(Struct, frozen=True, kw_only=True):
    """Why it does not count. `status` is what the caller hears."""

    status: int
    why: str


class Intake:
    """Of one turn. `take` decides; the same body twice is one hook."""

    def __init__(self) -> None:
        self.count = 0
        self.flooded = False
        self._seen: set[bytes] = set()
        self._left, self._at = float(BURST), 0.0

    def take(self, event: str, body: bytes, now: float) -> Taken | Repeated | Refused:
        if not self._in_time(now) or self.count >= MOST:
            return Refused(status=429, why="too many hooks")
        payload = decode(body)
        if not isinstance(payload, dict):
            return Refused(status=400, why="the body is not a JSON object")
        named = payload.get("hook_event_name")
        name = (named if isinstance(named, str) and named else event)[:_NAME]
        if not name.isprintable() or not name:
            return Refused(status=400, why="the hook has no name")
        digest = hashlib.sha256(name.encode() + b"\0" + body).digest()
        if digest in self._seen:
            return Repeated(digest=digest)
        self._seen.add(digest)
        self.count += 1
        return Taken(name=name, payload=payload, digest=digest)

    def _in_time(self, now: float) -> bool:
        self._left = min(float(BURST), self._left + max(0.0, now - self._at) * RATE) if self._at else self._left
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def shortened(value: Any, depth: int = 0) -> Any:
    """The same with long texts cut: whole outputs of tools are in the journal already."""
    if isinstance(value, str) and len(value) > TEXT_LIMIT:
        return f"{value[:TEXT_LIMIT]}… ({len(value):,} characters)"
    if depth > 20:
        return "…"
    if isinstance(value, dict):
        return {key: shortened(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [shortened(each, depth + 1) for each in value[:1000]]
    return value
