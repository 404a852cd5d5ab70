"""What an agent has done on this machine through ostler: files beneath its folder, and commands in terminals."""

import asyncio
from typing import TYPE_CHECKING, Any

from ostler.agents.dialog import Call, CallName
from ostler.errors import OstlerError
from ostler.model import Turn
from ostler.work.dialogs.call_files import CallFiles

if TYPE_CHECKING:
    from ostler.work.dialogs.call_terminals import CallTerminals

# A terminal may outlive the turn that made it: so do these.
LASTING: frozenset[CallName] = frozenset({"terminal_output", "terminal_wait", "terminal_kill", "terminal_release"})


class Calls:
    """Serves the calls of one turn, within its access. `terminals` are the dialog's, if it can have any."""

    def __init__(self, turn: Turn, terminals: "CallTerminals | None" = None) -> None:
        self.turn = turn
        self.terminals = terminals
        self._files = CallFiles(turn)

    async def serve(self, call: Call) -> dict[str, Any]:
        """The result of the call. Raises denied, not_found, bad_request, too_many, missing, unsupported."""
        terminals = self.terminals
        match call.name:
            case "read_file":
                return await asyncio.to_thread(self._files.read, call.params)
            case "write_file":
                return await asyncio.to_thread(self._files.write, call.params)
            case "terminal_create" if terminals:
                return await terminals.create(call.params)
            case "terminal_output" if terminals:
                return terminals.output(call.params)
            case "terminal_wait" if terminals:
                return await terminals.wait(call.params)
            case "terminal_kill" if terminals:
                return await terminals.kill(call.params)
            case "terminal_release" if terminals:
                return await terminals.release(call.params)
            case _:
                raise OstlerError("unsupported", f"{call.name} is not offered")
