import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.errors import OstlerError
from ostler.process import Size
from ostler.terminal.clean import clamp, folder, title


@pytest.mark.parametrize(
    ("asked", "given_size"),
    [
        ((80, 24), Size(80, 24)),
        ((1, 1), Size(20, 5)),
        ((20, 5), Size(20, 5)),
        ((500, 200), Size(500, 200)),
        ((501, 10_000), Size(500, 200)),
        ((19, 300), Size(20, 200)),
    ],
)
def test_sizes_are_moved_into_what_is_safe(asked, given_size):
    assert clamp(*asked) == given_size


@pytest.mark.parametrize("asked", [(0, 0), (0, 24), (80, 0), (-1, 24), (10**6, 24), (80, 10**6)])
def test_what_is_no_size_is_refused(asked):
    with pytest.raises(OstlerError) as raised:
        clamp(*asked)
    assert raised.value.kind == "bad_request"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a title", "a title"),
        ("\u2733 Claude Code", "\u2733 Claude Code"),
        ("x\u202etxt.exe\x1b[2J\n\u009bm ", "xtxt.exe[2Jm"),
        ("x" * 1000, "x" * 256),
        ("\ufffd", "\ufffd"),
        ("", ""),
    ],
)
def test_a_title_is_one_line_without_anything_that_acts(said: str, shown: str) -> None:
    assert title(said) == shown


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/me/a%20b", "/home/me/a b"),
        ("file://LOCALHOST/tmp", "/tmp"),
        ("file://box/tmp", "/tmp"),
        ("file://elsewhere/tmp", None),
        ("file:///tmp/%1b[2J", None),
        ("file:///" + "x" * 5000, None),
        ("http://box/tmp", None),
        ("file://[/tmp", None),
        ("tmp", None),
        ("", None),
    ],
)
def test_a_folder_is_one_of_this_machine(uri: str, path: str | None) -> None:
    assert folder(uri, host="box") == path


@given(st.binary(max_size=60), st.sampled_from(["", "file://", "file:///"]))
def test_nothing_that_a_program_says_can_raise_or_act(content: bytes, prefix: str) -> None:
    said = prefix + content.decode("utf-8", "replace")
    for shown in (title(said), folder(said) or ""):
        assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in shown)
