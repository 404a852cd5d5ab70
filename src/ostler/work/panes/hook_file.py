"""Leads the hooks of a pane's program to the ostler process that runs its turn: the program outlives each of them."""

import os
from contextlib import suppress

from msgspec import Struct, structs

from ostler.agents.hooks import SCRIPT, program
from ostler.store.files import write_private
from ostler.work.transports.transport import Attempt


class HookFile(Struct, frozen=True):
    """The file that the agent runs for each hook. It names one process; another one that takes over rewrites it.

    Between two turns a person may type, and whoever has put nothing to ostler is not to wait for it.
    """

    path: str
    at_work: bytes
    at_rest: bytes

    @classmethod
    def of(cls, attempt: Attempt, placed: tuple[str, ...]) -> "HookFile | None":
        """`placed` are the files that the program was started with, `attempt` is of this process. None: no hooks."""
        path = next((path for path in placed if os.path.basename(path) == SCRIPT), None)
        callback, face = attempt.callback, attempt.agent.hooks
        if path is None or callback is None or face is None:
            return None
        return cls(path, program(callback, face), program(structs.replace(callback, asks=False), face))

    def take_over(self) -> None:
        """A turn runs here. Raises `store`."""
        self._write(self.at_work)

    def rest(self) -> None:
        """It is over. Raises `store`."""
        self._write(self.at_rest)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # gone with its pane: whoever runs the turn finds that out
            with open(self.path, "rb") as file:
                known = file.read()
            if known != data:
                write_private(self.path, data)
