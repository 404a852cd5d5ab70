"""The empty command: it succeeds without a process."""

from ostler.model import Exit
from ostler.work.transports.transport import Attempt, Carried, TurnContext


class NothingTransport:
    async def run(self, attempt: Attempt, context: TurnContext) -> Carried:
        attempt.reader.evidence.append("empty command")
        exit = Exit(code=0)
        return Carried(verdict=attempt.reader.end(exit, ""), exit=exit, leaked=(), worked=False)
