"""Nodes as DBOS workflows, on SQLite or Postgres: what is finished is never done again.

A workflow's steps come in the same order whenever it is run again. Nothing but JSON is kept. DBOS runs workflows in
threads of its own; the work itself is done on the event loop of the Ostler.
"""

import asyncio
import json
import logging
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar, cast

import msgspec
from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos._serialization import Serializer  # not exported, but what the setting `serializer` takes
from msgspec import structs

from ostler.errors import OstlerError, internal_error
from ostler.pipelines.approvals import approved, decided, question
from ostler.pipelines.expressions import BadExpression, evaluated
from ostler.pipelines.model import Approval, Node, NodeResult
from ostler.pipelines.node_work import NodePiece, NodeWork
from ostler.pipelines.steps import Steps
from ostler.pipelines.templates import filled
from ostler.pipelines.values import failed_expression, readable, total_cost

T = TypeVar("T")
_log = logging.getLogger(__name__)
_ERROR = "ostler.error"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or an item of it, with all that it reads."""

    run: str
    node: Node
    values: dict[str, Any]
    item: str = ""
    manual: bool = False  # a person is asked first; of items, whoever begins them asks for all

    @property
    def id(self) -> str:
        return f"{self.run}:{self.node.name}" + (f":{self.item}" if self.item else "")


class _Json(Serializer):
    """Exceptions are read back as OstlerError."""

    def serialize(self, data: Any) -> str:
        if not isinstance(data, Exception):
            return json.dumps(data)
        error = _known(data)
        return json.dumps({_ERROR: [error.kind, error.message, error.hint]})

    @classmethod
    def deserialize(cls, serialized_data: str) -> Any:
        data = json.loads(serialized_data)
        if isinstance(data, dict) and data.keys() == {_ERROR}:
            return OstlerError(*data[_ERROR])
        return data

    def name(self) -> str:
        return "json"


def _known(error: Exception) -> OstlerError:
    """The error as OstlerError: one that nobody expected is a bug."""
    return error if isinstance(error, OstlerError) else OstlerError("crashed", internal_error(error))


class _Current:
    """DBOS is one for each process, and so is the run that it works for."""

    work: NodeWork | None = None
    loop: asyncio.AbstractEventLoop | None = None
    abandoned = False


class _Abandoned(BaseException):
    """Not an Exception: DBOS would keep that as the step's result, and whoever goes on with the run would find it."""


def _on_loop(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives. What goes wrong is an OstlerError, so that whoever resumes the run is told the same."""
    assert _Current.loop is not None
    try:
        return asyncio.run_coroutine_threadsafe(work, _Current.loop).result()
    except CancelledError:  # the process ends
        raise _Abandoned from None
    except Exception as error:
        if not isinstance(error, OstlerError):
            _log.exception("a step failed")
        raise _known(error) from error
    finally:
        if _Current.abandoned:
            raise _Abandoned


def _work() -> NodeWork:
    assert _Current.work is not None
    return _Current.work


class Engine:
    """Runs the jobs of one run. `close` may be called twice."""

    def __init__(self, work: NodeWork, steps: Steps, threads: int) -> None:
        _Current.work, _Current.loop, _Current.abandoned = work, asyncio.get_running_loop(), False
        self._open, self._steps = True, steps
        settings = {
            "name": "ostler",
            "log_level": "ERROR",
            "console_log_level": "ERROR",
            "serializer": _Json(),
            "use_listen_notify": False,
            "max_executor_threads": threads,
            **steps.config(),
        }
        DBOS(config=cast(DBOSConfig, settings))

    async def launch(self) -> None:
        """Begins, and goes on with what was under way when the last process ended."""
        await asyncio.to_thread(self._steps.launch, DBOS.launch)

    async def forget(self) -> None:
        """The run has ended: its steps are not needed any more."""
        await asyncio.to_thread(self._steps.forget)

    def abandon(self) -> None:
        """From now on nothing of what steps do is kept: the process ends, or another machine goes on with the run."""
        _Current.abandoned = True

    async def close(self) -> None:
        if self._open:
            self._open = False
            self.abandon()
            await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=0)
            self._steps.close()
            _Current.work = _Current.loop = None

    async def run(self, job: Job) -> NodeResult:
        """The result of a job, which is run once, however often it is asked for."""
        try:
            return msgspec.convert(await asyncio.to_thread(self._run, job), NodeResult)
        except OstlerError as error:  # of a step, or of DBOS, which has kept it
            return NodeResult(state="failed", error=str(error), kind=error.kind)

    def _run(self, job: Job) -> Any:
        with SetWorkflowID(job.id):
            handle = DBOS.start_workflow(node_workflow, msgspec.to_builtins(job))
        return handle.get_result(polling_interval_sec=self._steps.poll)


@DBOS.workflow(name="node")
def node_workflow(given: dict[str, Any]) -> Any:
    job = msgspec.convert(given, Job)
    try:
        return msgspec.to_builtins(_node(job, job.node))
    except BadExpression as error:
        return msgspec.to_builtins(failed_expression(error))


def _node(job: Job, node: Node) -> NodeResult:
    if job.manual or node.gate:
        said = msgspec.convert(approval_step(msgspec.to_builtins(job), question(node, [job.values])), Approval)
        if (result := decided(node, said)) is not None:
            return result
        node = approved(node, said)
    result = _rounds(job, node)
    return result if node.worktree is None else _finished(_piece(node, job, 0, 0), result)


def _finished(piece: Any, result: NodeResult) -> NodeResult:
    """Two steps: the diff is kept before the branch is merged, or else a crash would lose it."""
    try:
        result = msgspec.convert(commit_step(piece, msgspec.to_builtins(result)), NodeResult)
        return msgspec.convert(merge_step(piece, msgspec.to_builtins(result)), NodeResult)
    except OstlerError as error:
        return structs.replace(result, state="failed", error=str(error), kind=error.kind)


def _rounds(job: Job, node: Node) -> NodeResult:
    """Once; or until the check of its loop passes, so often at most."""
    if node.loop is None:
        return _tried(job, node, job.values, 0)
    values, cost = {**job.values, "last": {}, "check": {}}, None
    for number in range(node.loop.times):
        result = _tried(job, node, values, number)
        cost = total_cost((cost, result.cost_usd))
        last, result = readable(result), structs.replace(result, cost_usd=cost)
        if not result.ok:
            return result
        try:
            passed, check = _passed(job, node, last, number)
        except BadExpression as error:
            return structs.replace(result, state="failed", kind="bad_request", error=str(error))
        if passed:
            return structs.replace(result, notices=(*result.notices, f"passed after {number + 1} rounds"))
        values = {**job.values, "last": last, "check": check}
    return structs.replace(
        result, state="failed", kind="unproven", error=f"its check did not pass in {node.loop.times} rounds"
    )


def _passed(job: Job, node: Node, last: dict[str, Any], number: int) -> tuple[bool, dict[str, Any]]:
    assert node.loop is not None
    if node.loop.until:
        return bool(evaluated(node.loop.until, {**job.values, "self": last})), {}
    check = msgspec.convert(check_step(_piece(node, job, number, 0), list(node.loop.check)), NodeResult)
    return check.ok, readable(check)


def _tried(job: Job, node: Node, values: dict[str, Any], number: int) -> NodeResult:
    try:
        prompt = filled(node.prompt, values)
        command = [filled(word, values) for word in node.command]
    except BadExpression as error:
        return failed_expression(error)
    cost = None
    for attempt in range(node.retry + 1):
        done = attempt_step(_piece(node, job, number, attempt), prompt, command)
        result = msgspec.convert(done, NodeResult)
        cost = total_cost((cost, result.cost_usd))
        if result.ok or result.state == "cancelled":
            break
    return structs.replace(result, cost_usd=cost)


def _piece(node: Node, job: Job, number: int, attempt: int) -> Any:
    return msgspec.to_builtins(NodePiece(node=node, item=job.item, round=number, attempt=attempt))


@DBOS.step(name="approval")
def approval_step(given: dict[str, Any], asked: str) -> Any:
    return msgspec.to_builtins(_on_loop(_work().approval(msgspec.convert(given, Job).node, asked)))


@DBOS.step(name="attempt")
def attempt_step(piece: dict[str, Any], prompt: str, command: list[str]) -> Any:
    return msgspec.to_builtins(_on_loop(_work().attempt(msgspec.convert(piece, NodePiece), prompt, tuple(command))))


@DBOS.step(name="check")
def check_step(piece: dict[str, Any], command: list[str]) -> Any:
    return msgspec.to_builtins(_on_loop(_work().check(msgspec.convert(piece, NodePiece), tuple(command))))


@DBOS.step(name="finish")  # it had that name when it did the work of the next one, too
def commit_step(piece: dict[str, Any], result: dict[str, Any]) -> Any:
    done = _work().commit(msgspec.convert(piece, NodePiece), msgspec.convert(result, NodeResult))
    return msgspec.to_builtins(_on_loop(done))


@DBOS.step(name="merge")
def merge_step(piece: dict[str, Any], result: dict[str, Any]) -> Any:
    done = _work().merge(msgspec.convert(piece, NodePiece), msgspec.convert(result, NodeResult))
    return msgspec.to_builtins(_on_loop(done))
