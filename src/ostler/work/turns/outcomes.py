"""How an attempt went, told from what was met: a verdict, an error of the system, a request to stop."""

import errno
import re
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ostler.errors import kind_of_os_error
from ostler.model import AnyEvent, Outcome, Problem, ToolEnded, Verdict
from ostler.work.transports.transport import Carried, stopped_verdict
from ostler.work.turns import schema

if TYPE_CHECKING:
    from ostler.work.hooks.hook_turn import HookTurn

_REFUSED = r"(?i)EACCES|EPERM|permission denied|operation not permitted"


def failed(outcome: Outcome, problem: Problem) -> Carried:
    return Carried(verdict=Verdict(outcome=outcome, error=problem), exit=None, leaked=(), worked=True)


def stopped(problem: Problem) -> Carried:
    verdict = stopped_verdict(Verdict(outcome="failed"), problem)
    return Carried(verdict=verdict, exit=None, leaked=(), worked=True)


def os_problem(error: OSError) -> Problem:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = "the disk is full: the turn's files could not be written"
        return Problem(kind="store", message=message, hint="Free some space and run it again")
    return Problem(kind=kind_of_os_error(error, "crashed"), message=str(error))


def with_evidence(carried: Carried, hooks: "HookTurn | None") -> Carried:
    if hooks is None or not hooks.fired:
        return carried
    evidence = (*carried.verdict.evidence, f"hooks: {', '.join(hooks.fired[:20])}")
    return structs.replace(carried, verdict=structs.replace(carried.verdict, evidence=evidence))


def with_wall_hint(carried: Carried) -> Carried:
    """Of a turn behind a wall: what to do where its agent met that wall."""
    problem = carried.verdict.error
    if problem is None or problem.kind != "crashed" or not re.search(_REFUSED, problem.message):
        return carried
    hint = "It ran behind a wall; add the paths it must write to wall_paths in your settings"
    hinted = structs.replace(problem, hint=". ".join(filter(None, (problem.hint, hint))))
    return structs.replace(carried, verdict=structs.replace(carried.verdict, error=hinted))


def stopped_tool(event: AnyEvent) -> AnyEvent:
    """A tool that ends badly once its turn was stopped did not fail by itself."""
    if not isinstance(event, ToolEnded) or event.ok or event.denied:
        return event
    return structs.replace(event, stopped=True)


def judge_answer(wanted: dict[str, Any], verdict: Verdict) -> tuple[str | None, Any]:
    """What is wrong with the answer (None: nothing), and its value."""
    value = verdict.structured
    if value is None:
        found, value = schema.extract(verdict.text, wanted)
        if not found:
            return "no JSON in the answer", None
    return schema.problem(wanted, value), value
