"""`ostler attach` in a real terminal: seeing, typing, sizes, leaving, and what is left of the terminal."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from cli.conftest import Shell
from cli.in_pty import InPty
from ostler.cli.client import DetachKeys

Start = Callable[..., InPty]


@pytest.fixture
def start(shell: Shell) -> Iterator[Start]:
    started: list[InPty] = []

    def begin(*args: str, **options: Any) -> InPty:
        started.append(InPty(list(args), cwd=shell.folder, env=shell.environ, **options))
        return started[-1]

    yield begin
    for each in started:
        each.close()


def opened(start: Start, shell: Shell, *command: str, wanted: bytes, **options: Any) -> tuple[InPty, str]:
    """A program in `ostler exec --tty`, and the id of its terminal."""
    owner = start("exec", "--tty", "--name", "own", "--", *command, **options)
    owner.until(wanted)
    (row,) = json.loads(shell("terminals", "--json").stdout)
    return owner, row["id"]


def test_two_terminals_share_a_shell(start: Start, shell: Shell) -> None:
    owner, id = opened(start, shell, "bash", "--norc", "-i", wanted=b"bash-")
    owner.type(b"echo before-$((1+1))\r")
    owner.until(b"before-2")
    other = start("attach", id, cols=101, rows=33)
    other.until(b"before-2")
    assert not other.in_order()
    until_sized(other, b"33 101")
    other.type(b"echo from-$((2+3))\r")
    owner.until(b"from-5")
    other.resize(66, 22)
    until_sized(other, b"22 66")
    other.type(b"\x1d")
    assert other.end() == 0
    assert other.in_order() and b"\x1b[?2004l" in other.seen
    assert f"[detached from {id} (bash); it keeps running]".encode() in other.seen
    owner.type(b"echo $((40+2)); exit 3\r")  # it is taken back by typing
    owner.until(b"42")
    assert owner.end() == 3


def until_sized(terminal: InPty, size: bytes) -> None:
    """The shell learns of a size a moment after somebody has it."""
    for number in range(200):
        terminal.type(b"stty size; echo size-$((%d+1000))\r" % number)
        if size in terminal.until(b"size-%d" % (number + 1000)):
            return
    raise AssertionError(f"it never had the size {size!r}")


def test_by_session_and_name_and_the_programs_end(start: Start, shell: Shell) -> None:
    owner, id = opened(start, shell, "sh", "-c", "echo up; echo two; echo three; read x; exit 9", wanted=b"three")
    for key in ("own", "sh"):
        other = start("attach", key, "--view")
        other.until(b"up")
        other.type(b"nothing of this is sent\r\x1d")
        assert other.end() == 0
    other = start("attach", id)
    other.until(b"three")
    other.type(b"\r")
    assert (other.end(), owner.end()) == (9, 9)
    assert other.in_order()
    assert other.screen() == ["up", "two", "three", "", "", f"[{id} (sh) has ended: exit code 9]"]
    late = start("attach", id)
    assert late.end() == 9
    assert b"up" in late.seen and b"has ended: exit code 9" in late.seen


def test_without_taking_the_keyboard_only_a_free_one_is_used(start: Start, shell: Shell) -> None:
    owner, id = opened(start, shell, "cat", wanted=b"\x1b[2J")
    owner.type(b"mine\r")
    owner.until(b"mine\r\nmine")
    other = start("attach", id, "--no-take", "--detach-keys", "ctrl-p,ctrl-q")
    other.until(b"mine")
    other.type(b"not this\r")
    other.until(b"\x07")
    other.type(b"\x10")
    other.type(b"\x11")
    assert other.end() == 0
    assert b"not this" not in other.seen
    owner.type(b"\x04")
    assert owner.end() == 0
    assert b"not this" not in owner.seen


def test_a_program_on_the_alternate_screen(start: Start, shell: Shell) -> None:
    into, out = "\\033[?1049h\\033[?1000h\\033[H", "\\033[?1049l"
    script = f"echo main; printf '{into}inside'; read x; printf '{out}'; echo back; read x"
    _, id = opened(start, shell, "sh", "-c", script, wanted=b"inside")
    other = start("attach", id)
    drawn = other.until(b"inside")
    assert b"\x1b[?1049h" in drawn and b"\x1b[?1000h" in drawn
    other.type(b"\r")
    assert b"\x1b[?1049l" in other.until(b"main")  # what the other screen had is drawn again
    other.until(b"back")
    other.type(b"\x1d")
    assert other.end() == 0 and other.in_order()
    assert b"\x1b[?1000l" in other.seen
    assert other.screen()[:2] == ["main", "back"]


def test_what_is_below_the_cursor_is_not_mixed_with_what_is_said(start: Start, shell: Shell) -> None:
    _, id = opened(start, shell, "sh", "-c", "printf 'box\\nstatus\\nmore\\033[1;3H'; exec cat", wanted=b"status")
    other = start("attach", id)
    other.until(b"status")
    other.type(b"\x1d")
    assert other.end() == 0
    assert other.screen() == ["box", f"[detached from {id} (sh); it keeps running]"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_in_order(start: Start, shell: Shell, number: int) -> None:
    owner, id = opened(start, shell, "sh", "-c", "echo up; exec cat", wanted=b"up")
    other = start("attach", id)
    other.until(b"up")
    other.signal(number)
    assert other.end() == 128 + number
    assert other.in_order() and b"\x1b[?2004l" in other.seen
    owner.type(b"on\r")
    owner.until(b"on\r\non")


def test_a_killed_owner_is_told(start: Start, shell: Shell) -> None:
    owner, id = opened(start, shell, "sh", "-c", "echo up; exec cat", wanted=b"up")
    other = start("attach", id)
    other.until(b"up")
    owner.process.kill()
    assert other.end() == 1
    assert other.in_order()
    assert re.search(rb"\[t-\w+ \(sh\): the ostler process \d+, which ran this terminal, is gone\]", other.seen)


def test_queries_of_a_program_are_answered_once_and_not_by_the_users_terminal(start: Start, shell: Shell) -> None:
    script = "printf 'up\\033[c\\033[6n\\033]11;?\\007'; exec cat -v"
    _, id = opened(start, shell, "sh", "-c", script, wanted=b"up")
    other = start("attach", id)
    shown = other.until(b"up")
    other.type(b"\x1d")
    assert other.end() == 0
    for seen in (shown, other.seen):
        assert b"\x1b[c" not in seen and b"\x1b[6n" not in seen and b"]11;?" not in seen


def test_without_a_terminal_it_only_shows(start: Start, shell: Shell) -> None:
    owner, id = opened(start, shell, "sh", "-c", "echo up; read x; echo over; exit 4", wanted=b"up")
    process = shell.start("attach", id)
    assert process.stdout is not None
    seen = b""
    while b"up" not in seen:
        seen += process.stdout.read1(4096)
    owner.type(b"\r")
    out, err = process.communicate()
    assert (process.returncode, b"over" in out) == (4, True)  # as it came, or as a screen drawn anew
    assert err.decode() == f"[{id} (sh) has ended: exit code 4]\n"


def test_what_cannot_be_attached_to(shell: Shell) -> None:
    nothing = shell("attach", "nobody")
    assert (nothing.returncode, nothing.stderr) == (
        2,
        "ostler: no terminal and no session is called 'nobody'. List them: ostler terminals --all\n",
    )
    for wrong in (["t-1", "--view", "--no-take"], ["t-1", "--detach-keys", "ctrl-ö"], ["t-1", "--detach-keys", ""], []):
        assert shell("attach", *wrong).returncode == 2


# -- the keys to leave ------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"\x1d", b"\x1b[93;5u", b"\x1b[93;5:1u", b"\x1b[93:125;5u", b"\x1b[27;5;93~"])
def test_the_key_is_known_in_every_form(sent: bytes) -> None:
    assert DetachKeys("ctrl-]").feed(b"ab" + sent + b"cd") == (b"ab", True)


def test_several_keys_are_held_until_it_is_known() -> None:
    keys = DetachKeys("ctrl-p,ctrl-q")
    assert keys.feed(b"a\x10") == (b"a", False)
    assert keys.feed(b"b") == (b"\x10b", False)
    assert keys.feed(b"\x10") == (b"", False)
    assert keys.feed(b"\x11") == (b"", True)
    assert DetachKeys("ctrl-p,ctrl-q").feed(b"x\x10\x11y") == (b"x", True)
    assert DetachKeys("q").feed(b"") == (b"", True)


@pytest.mark.parametrize("wrong", ["", "ctrl-", "ctrl-1", "alt-x", "ctrl-a,,b", "é"])
def test_what_is_no_key(wrong: str) -> None:
    with pytest.raises(click.UsageError):
        DetachKeys(wrong)
