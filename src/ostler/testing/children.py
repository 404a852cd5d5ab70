"""The scripted agent's children, and how it is told to stop."""

from __future__ import annotations

TYPE_CHECKING = False  # spares the import of typing: this file is part of the agent's start
if TYPE_CHECKING:
    import subprocess


class AgentExit(BaseException):
    """Ends the agent here and now, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Interrupted(AgentExit):
    """Ends the turn that is being played, not the agent."""


_starting = False  # a child is being started: a signal now would lose sight of it
_stopped: AgentExit | None = None  # what a signal asked for meanwhile


def stop(number: int, frame: object) -> None:
    """The handler of INT and TERM."""
    leave(AgentExit(128 + number))


def leave(wanted: AgentExit) -> None:
    """For signal handlers: leaves now, or once the child that is being started is known."""
    global _stopped
    if _starting:
        _stopped = wanted
    else:
        raise wanted


def run(argv: list[str]) -> tuple[int, str]:
    """A child's exit code and output; ended with us if we are told to stop."""
    import subprocess

    global _starting, _stopped
    child: subprocess.Popen[bytes] | None = None
    output = b""
    try:
        _starting = True
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
            )
        except OSError as error:
            output = f"{argv[0]}: {error.strerror}".encode()
        _starting = False
        if _stopped is not None:
            wanted, _stopped = _stopped, None
            raise wanted
        if child is not None:
            output = child.communicate()[0]
    except AgentExit:
        if child is not None:
            _end(child)
        raise
    return child.returncode if child else 127, output.decode("utf-8", "replace")


def _end(child: subprocess.Popen[bytes]) -> None:
    """With its whole group: a shell does not hand a signal on to what it runs."""
    import os
    import signal
    import subprocess

    if child.poll() is not None:
        return
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(0.5)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
