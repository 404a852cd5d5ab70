"""The calls of a dialog while they are being served."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ostler.agents.dialog import Call
from ostler.errors import INTERNAL_ERROR, OstlerError
from ostler.model import Problem
from ostler.work.dialogs.calls import LASTING, Calls
from ostler.work.transports.tasks import cancel_all

CallReply = Callable[[str, dict[str, Any] | None, Problem | None], Awaitable[None]]


class CallTasks:
    """What an agent wants done is done beside the reading: it may take long, and be cancelled."""

    def __init__(self, reply: CallReply, stumbled: Callable[[Exception], Awaitable[None]]) -> None:
        self._reply, self._stumbled = reply, stumbled
        self._tasks: dict[asyncio.Task[None], Call] = {}
        self._calls: Calls | None = None  # of the turn that runs, or of the last one
        self._turn_runs = False
        self.closed = False  # nobody reads a reply any more

    def begin_turn(self, calls: Calls) -> None:
        self._calls, self._turn_runs = calls, True

    async def end_turn(self) -> None:
        """Cancels what does not outlive a turn."""
        self._turn_runs = False
        await cancel_all([task for task, call in self._tasks.items() if call.name not in LASTING])

    def start(self, call: Call) -> None:
        task = asyncio.create_task(self._serve(call))
        self._tasks[task] = call
        task.add_done_callback(self._tasks.pop)

    def cancel(self, id: str) -> None:
        for task in [task for task, call in self._tasks.items() if call.id == id]:
            task.cancel()

    async def close(self) -> None:
        self.closed = True
        await cancel_all([*self._tasks])

    async def _serve(self, call: Call) -> None:
        result: dict[str, Any] | None = None
        problem: Problem | None = None
        try:
            if self._calls is None or (not self._turn_runs and call.name not in LASTING):
                raise OstlerError("bad_request", "no turn is running")
            result = await self._calls.serve(call)
        except asyncio.CancelledError:
            if not self.closed:
                await self._reply(call.id, None, Problem(kind="cancelled", message="the turn is over"))
            raise
        except OstlerError as error:
            problem = Problem.of(error)
        except OSError as error:
            problem = Problem(kind="store", message=str(error))
        except Exception as error:  # a bug of ours: the agent must not wait for ever
            problem = Problem(kind="crashed", message=INTERNAL_ERROR)
            await self._stumbled(error)
        try:
            await self._reply(call.id, result, problem)
        except Exception as error:  # the adapter's: nobody waits for this task
            await self._stumbled(error)
