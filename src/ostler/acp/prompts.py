"""What a client sends as a prompt: text, files by link, files and images in full. Pure."""

import base64
import binascii
import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ostler.agents.values import table, text
from ostler.errors import OstlerError, quoted
from ostler.model import Attachment

IMAGE_LIMIT = 20 << 20
_SUFFIX = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


class Image(Struct, frozen=True):
    """An image that came in full; it is kept in a file, since agents take images by path."""

    name: str
    data: bytes


class PromptContent(Struct, frozen=True, kw_only=True):
    """A prompt as ostler takes it. Each block that is no text is named in it, where it stood."""

    prompt: str
    attachments: tuple[Attachment, ...] = ()
    links: tuple[str, ...] = ()  # paths of files that may be attached, if they are there
    images: tuple[Image, ...] = ()


def read_prompt(blocks: Any) -> PromptContent:
    """Raises bad_request for what is no prompt, unsupported for what cannot be handed on."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise OstlerError("bad_request", "prompt must be a list of content blocks")
    reading = _PromptReading()
    for block in blocks:
        reading.add(block)
    return PromptContent(
        prompt="".join(reading.words),
        attachments=tuple(reading.attachments),
        links=tuple(dict.fromkeys(reading.links)),
        images=tuple(reading.images),
    )


class _PromptReading:
    """One prompt being read."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.attachments: list[Attachment] = []
        self.links: list[str] = []
        self.images: list[Image] = []
        self._after_text = False

    def add(self, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self._add_text(text(block.get("text")))
        elif kind == "resource_link":
            self._link(text(block.get("uri")), text(block.get("name")))
        elif kind == "resource":
            self._resource(table(block.get("resource")))
        elif kind == "image":
            self._image(block.get("data"), text(block.get("mimeType")), text(block.get("uri")))
        else:
            raise OstlerError("unsupported", f"a prompt cannot hold {quoted(kind)} here", "Send text, files or images")

    def _add_text(self, said: str) -> None:
        """Two texts in a row are two paragraphs; a text beside a file goes on in the same line."""
        self.words.append(f"\n{said}" if self._after_text and said else said)
        self._after_text = True

    def _mention(self, name: str) -> None:
        before = self.words[-1][-1:] if self.words else ""
        self.words.append(f"{' ' if before.strip() else ''}@{name}")
        self._after_text = False

    def _link(self, uri: str, name: str) -> None:
        if not uri:
            raise OstlerError("bad_request", "a resource_link needs a uri")
        path, lines = path_of(uri)
        if not path:
            self._mention(f"[{name or uri}]({uri})")
            return
        self.links.append(path)
        self._mention(path + lines)

    def _resource(self, resource: dict[str, Any]) -> None:
        uri = text(resource.get("uri"))
        path, lines = path_of(uri)
        name = plain_name(path or uri)
        if isinstance(said := resource.get("text"), str):
            self.attachments.append(Attachment(name=name, content=said))
            self._mention((path or uri or name) + lines)
        elif text(resource.get("mimeType")) in _SUFFIX:
            self._image(resource.get("blob"), text(resource.get("mimeType")), uri)
        else:
            raise OstlerError("unsupported", f"{name} is neither text nor an image", "Send a link to the file instead")

    def _image(self, data: Any, mime: str, uri: str) -> None:
        if mime not in _SUFFIX:
            raise OstlerError(
                "unsupported", f"images of type {quoted(mime)} are not supported", "Send PNG, JPEG, GIF or WebP"
            )
        try:
            content = base64.b64decode(data, validate=True) if isinstance(data, str) else b""
        except binascii.Error:
            content = b""
        if not content or len(content) > IMAGE_LIMIT:
            raise OstlerError("bad_request", "an image is base64 data of at most 20 MiB")
        name = f"image-{len(self.images) + 1}{_SUFFIX[mime]}"
        self.images.append(Image(name=name, data=content))
        self._mention(plain_name(path_of(uri)[0]) if path_of(uri)[0] else name)


def path_of(uri: str) -> tuple[str, str]:
    """The absolute path of a file:// address and the lines that it names (`#L3:9`); empty for other addresses."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "", ""
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not os.path.isabs(path):
        return "", ""
    return path, f"#{parts.fragment}" if parts.fragment else ""


def plain_name(path: str) -> str:
    """A file name that can stand in a prompt."""
    name = re.sub(r'["<>/\\\x00-\x1f\x7f]', "_", os.path.basename(path.rstrip("/")))[:200]
    return name or "attachment"
