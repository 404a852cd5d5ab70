"""Runs a coroutine to its end where an event loop runs already (a notebook): in a thread with its own loop."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """What it returns or raises. A Ctrl-C meanwhile cancels it, waits for its end, and is raised then."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)

    def to_end() -> T:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(_result(task))

    with ThreadPoolExecutor(1, thread_name_prefix="ostler") as pool:
        running = pool.submit(to_end)
        try:
            return running.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(task.cancel)
            raise


async def _result(task: "asyncio.Task[T]") -> T:
    return await task
