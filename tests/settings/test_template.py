"""The commented project file: silent as it is, whole once it is uncommented. How it loads: tests/test_settings.py."""

import re
import tomllib

from ostler.settings.keys import FILE_KEYS, Profile
from ostler.settings.template import template


def uncommented() -> dict[str, object]:
    return tomllib.loads(re.sub(r"^#(?! )", "", template(), flags=re.M))


def test_it_says_nothing_until_uncommented() -> None:
    assert tomllib.loads(template()) == {}
    assert all(not line or line.startswith("#") for line in template().splitlines())


def test_uncommented_it_has_every_key_of_a_file_and_of_a_profile() -> None:
    found = uncommented()
    assert {*found} == {*FILE_KEYS}
    assert isinstance(profiles := found["profiles"], dict)
    assert {*profiles["reviewer"]} == {*Profile.__struct_fields__}


def test_what_is_said_of_the_port_stands_above_it() -> None:
    for key, about in (("port", "# The port of `ostler up`"), ("delegation_depth", "# How deep turns")):
        (block,) = [block for block in template().split("\n\n") if f"#{key} =" in block]
        first, second = block.splitlines()
        assert first.startswith(about) and second.startswith(f"#{key} =")


def test_every_line_of_prose_is_above_what_it_is_about() -> None:
    """A `#key` needs no blank to be a setting; `# prose` has one, and a sentence does not stand alone."""
    blocks = template().strip().split("\n\n")[1:]
    for block in blocks:
        lines = block.splitlines()
        assert any(re.match(r"#[\w\[]", line) for line in lines), block
