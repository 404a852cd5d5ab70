"""What is piped into `run` and `exec`: it reaches the agent or the command, or it is said why not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ECHO = "[[echo:prompt]] sum up"
WITH_TEXT = f'{ECHO}\n\n<file name="stdin">\none\n\ntwo\n</file>'


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def test_piped_text_goes_with_the_prompt(shell: Any) -> None:
    ran = shell("run", "script", ECHO, "--json", "--name", "s", stdin=b"one\n\ntwo\n")
    envelope = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr, envelope["text"]) == (0, "", WITH_TEXT)
    assert Path(envelope["artifacts"]["prompt"]).read_text() == WITH_TEXT
    assert shell("show", "s").stdout.startswith(f"> {ECHO}\n+ stdin  3 lines\n\n")
    (row,) = json.loads(shell("sessions", "--json").stdout)
    assert row["title"] == ECHO
    again = shell("run", "--session", "s", ECHO, "--dialog", stdin=b"one\n\ntwo\n")
    assert (again.returncode, again.stderr) == (0, "note: stdin is added to the prompt (3 lines)\n")
    assert WITH_TEXT in again.stdout


@pytest.mark.parametrize("stdin", [b"", b" \n\n"])
def test_blank_input_is_no_context(shell: Any, stdin: bytes) -> None:
    assert shell("run", "-q", "script", ECHO, stdin=stdin).stdout == f"{ECHO}\n"


def test_nothing_is_taken_from_stdin_where_that_is_said(shell: Any, pipe: tuple[int, int]) -> None:
    assert shell("run", "-q", "--no-stdin", "script", ECHO, stdin=b"one").stdout == f"{ECHO}\n"
    open_for_ever = shell.start("run", "-q", "--no-stdin", "script", ECHO, stdin=pipe[0])
    assert open_for_ever.communicate(timeout=60) == (f"{ECHO}\n".encode(), b"")
    for words in (("script", "-"), ("script",)):
        refused = shell("run", "--no-stdin", *words, stdin=b"x")
        assert refused.returncode == 2 and "stdin" in refused.stderr


@pytest.mark.parametrize(
    ("stdin", "complaint"),
    [
        (b"caf\xe9\n", "the text on stdin is not valid UTF-8 (byte 3). Convert it to UTF-8, or leave it out with"),
        (
            b"\x7fELF\x02\0\xff",
            "the text on stdin is not text: byte 5 is NUL. Convert it to UTF-8, or leave it out",
        ),
        (b"a" * (8 << 20) + b"b", "the text on stdin is larger than 8 MiB. Put it in a file of the folder and name"),
    ],
)
def test_what_cannot_go_along_is_refused(shell: Any, stdin: bytes, complaint: str) -> None:
    ran = shell("run", "script", ECHO, stdin=stdin)
    assert (ran.returncode, ran.stdout, ran.stderr[: len(complaint) + 8]) == (2, "", f"ostler: {complaint}")
    assert not (shell.home / ".local").exists()


def test_a_stdin_that_was_only_left_open_is_not_waited_for(shell: Any, pipe: tuple[int, int]) -> None:
    ran = shell.start("run", "-q", "script", ECHO, stdin=pipe[0])
    out, err = ran.communicate(timeout=60)
    assert (ran.returncode, out.decode()) == (0, f"{ECHO}\n")
    assert err.decode() == "note: nothing came on stdin within 3 s: going on without it (--no-stdin does not wait)\n"


def test_a_program_that_writes_late_is_waited_for(shell: Any, pipe: tuple[int, int]) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=pipe[1]) as writer:
        assert writer.stdin is not None
        ran = shell.start("run", "-q", "script", ECHO, stdin=pipe[0])
        assert ran.stderr.readline() == b"note: waiting for the end of stdin\n"
        os.dup2(2, pipe[1])  # `cat` alone holds the pipe now
        writer.communicate(b"one\n\ntwo\n")
    out, err = ran.communicate(timeout=60)
    assert (ran.returncode, out.decode(), err) == (0, f"{WITH_TEXT}\n", b"")


@pytest.mark.parametrize("redirection", ["<&-", "0>/dev/null"])  # closed; as `nohup` leaves it
def test_a_stdin_that_cannot_be_read_is_none(shell: Any, redirection: str) -> None:
    line = f'exec "$0" -m ostler run -q script "$1" {redirection}'
    ran = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, ECHO],
        check=False,
        cwd=shell.folder,
        env=shell.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{ECHO}\n", "")


def test_a_wrong_agent_is_told_before_stdin_is_read(shell: Any, pipe: tuple[int, int]) -> None:
    ran = shell.start("run", "scirpt", ECHO, stdin=pipe[0])
    _, err = ran.communicate(timeout=60)
    assert (ran.returncode, err.startswith(b"ostler: no agent or model is called 'scirpt'")) == (2, True)


# -- exec -------------------------------------------------------------------------------------------


def test_a_command_reads_what_is_piped_in(shell: Any) -> None:
    data = bytes(range(256)) * 1000
    ran = shell.start("exec", "-q", "--", "cat", stdin=subprocess.PIPE)
    assert ran.communicate(data, timeout=60) == (data, b"")
    left = shell.start("exec", "-q", "--", "head", "-c", "1", stdin=subprocess.PIPE)
    assert left.communicate(b"ab", timeout=60) == (b"a", b"")
    assert shell("exec", "-q", "--", "cat").stdout == ""  # /dev/null
