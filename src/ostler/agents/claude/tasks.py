"""claude's to-do list, out of the results of its Task tools: each tells of one task, a plan of all of them."""

import re
from collections.abc import Iterable
from typing import Any

from ostler.agents.values import table, tables, text
from ostler.model import AnyEvent, Plan, PlanStep, StepStatus

CHANGES = frozenset(("TaskCreate", "TaskUpdate", "TaskList"))
STATUS: dict[str, StepStatus] = {"in_progress": "active", "completed": "done"}
_CREATED = re.compile(r"Task #(\S+) created")


class Tasks:
    """The list as it stands. A conversation that goes on has the one of the turns before, by `Turn.plan`."""

    def __init__(self, before: Iterable[PlanStep] = ()) -> None:
        self._steps = {step.id: step for step in before if step.id}

    def changed(self, tool: str, input: Any, detail: dict[str, Any], output: str) -> list[AnyEvent]:
        """The whole list after a tool that succeeded, where it is another one."""
        before, given = dict(self._steps), table(input)
        if tool == "TaskCreate":
            found = _CREATED.search(output)
            id = text(table(detail.get("task")).get("id")) or (found[1] if found else "")
            if id:
                self._keep(id, text(given.get("subject")), "")
        elif tool == "TaskUpdate" and detail.get("success") is not False:
            self._update(text(given.get("taskId")), text(given.get("subject")), text(given.get("status")))
        elif tool == "TaskList" and isinstance(detail.get("tasks"), list):
            self._steps = {}
            for task in tables(detail["tasks"]):
                self._keep(text(task.get("id")), text(task.get("subject")), text(task.get("status")))
        return [Plan(steps=tuple(self._steps.values()))] if self._steps != before else []

    def _update(self, id: str, subject: str, status: str) -> None:
        if status == "deleted":
            self._steps.pop(id, None)
        elif id:
            known = self._steps.get(id, PlanStep(id=id, text=f"Task {id}"))  # one of a turn that was not ours
            kept = STATUS.get(status, "pending") if status else known.status
            self._steps[id] = PlanStep(id=id, text=subject or known.text, status=kept)

    def _keep(self, id: str, subject: str, status: str) -> None:
        self._steps[id] = PlanStep(id=id, text=subject, status=STATUS.get(status, "pending"))
