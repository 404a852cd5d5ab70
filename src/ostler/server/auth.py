"""Authentication: who may come in, with which rights, known by tokens that the server's key has signed.

The claims of a token say what it is for (a link that is used once, the cookie of a browser, the token of a program),
who, with which rights, and until when. Nothing is stored but the key, and which tokens were revoked: a restart keeps
everyone logged in.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct, structs

from ostler import clock
from ostler.access import RIGHTS_ORDER, Rights
from ostler.errors import OstlerError
from ostler.machines.membership import Membership
from ostler.server.problems import Refusal
from ostler.signed_tokens import TokenPurpose, pack, unpack
from ostler.store.files import file_errors, write_private

# What a method needs whatever its route asks for besides: a new route is covered the day it is added.
RIGHT_OF: dict[str, Rights] = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS"), "view"),
    **dict.fromkeys(("POST", "PUT", "PATCH"), "type"),
    "DELETE": "admin",
}

LINK_SECONDS = 3600.0
LOGIN_SECONDS = 30 * 86400.0
_KEY = "server.key"
_LONGEST = 2048  # characters of a token
_REVOKED = "server:spent"


class Person(Struct, frozen=True, kw_only=True):
    """Whoever asks: a browser that came by a link, or a program with a token."""

    id: str
    name: str
    rights: Rights
    via: str = ""  # the machine that has passed it on


class TokenClaims(Struct, frozen=True, array_like=True):
    """What a signed token says."""

    purpose: TokenPurpose
    rights: Rights
    name: str
    until: float
    nonce: str

    @property
    def person(self) -> Person:
        return Person(id=self.nonce[:12], name=self.name, rights=self.rights)


class SignedLogin(NamedTuple):
    """The claims that somebody logged in with, and the key that signed them."""

    claims: TokenClaims
    key_id: str
    via: str = ""  # the machine that has passed it on

    @property
    def person(self) -> Person:
        return structs.replace(self.claims.person, via=self.via)


def may(person: Person, right: Rights) -> bool:
    return RIGHTS_ORDER.index(person.rights) >= RIGHTS_ORDER.index(right)


def require(person: Person, right: Rights) -> None:
    """Raises `denied` (403) unless the person has this right."""
    if not may(person, right):
        yours = "is view-only" if person.rights == "view" else f"has {person.rights} rights"
        hint = f"Ask for another link: ostler link --rights {right}"
        raise OstlerError("denied", f"this needs {right} rights; your link {yours}", hint)


def clean_name(name: str) -> str:
    """A name that can be shown anywhere: one line of at most 64 characters."""
    return "".join(char for char in name if char.isprintable()).strip()[:64] or "somebody"


# -- tokens -----------------------------------------------------------------------------------------


class Authenticator:
    """Signs and verifies tokens with the key of a state folder, as it is now."""

    def __init__(self, folder: str | Path, notes: "Notes | None" = None, now: Callable[[], float] = clock.now) -> None:
        self.revoked = RevokedTokens(notes)
        self.on_logout: Callable[[], None] = lambda: None  # told at once when a login is ended
        self.membership: Membership | None = None  # among other machines, which pass on what people ask there
        self._path = Path(folder) / _KEY
        self._now = now
        self._seen: tuple[int, int] | None = None
        self._secret = b""
        self.key_id = ""  # another one for each key
        self.refresh()

    def sign(self, purpose: TokenPurpose, rights: Rights, name: str, seconds: float) -> str:
        self.refresh()
        claims = TokenClaims(purpose, rights, clean_name(name), float(int(self._now() + seconds)), secrets.token_hex(8))
        body = pack(msgspec.json.encode(claims))
        return f"{body}.{self._mac(body)}"

    def read(self, token: str, purpose: TokenPurpose) -> TokenClaims | None:
        """The claims of a token, if we signed it for this purpose and it is still valid."""
        self.refresh()
        body, _, mac = token.partition(".")
        if len(token) > _LONGEST or not token.isascii() or not hmac.compare_digest(self._mac(body), mac):
            return None
        try:
            claims = msgspec.json.decode(unpack(body), type=TokenClaims)
        except ValueError:
            return None  # of an older ostler
        return claims if claims.purpose == purpose and self._lasts(claims) else None

    def login(self, token: str, purpose: TokenPurpose) -> "SignedLogin | None":
        claims = self.read(token, purpose)
        return None if claims is None else SignedLogin(claims, self.key_id)

    async def passed_on(self, token: str) -> "SignedLogin | None":
        """Somebody for whom another machine asks. It lasts longer than any connection, which that machine ends."""
        claims = await self.membership.read_token(token) if self.membership is not None else None
        if claims is None:
            return None
        until = self._now() + LOGIN_SECONDS
        said = TokenClaims("machine", claims.rights, clean_name(claims.name), until, claims.person)
        return SignedLogin(said, self.key_id, claims.issuer) if self._lasts(said) else None

    def is_good(self, login: "SignedLogin") -> bool:
        """Whether it still is: not expired, not ended, and signed by the key as it is now."""
        return login.key_id == self.key_id and self._lasts(login.claims)

    def _lasts(self, claims: TokenClaims) -> bool:
        return claims.until > self._now() and claims.nonce not in self.revoked

    async def end(self, claims: TokenClaims) -> None:
        """Logs out: it counts at once, also for what is connected, and also if the store cannot be written."""
        self.revoked.add(claims)
        self.on_logout()
        await self.revoked.keep()

    async def redeem(self, link: str) -> TokenClaims:
        """The claims of a link, which is used up by that. Raises a Refusal (401)."""
        claims = self.read(link, "link")
        if claims is None:
            raise Refusal(401, "this link is invalid or has expired", "Get a new one: ostler link")
        self.revoked.add(claims)  # at once: of two that come together, the second finds it used
        await self.revoked.keep()
        return claims

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host: each server has a name of its own."""
        return f"ostler_{self.key_id}"

    def revoke_all(self) -> None:
        """A new key: no link, cookie or token that was given out is valid any more, at once."""
        write_private(self._path, secrets.token_bytes(32))
        self.refresh()

    def refresh(self) -> None:
        """Reads the key again if another process has changed it."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            _make_key(self._path)
            found = os.lstat(self._path)
        look = (found.st_ino, found.st_ctime_ns)
        if look != self._seen:
            self.key_id = ""  # if there is none that can be read, nothing is good
            self._secret, self._seen = _read_key(self._path), look
            self.key_id = hashlib.sha256(b"cookie" + self._secret).hexdigest()[:12]

    def _mac(self, body: str) -> str:
        return pack(hmac.digest(self._secret, body.encode(), "sha256"))


def _make_key(path: Path) -> None:
    """Whole as soon as it is there: another process may be reading it, and this one be killed at any time."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    write_private(draft, secrets.token_bytes(32))
    try:
        with file_errors(path), suppress(FileExistsError):  # another process was quicker
            os.link(draft, path)
    finally:
        draft.unlink()


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


# -- links are used once, and a login can be ended ---------------------------------------------------


class Notes(Protocol):
    def note(self, key: str) -> Any: ...
    async def set_note(self, key: str, value: Any) -> None: ...


class RevokedTokens:
    """Tokens that are no longer valid: remembered in the store until they would have expired."""

    def __init__(self, notes: Notes | None = None) -> None:
        self._notes = notes
        self._until: dict[str, float] = dict((notes and notes.note(_REVOKED)) or {})

    def __contains__(self, nonce: str) -> bool:
        return nonce in self._until

    def add(self, claims: TokenClaims) -> None:
        now = clock.now()
        self._until = {nonce: until for nonce, until in self._until.items() if until > now}
        self._until[claims.nonce] = claims.until

    async def keep(self) -> None:
        if self._notes is not None:
            await self._notes.set_note(_REVOKED, self._until)


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
