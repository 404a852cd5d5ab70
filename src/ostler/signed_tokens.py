"""How a token that ostler signs is written: claims as JSON, a dot, and the signature, both in base64 for addresses.

The claims are an array whose first item is the purpose, and whose second one is text: a token is known by that
beginning, and masked wherever it turns up.
"""

import base64
from typing import Literal, get_args

TokenPurpose = Literal["link", "login", "bearer", "machine"]


def pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unpack(text: str) -> bytes:
    """Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def beginning_of(purpose: TokenPurpose) -> str:
    """How each token of this purpose begins: as many whole characters as all of them share."""
    head = f'["{purpose}","'.encode()
    return pack(head[: len(head) // 3 * 3])


BEGINNINGS = tuple(beginning_of(purpose) for purpose in get_args(TokenPurpose))
