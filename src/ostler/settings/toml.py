"""TOML of files that anybody may have written."""

import re
import tomllib
from typing import Any

# tomllib needs memory by the square of a key's parts: a file of 250 KB with one key took all that the machine had.
MOST_PARTS = 50
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP = re.compile(rf"(?<![\w\\-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS}}}")


def parsed(text: str) -> dict[str, Any]:
    """What a document says. Raises TOMLDecodeError, and RecursionError for one that is nested too deeply."""
    if _DEEP.search(text):
        raise RecursionError("a key has too many parts")
    return tomllib.loads(text)
