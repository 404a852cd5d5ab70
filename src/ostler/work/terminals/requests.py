"""What is asked of a terminal that lives in another ostler process, over its owner's socket."""

from typing import Literal

from ostler.access import Rights
from ostler.model import SignalName
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import Format, ViewerInput
from ostler.work.owner_requests import OwnerRequest


class TerminalRequest(OwnerRequest, frozen=True, kw_only=True):
    terminal: str


class ViewTerminal(TerminalRequest, frozen=True, kw_only=True, tag="view"):
    """Answered by `{"ok": true}`, then by frames in both directions: see `remote_viewing.py`."""

    author: Author
    rights: Rights
    offset: int | None = None
    format: Format = "bytes"


class SnapshotTerminal(TerminalRequest, frozen=True, kw_only=True, tag="terminal_snapshot"):
    history: bool = False


class ReadTerminalText(TerminalRequest, frozen=True, kw_only=True, tag="terminal_text"):
    limit: int | None = None
    since: int | None = None


class TypeIntoTerminal(TerminalRequest, frozen=True, kw_only=True, tag="terminal_input"):
    author: Author
    message: ViewerInput
    take: bool = False


class LeaseTerminal(TerminalRequest, frozen=True, kw_only=True, tag="terminal_lease"):
    author: Author
    action: Literal["take", "release"]


class KillTerminal(TerminalRequest, frozen=True, kw_only=True, tag="terminal_kill"):
    signal: SignalName | None = None


AnyTerminalRequest = (
    ViewTerminal | SnapshotTerminal | ReadTerminalText | TypeIntoTerminal | LeaseTerminal | KillTerminal
)
