"""What a badly behaved agent does: crash, leave a daemon behind, flood, write anything but records."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from ostler.testing.steps import signal_number

TYPE_CHECKING = False  # spares the import of typing: the scripted agent imports this
if TYPE_CHECKING:
    from typing import Any

# Text between records, a half record, an unknown one, JSON that is no object, invalid UTF-8, a lone surrogate,
# known records with wrong types, an event that is not the agent's to say, deep nesting, blank and CRLF lines.
GARBAGE = b"\n".join(
    (
        b"Warning: this line is not JSON",
        b'{"kind": "text", "text": "half a rec',
        b'{"kind": "telepathy", "text": "unknown kind"}',
        b'{"type": "surprise", "n": 1}',
        b'{"no": "tag at all"}',
        b"[1, 2, 3]",
        b"null",
        b'"text"',
        b"1e400",
        b'{"kind": "notice", "text": "invalid \xff\xfe utf-8"}',
        b'{"kind": "notice", "text": "lone \\ud800 surrogate"}',
        b'{"kind": "text", "text": 7}',
        b'{"kind": "tool_started", "id": null}',
        b'{"type": "result", "ok": "yes", "usage": []}',
        b'{"kind": "ended", "outcome": "done"}',
        b"[" * 5000,
        b"",
        b'{"kind": "notice", "text": "after the garbage"}\r',
        b"",
    )
)


def crash(name: str) -> None:
    """Dies by that signal, without a core file."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number = signal_number(name)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    os.kill(os.getpid(), number)
    time.sleep(5)  # until it arrives


def double_fork(options: dict[str, Any]) -> None:
    """Leaves a daemon behind in its own session; returns once its pid is in the file."""
    pid_file = os.path.abspath(options["pid_file"])
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        deadline = time.monotonic() + 30
        while not os.path.exists(pid_file) and time.monotonic() < deadline:
            time.sleep(0.005)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    _daemon(pid_file, options)


def _daemon(pid_file: str, options: dict[str, Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # `sleep` inherits this
    if not options.get("hold"):
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
    with open(pid_file + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(pid_file + ".new", pid_file)  # whoever sees the file can read it
    env = {"PATH": os.environ.get("PATH", os.defpath)} if options.get("scrub") else dict(os.environ)
    os.execvpe("sleep", ["sleep", str(options.get("seconds", 60))], env)


def flood(options: dict[str, Any], id: str) -> str:
    """Writes that many deltas as fast as it can, then the whole text, which is returned."""
    width = options.get("width", 0)
    lines = [f"line {number}\n".rjust(width, ".") for number in range(options.get("lines", 10_000))]
    out = sys.stdout.buffer
    for line in lines:
        out.write(json.dumps({"kind": "text_delta", "text": line, "id": id}).encode() + b"\n")
    text = "".join(lines)
    out.write(json.dumps({"kind": "text", "text": text, "id": id}).encode() + b"\n")
    out.flush()
    return text
