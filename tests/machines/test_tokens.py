"""Tokens between machines: signed by one that is known, for one machine, for half a minute."""

from msgspec.structs import replace

from ostler.machines.model import MachineRow
from ostler.machines.tokens import LASTS, MachineClaims, MachineKey, is_token, issuer_of_token, read_token
from ostler.store.redact import Redactor

KEY = MachineKey()
HAWK = MachineRow(id="h", epoch=3, name="hawk", url="", public_key=KEY.public, beat=1, age=0.0, joined_at=0.0)
OWL = MachineRow(id="o", epoch=5, name="owl", url="", public_key=MachineKey().public, beat=1, age=0.0, joined_at=0.0)
CLAIMS = MachineClaims("machine", "h", 3, "o", 5, "p1", "ann", "view", 1000.0 + LASTS)


def read(token: str, me: MachineRow = OWL, now: float = 1000.0, issuer: MachineRow | None = HAWK) -> object:
    return read_token(token, lambda id: issuer if issuer is not None and id == issuer.id else None, me, now)


def test_what_was_signed_is_read() -> None:
    token = KEY.sign(CLAIMS)
    assert read(token) == CLAIMS
    assert is_token(token) and not is_token("WyJiZWFyZXIi.x")
    assert (issuer_of_token(token), issuer_of_token("x"), issuer_of_token("")) == ("h", "", "")


def test_what_does_not_count() -> None:
    token = KEY.sign(CLAIMS)
    body, _, signature = token.partition(".")
    forged = KEY.sign(replace(CLAIMS, rights="admin")).partition(".")[0] + "." + signature
    assert [
        read(forged),
        read(MachineKey().sign(CLAIMS)),  # another key
        read(token, now=1000.0 + LASTS),  # too late
        read(token, me=replace(OWL, id="x")),  # for another machine
        read(token, me=replace(OWL, epoch=6)),  # for one that was started anew
        read(token, issuer=replace(HAWK, epoch=4)),  # of one that was started anew
        read(token, issuer=replace(HAWK, left=True)),
        read(token, issuer=None),
        read(KEY.sign(replace(CLAIMS, until=9000.0))),  # longer than any token lasts
        read(body),
        read(f"{body}.{'A' * 3000}"),
        read("ü.x"),
        read(""),
    ] == [None] * 13


def test_it_is_redacted_wherever_it_turns_up() -> None:
    token = KEY.sign(CLAIMS)
    assert token not in Redactor(()).text(f"sent {token} on")
