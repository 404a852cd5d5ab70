"""The server-sent events of an ostler server, as another process reads them. Pure."""

from typing import NamedTuple


class ServerEvent(NamedTuple):
    kind: str
    data: bytes  # JSON, in one line


def whole_frames(data: bytes) -> tuple[bytes, bytes]:
    """What has come so far as whole frames, and the beginning of the next one."""
    whole, end, rest = data.rpartition(b"\n\n")
    return whole + end, rest


def events_of(frames: bytes) -> list[ServerEvent]:
    """The events of whole frames, without the comments that only keep a connection open."""
    return [event for frame in frames.split(b"\n\n") if (event := _event(frame)) is not None]


def _event(frame: bytes) -> ServerEvent | None:
    fields = dict(line.partition(b": ")[::2] for line in frame.split(b"\n"))
    return ServerEvent(fields[b"event"].decode(), fields[b"data"]) if b"event" in fields and b"data" in fields else None
