import binascii

import pytest

from ostler.signed_tokens import BEGINNINGS, beginning_of, pack, unpack


def test_what_was_packed_is_unpacked() -> None:
    for data in (b"", b"a", b"ab", b"abc", b"\xff\xfe\xfd"):
        assert unpack(pack(data)) == data
    assert pack(b"\xff\xfe\xfd\xfc") == "__79_A"
    for wrong in ("a", "a b"):
        with pytest.raises(binascii.Error):
            unpack(wrong)


def test_each_purpose_has_a_beginning_of_its_own() -> None:
    assert BEGINNINGS == ("WyJsaW5rIiwi", "WyJsb2dpbiIs", "WyJiZWFyZXIi", "WyJtYWNoaW5lIiwi")
    for follows in ("admin", "ab", "\u00fc"):
        assert pack(f'["login","{follows}"]'.encode()).startswith(beginning_of("login"))
