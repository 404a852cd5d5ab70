import base64
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.errors import OstlerError
from ostler.process import Size
from ostler.terminal.policy import (
    ClipboardRead,
    ClipboardWrite,
    Folder,
    Hyperlink,
    Policy,
    ProgressReport,
    Status,
    Title,
    clamp,
    osc,
)


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
    ("content", "told"),
    [
        (b"0;a title", Title("a title")),
        (b"2;a;b", Title("a;b")),
        ("2;\u2733 Claude Code".encode(), Title("\u2733 Claude Code")),
        ("2;x\u202etxt.exe\x1b[2J\n\u009bm ".encode(), Title("xtxt.exe[2Jm")),
        (b"2;" + b"x" * 1000, Title("x" * 256)),
        (b"2;\xff", Title("\ufffd")),
        (b"1;icon", None),
        (b"7;file:///home/me/a%20b", Folder("/home/me/a b")),
        (b"7;file://LOCALHOST/tmp", Folder("/tmp")),
        (b"7;file://box/tmp", Folder("/tmp")),
        (b"7;file://elsewhere/tmp", None),
        (b"7;file:///tmp/%1b[2J", None),
        (b"7;http://box/tmp", None),
        (b"7;file://[/tmp", None),
        (b"7;tmp", None),
        (b"8;;https://example.org/a?b=c#d", Hyperlink("https://example.org/a?b=c#d")),
        (b"8;id=1;mailto:me@example.org", Hyperlink("mailto:me@example.org")),
        (b"8;;", Hyperlink("")),
        (b"8;;javascript:alert(1)", Hyperlink("")),
        (b"8;;JavaScript:alert(1)", Hyperlink("")),
        (b"8;;data:text/html,x", Hyperlink("")),
        (b"8;;file:///etc/passwd", Hyperlink("")),
        (b"8;;vscode://x", Hyperlink("")),
        (b"8;;http:alert", Hyperlink("")),
        (b"8;;http://", Hyperlink("")),
        (b"8;;http://[", Hyperlink("")),
        (b"8;;http://a b", Hyperlink("")),
        (b'8;;http://a/"><script>', Hyperlink("")),
        (b"8;;http://a/\x0b", Hyperlink("")),
        ("8;;http://a/\u202e".encode(), Hyperlink("")),
        (b"8;;http://a/" + b"x" * 5000, Hyperlink("")),
        (b"9;4;1;50", ProgressReport("normal", 50)),
        (b"9;4;2;9999", ProgressReport("error", 100)),
        (b"9;4;3", ProgressReport("busy")),
        (b"9;4;4;", ProgressReport("paused")),
        (b"9;4;0;0", ProgressReport("none")),
        (b"9;4;5;1", None),
        (b"9;4;1;-1", None),
        (b"9;a notification", None),
        (b"7501;state=working:app=codex", Status("working", "codex")),
        (
            b"7501;state=blocked:app=claude-code:kind=permission:msg=" + base64.b64encode(b"May I\n?"),
            Status("blocked", "claude-code", "May I?"),
        ),
        (b"7501;state=idle:msg=%%%", Status("idle")),
        (b"7501;state=gone", None),
        (b"7501;?", None),
        (b"52;c;aGk=", None),
        (b"52;c;?", None),
        (b"777;notify;a;b", None),
        (b"1337;File=name=x:AAAA", None),
        (b"11;?", None),
        (b"4;1;?", None),
        (b"133;A", None),
        (b"", None),
    ],
)
def test_what_leaves_a_terminal(content, told):
    assert osc(content, host="box") == told


def test_the_clipboard_is_open_only_where_that_was_allowed():
    writing, reading = Policy(clipboard_write=True), Policy(clipboard_read=True)
    assert osc(b"52;c;aGk=", writing) == ClipboardWrite("hi")
    assert osc(b"52;;aGk=", reading) is None
    assert osc(b"52;c;?", writing) is None
    assert osc(b"52;c;?", reading) == ClipboardRead()
    assert osc(b"52;c;!!", writing) is None
    assert osc(b"52;c;" + b"A" * 200_000, writing) is None


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"2;", b"7;file://", b"8;;http://", b"9;4;", b"52;c;", b"7501;state="]),
)
def test_nothing_that_a_program_says_can_raise_or_act(content, prefix):
    told = osc(prefix + content, Policy(clipboard_write=False))
    for field in getattr(told, "__struct_fields__", ()):
        value = getattr(told, field)
        assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in str(value))
