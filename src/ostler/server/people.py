"""Who may come in: people and programs with rights, known by what the server's key has signed.

A statement says what it is for (a link that is used once, the cookie of a browser, the token of a program), who, with
which rights, and until when. Nothing is stored but the key, and which links were used: a restart keeps everyone in.
"""

import base64
import hashlib
import hmac
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from ostler.errors import OstlerError
from ostler.server.problems import Refusal
from ostler.store.files import create_exclusive, write_private
from ostler.terminal.viewing import Rights

Purpose = Literal["link", "login", "bearer"]
ORDER: tuple[Rights, ...] = ("view", "type", "admin")

LINK_SECONDS = 3600.0
LOGIN_SECONDS = 30 * 86400.0
_KEY = "server.key"
_LONGEST = 2048  # characters of a token
_SPENT = "server:spent"


class Person(Struct, frozen=True, kw_only=True):
    """Whoever asks: a browser that came by a link, or a program with a token."""

    id: str
    name: str
    rights: Rights


class Statement(Struct, frozen=True, array_like=True):
    purpose: Purpose
    rights: Rights
    name: str
    until: float
    nonce: str

    @property
    def person(self) -> Person:
        return Person(id=self.nonce[:12], name=self.name, rights=self.rights)


def may(person: Person, right: Rights) -> bool:
    return ORDER.index(person.rights) >= ORDER.index(right)


def require(person: Person, right: Rights) -> None:
    """Raises `denied` (403) unless the person has this right."""
    if not may(person, right):
        raise OstlerError(
            "denied",
            f"this needs the right to {right}, and you may {person.rights}",
            f"Ask for another link: ostler link --rights {right}",
        )


def clean_name(name: str) -> str:
    """A name that can be shown anywhere: one line of at most 64 characters."""
    return "".join(char for char in name if char.isprintable()).strip()[:64] or "somebody"


# -- statements -------------------------------------------------------------------------------------


class People:
    """Signs and reads statements with the key of a state folder, as it is now."""

    def __init__(self, folder: str | Path, notes: "Notes | None" = None, now: Callable[[], float] = time.time) -> None:
        self.spent = Spent(notes)
        self._path = Path(folder) / _KEY
        self._now = now
        self._seen: tuple[int, int] | None = None
        self._secret = b""
        self.refresh()
        self._told = self._secret

    def sign(self, purpose: Purpose, rights: Rights, name: str, seconds: float) -> str:
        self.refresh()
        statement = Statement(
            purpose, rights, clean_name(name), float(int(self._now() + seconds)), secrets.token_hex(8)
        )
        body = _packed(msgspec.json.encode(statement))
        return f"{body}.{self._mac(body)}"

    def read(self, token: str, purpose: Purpose) -> Statement | None:
        """The statement, if we signed it for this purpose and its time is not over."""
        self.refresh()
        body, _, mac = token.partition(".")
        if len(token) > _LONGEST or not token.isascii() or not hmac.compare_digest(self._mac(body), mac):
            return None
        try:
            statement = msgspec.json.decode(_unpacked(body), type=Statement)
        except ValueError:
            return None  # of an older ostler
        return statement if statement.purpose == purpose and statement.until > self._now() else None

    async def redeem(self, link: str) -> Statement:
        """The statement of a link, which is spent by that. Raises a Refusal (401)."""
        statement = self.read(link, "link")
        if statement is None or statement.nonce in self.spent:
            raise Refusal(401, "this link is not good, or no longer", "Get a new one: ostler link")
        await self.spent.add(statement)
        return statement

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host: each server has a name of its own."""
        return f"ostler_{hashlib.sha256(b'cookie' + self._secret).hexdigest()[:12]}"

    def forget_everybody(self) -> None:
        """A new key: no link, cookie or token that was given out is good any more, at once."""
        write_private(self._path, secrets.token_bytes(32))
        self.refresh()

    def refresh(self) -> None:
        """Reads the key again if another process has changed it."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            _make_key(self._path)
            found = os.lstat(self._path)
        look = (found.st_ino, found.st_mtime_ns)
        if look != self._seen:
            self._secret, self._seen = _read_key(self._path), look

    def changed(self) -> bool:
        """Whether the key is another one than at the last call (or at the start)."""
        self.refresh()
        before, self._told = self._told, self._secret
        return before != self._secret

    def _mac(self, body: str) -> str:
        return _packed(hmac.digest(self._secret, body.encode(), "sha256"))


def _make_key(path: Path) -> None:
    try:
        create_exclusive(path.parent, path.name, secrets.token_bytes(32))
    except OstlerError as error:
        if error.kind != "exists":  # another process was quicker
            raise


def _read_key(path: Path) -> bytes:
    hint = f"Remove {path}: everybody needs a new link then"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise OstlerError("store", f"{path}: {error.strerror}", hint) from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise OstlerError("store", f"{path} is open to other users", hint)
        key = os.read(fd, 64)
    finally:
        os.close(fd)
    if len(key) != 32:
        raise OstlerError("store", f"{path} is damaged", hint)
    return key


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpacked(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# -- links are used once, and a login can be ended ---------------------------------------------------


class Notes(Protocol):
    def note(self, key: str) -> Any: ...
    async def set_note(self, key: str, value: Any) -> None: ...


class Spent:
    """Statements that are good no longer: remembered in the store until they would have expired."""

    def __init__(self, notes: Notes | None = None) -> None:
        self._notes = notes
        self._until: dict[str, float] = dict((notes and notes.note(_SPENT)) or {})

    def __contains__(self, nonce: str) -> bool:
        return nonce in self._until

    async def add(self, statement: Statement) -> None:
        """Counts at once: of two that come together, the second finds it spent."""
        now = time.time()
        self._until = {nonce: until for nonce, until in self._until.items() if until > now}
        self._until[statement.nonce] = statement.until
        if self._notes is not None:
            await self._notes.set_note(_SPENT, self._until)


# -- what a request brings --------------------------------------------------------------------------


def token_of(headers: Mapping[bytes, list[bytes]]) -> str | None:
    """The bearer token; None if there is no Authorization at all, "" for one of another kind."""
    given = headers.get(b"authorization")
    if given is None:
        return None
    scheme, _, token = given[0].decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(given) == 1 else ""


def cookies_of(headers: Mapping[bytes, list[bytes]], name: str) -> list[str]:
    """All values of a cookie: one that another server set for a longer path must not hide ours."""
    pairs = [pair for line in headers.get(b"cookie", ()) for pair in line.decode("latin-1").split(";")]
    split = [pair.strip().partition("=") for pair in pairs]
    return [value for found, _, value in split if found == name][:8]
