"""What is piped into a command: text within limits; a stdin that was only left open is not waited for."""

import errno
import os
import select
import sys

from ostler.cli.asking import utf8
from ostler.errors import OstlerError
from ostler.model import MAX_PROMPT
from ostler.process import tree
from ostler.work.turns.attachments import MAX_INLINE

PATIENCE = 3.0  # seconds of silence, as of `claude -p`
_FD = 0


def at_a_terminal() -> bool:
    """Whether somebody sits here who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def read_prompt() -> str:
    """The prompt on stdin, however long it takes: valid UTF-8, no NUL, not empty."""
    text = utf8(_read(MAX_PROMPT, "the prompt on stdin", required=True), "the prompt on stdin", "Convert it to UTF-8")
    if not text.strip():
        raise OstlerError("bad_request", "the prompt on stdin is empty", 'Say what to do: ostler run claude "…"')
    return text


def read_context() -> str:
    """The text that is piped in beside a prompt; "" where there is none. A program that writes it is waited for."""
    what = "the text on stdin"
    text = utf8(_read(MAX_INLINE, what, required=False), what, "Convert it to UTF-8, or leave it out with --no-stdin")
    return text.removesuffix("\n") if text.strip() else ""


def _read(limit: int, what: str, *, required: bool) -> bytes:
    """All of stdin. Unless it is required or somebody writes it, only if something comes soon."""
    poll, data, noted = select.poll(), bytearray(), False
    poll.register(_FD, select.POLLIN)
    while len(data) <= limit:
        if not noted and not poll.poll(PATIENCE * 1000):
            noted = True
            if not (required or data or tree.is_output(_FD)):
                _note(f"nothing came on stdin within {PATIENCE:g} s: going on without it (--no-stdin does not wait)")
                return b""
            _note("waiting for the end of stdin")
        poll.poll()
        chunk = _chunk(required)
        if not chunk:
            return bytes(data)
        data += chunk
    raise OstlerError(
        "bad_request",
        f"{what} is larger than {limit >> 20} MiB",
        "Put it in a file of the folder and name that in the prompt",
    )


def _chunk(required: bool) -> bytes:
    try:
        return os.read(_FD, 1 << 16)
    except OSError as error:
        if error.errno == errno.EBADF and not required:
            return b""  # `nohup` leaves a stdin that cannot be read
        raise OstlerError("bad_request", f"stdin cannot be read: {error.strerror}") from error


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)
