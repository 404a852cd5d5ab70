"""`ostler play`: recordings of terminals and files, in a terminal and without one."""

import json
import signal
from pathlib import Path

import pytest

from cli.conftest import Shell
from cli.in_pty import InPty


def cast(path: Path, *events: tuple[float, str, str], width: int = 80, height: int = 24) -> Path:
    lines = [json.dumps({"version": 2, "width": width, "height": height}), *map(json.dumps, events)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_terminal_of_ostler_is_played(shell: Shell) -> None:
    assert shell("exec", "--tty", "--quiet", "--", "printf", "\\033[31mred\\033[0m").returncode == 0
    (row,) = json.loads(shell("terminals", "--all", "--json").stdout)
    played = shell("play", row["id"], "--speed", "100")
    assert (played.returncode, played.stdout) == (0, "\x1b[31mred\x1b[0m")
    assert shell("play", row["recording"], "--idle-limit", "0.01").stdout == "\x1b[31mred\x1b[0m"


def test_the_newest_of_a_name_of_a_session_and_of_the_folder(shell: Shell) -> None:
    for name, text in (("one", "first"), ("two", "second")):
        assert shell("exec", "--tty", "--quiet", "--name", name, "--", "printf", text).returncode == 0
    for args, shown in (((), "second"), (("printf",), "second"), (("one",), "first"), (("two",), "second")):
        played = shell("play", *args, "--speed", "100")
        assert (played.returncode, played.stdout) == (0, shown), (args, played.stderr)
    nothing = shell("play", cwd=shell.home)
    assert nothing.returncode == 2 and "this folder has no recordings" in nothing.stderr


def test_pauses_are_as_short_as_asked(shell: Shell) -> None:
    path = cast(shell.folder / "a.cast", (0.0, "o", "one "), (9000.0, "o", "two "), (18000.0, "o", "three"))
    assert shell("play", "a.cast", "--idle-limit", "0.01").stdout == "one two three"
    assert shell("play", str(path), "--speed", "1000000").stdout == "one two three"


def test_what_would_ask_or_act_is_left_out(shell: Shell) -> None:
    cast(shell.folder / "evil.cast", (0.0, "o", "a\x1b[6n\x1b]52;c;aGk=\x07b\x1b]0;title\x07c"), (0.1, "i", "typed"))
    assert shell("play", "evil.cast").stdout == "ab\x1b]0;title\x07c"


@pytest.mark.parametrize(("stop", "code"), [(b"q", 0), (b"\x03", 130), (signal.SIGTERM, 130)])
def test_it_can_be_stopped_and_leaves_the_terminal_in_order(shell: Shell, stop: bytes | int, code: int) -> None:
    cast(shell.folder / "long.cast", (0.0, "o", "\x1b[?1049h\x1b[?25lbegun"), (9000.0, "o", "never"), width=200)
    played = InPty(["play", "long.cast"], cwd=shell.folder, env=shell.environ)
    try:
        assert b"it was recorded at 200" in played.until(b"begun")
        assert not played.in_order()
        if isinstance(stop, bytes):
            played.type(stop)
        else:
            played.signal(stop)
        assert played.end() == code
        assert played.in_order() and b"\x1b[?1049l" in played.seen and b"\x1b[?25h" in played.seen
    finally:
        played.close()


def test_what_cannot_be_played(shell: Shell) -> None:
    (shell.folder / "text.cast").write_text("no recording\n")
    for args, code, words in (
        (["nobody"], 2, "no terminal and no session is called 'nobody'"),
        (["gone.cast"], 2, "gone.cast does not exist"),
        (["text.cast"], 2, "text.cast is not a recording"),
        (["."], 2, "is not a file"),
        (["text.cast", "--speed", "0"], 2, "--speed must be more than 0"),
        (["text.cast", "--idle-limit", "-1"], 2, "--idle-limit must be more than 0"),
    ):
        done = shell("play", *args)
        assert done.returncode == code and words in done.stderr, (args, done.stderr)
