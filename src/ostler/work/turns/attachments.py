"""Files and images that go with a prompt: checked before a turn begins."""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from ostler.agents import Agent
from ostler.errors import OstlerError, quoted
from ostler.model import Attachment

MAX_FILE = 20 * 1024 * 1024
MAX_INLINE = 8 * 1024 * 1024
IMAGE_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
IMAGE_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
MEDIA_TYPE = r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*"


def attachment(spec: str | Mapping[str, Any] | Attachment) -> Attachment:
    """An attachment from a path, or from {path} or {name, content}. Raises bad_request."""
    if isinstance(spec, Attachment):
        return spec
    if isinstance(spec, str):
        return Attachment(path=spec)
    if isinstance(spec, Mapping) and (unknown := {*spec} - {*Attachment.__struct_fields__}):
        raise OstlerError("bad_request", f"an attachment has no field {quoted(sorted(map(str, unknown))[0])}", _FIELDS)
    try:
        return msgspec.convert(dict(spec), Attachment)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise OstlerError("bad_request", f"not an attachment: {error}", _FIELDS) from error


_FIELDS = "Give path, or name and content"


def check(attachments: Sequence[Attachment], agent: Agent, folder: str) -> tuple[Attachment, ...]:
    """The attachments with absolute paths, and images known as such.

    Raises bad_request, not_found, or unsupported for what the agent cannot take.
    """
    return tuple(_inline(a) if a.content is not None else _file(a, agent, folder) for a in attachments)


def _inline(a: Attachment) -> Attachment:
    if a.path or a.image or a.type.startswith("image/"):
        raise OstlerError("bad_request", "an attachment with content cannot have a path or be an image", _FIELDS)
    if not a.name or any(c in '"<>/' or ord(c) < 32 for c in a.name):
        raise OstlerError("bad_request", f"an attachment cannot be named {quoted(a.name)}", "Give a plain file name")
    content = a.content or ""
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        size = -1
    if size < 0 or "\0" in content:
        raise OstlerError("bad_request", f"the attachment {a.name} is not text", "Attach it by path")
    if size > MAX_INLINE:
        raise OstlerError("bad_request", f"the attachment {a.name} has {size:,} bytes of content", _limit(MAX_INLINE))
    return a


def _file(a: Attachment, agent: Agent, folder: str) -> Attachment:
    if not a.path or any(ord(c) < 32 for c in a.path):
        raise OstlerError("bad_request", f"an attachment cannot have the path {quoted(a.path)}", _FIELDS)
    path = os.path.abspath(os.path.join(folder, os.path.expanduser(a.path)))
    type = _type(a, _start(path, a.path))
    image = type.startswith("image/")
    if not image and (a.image or (not a.type and path.lower().endswith(IMAGE_NAMES))):
        raise OstlerError("bad_request", f"not an image: {a.path}", "Attach a PNG, JPEG, GIF or WebP file")
    if image and agent.images == "no":
        raise OstlerError(
            "unsupported", f"{agent.name} does not accept images: {a.path}", "Leave it out, or choose another agent"
        )
    return structs.replace(a, path=path, name=a.name or os.path.basename(path), type=type, image=image)


def _type(a: Attachment, start: bytes) -> str:
    """The media type that was given, or the one that the first bytes tell. Raises bad_request where they differ."""
    webp = "image/webp" if start[:4] == b"RIFF" and start[8:12] == b"WEBP" else ""
    found = next((type for magic, type in IMAGE_STARTS.items() if start.startswith(magic)), webp)
    if not a.type:
        return found
    if not re.fullmatch(MEDIA_TYPE, a.type):
        raise OstlerError("bad_request", f"{quoted(a.type[:100])} is not a media type", "Write it like image/png")
    known = {*IMAGE_STARTS.values(), "image/webp"}
    if a.type != found and a.type.startswith("image/") and (found or a.type in known):
        hint = f"It is {found}" if found else "Its first bytes are not those of one"
        raise OstlerError("bad_request", f"{a.path} is not {a.type}", hint)
    return a.type


def with_images(attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """The same, with the images' own bytes. Raises bad_request for one that went away meanwhile."""
    return tuple(structs.replace(a, data=_data_url(a.path, a.type)) if a.image else a for a in attachments)


def _data_url(path: str, type: str) -> str:
    from binascii import b2a_base64

    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE)
    except OSError as error:
        raise OstlerError("bad_request", f"the attachment cannot be read: {path} ({error.strerror})") from error
    return f"data:{type};base64,{b2a_base64(data, newline=False).decode()}"


def _start(path: str, shown: str) -> bytes:
    """The first bytes of a regular file of bearable size."""
    try:
        info = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise OstlerError("not_found", f"no such file: {shown}", "Attachments are relative to the folder") from error
    except OSError as error:
        raise OstlerError("bad_request", f"the attachment cannot be read: {shown} ({error.strerror})") from error
    if not stat.S_ISREG(info.st_mode):
        raise OstlerError("bad_request", f"not a regular file: {shown}", "Attach one file at a time")
    if info.st_size > MAX_FILE:
        raise OstlerError("bad_request", f"the attachment {shown} has {info.st_size:,} bytes", _limit(MAX_FILE))
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return file.read(16)
    except OSError as error:
        raise OstlerError("bad_request", f"the attachment cannot be read: {shown} ({error.strerror})") from error


def _limit(size: int) -> str:
    return f"At most {size >> 20} MiB"
