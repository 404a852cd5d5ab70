"""How one machine knows that another one asks, and for whom: tokens that the asking machine signs.

Each machine makes a key when it joins, keeps it in memory, and tells the directory its public half. A token names the
machine that it is for, so that it is worth nothing elsewhere, and is good for half a minute.
"""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from ostler.access import Rights
from ostler.machines.model import MachineRow
from ostler.signed_tokens import beginning_of, pack, unpack

LASTS = 30.0  # seconds in which a connection has to be opened with it
_LONGEST = 2048


class MachineClaims(Struct, frozen=True, array_like=True):
    """Who asks, for whom, with which rights, and at which machine."""

    purpose: Literal["machine"]
    issuer: str
    issuer_epoch: int
    audience: str
    audience_epoch: int
    person: str  # the id of the person at the machine that asks
    name: str
    rights: Rights
    until: float  # by the clock of the directory


class MachineKey:
    """The private half stays in this process, and ends with it."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._private = Ed25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def sign(self, claims: MachineClaims) -> str:
        body = pack(msgspec.json.encode(claims))
        return f"{body}.{pack(self._private.sign(body.encode()))}"


def read_token(
    token: str, issuer_of: Callable[[str], MachineRow | None], me: MachineRow, now: float
) -> MachineClaims | None:
    """The claims of a token that a machine we know has signed for us, and that still counts; else None."""
    body, _, signature = token.partition(".")
    if len(token) > _LONGEST or not token.isascii():
        return None
    try:
        claims = msgspec.json.decode(unpack(body), type=MachineClaims)
        signed = unpack(signature)
    except ValueError:
        return None  # another kind of token, or nonsense
    issuer = issuer_of(claims.issuer)
    if issuer is None or issuer.epoch != claims.issuer_epoch or issuer.left or claims.until <= now:
        return None
    if (claims.audience, claims.audience_epoch) != (me.id, me.epoch) or claims.until > now + 2 * LASTS:
        return None
    return claims if _is_signed(issuer.public_key, signed, body.encode()) else None


def is_token(token: str) -> bool:
    """Whether it looks like one, whoever signed it."""
    return token.startswith(beginning_of("machine"))


def issuer_of_token(token: str) -> str:
    """The machine that it names as the one that signed it, unproven; "" for nonsense."""
    try:
        return msgspec.json.decode(unpack(token.partition(".")[0]), type=MachineClaims).issuer
    except ValueError:
        return ""


def _is_signed(public_key: bytes, signature: bytes, body: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, body)
    except (InvalidSignature, ValueError):
        return False
    return True
