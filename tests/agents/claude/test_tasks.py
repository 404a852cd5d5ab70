"""claude's to-do list: whole after each change, whatever the records leave out."""

from typing import Any

from ostler.agents.claude.tasks import Tasks
from ostler.model import Plan, PlanStep

FEED, GROOM = PlanStep(id="1", text="feed"), PlanStep(id="2", text="groom")


def create(tasks: Tasks, id: str, subject: str) -> Any:
    detail = {"task": {"id": id, "subject": subject, "description": "x"}}
    return tasks.changed(
        "TaskCreate", {"subject": subject, "description": "x"}, detail, f"Task #{id} created: {subject}"
    )


def update(tasks: Tasks, id: str, **given: Any) -> Any:
    return tasks.changed("TaskUpdate", {"taskId": id, **given}, {"success": True, "taskId": id}, "Updated")


def test_the_whole_list_after_each_change() -> None:
    tasks = Tasks()
    assert create(tasks, "1", "feed") == [Plan(steps=(FEED,))]
    assert create(tasks, "2", "groom") == [Plan(steps=(FEED, GROOM))]
    active = PlanStep(id="1", text="feed", status="active")
    assert update(tasks, "1", status="in_progress") == [Plan(steps=(active, GROOM))]
    assert update(tasks, "1", status="in_progress") == []  # nothing new
    done = PlanStep(id="1", text="feed the mare", status="done")
    assert update(tasks, "1", status="completed", subject="feed the mare") == [Plan(steps=(done, GROOM))]
    assert update(tasks, "2", status="deleted") == [Plan(steps=(done,))]
    assert update(tasks, "1", owner="ann") == []


def test_a_list_of_the_turns_before_goes_on() -> None:
    tasks = Tasks((FEED, PlanStep(text="of another agent")))
    done = PlanStep(id="1", text="feed", status="done")
    assert update(tasks, "1", status="completed") == [Plan(steps=(done,))]
    assert create(tasks, "2", "groom") == [Plan(steps=(done, GROOM))]


def test_claude_tells_the_list_itself() -> None:
    told = {"tasks": [{"id": "2", "subject": "groom", "status": "pending", "blockedBy": []}]}
    assert Tasks((FEED,)).changed("TaskList", {}, told, "#2 [pending] groom") == [Plan(steps=(GROOM,))]
    assert Tasks((GROOM,)).changed("TaskList", {}, told, "#2 [pending] groom") == []


def test_what_failed_or_says_nothing_changes_nothing() -> None:
    tasks = Tasks((FEED,))
    failed = {"success": False, "taskId": "9", "error": "Task not found"}
    assert tasks.changed("TaskUpdate", {"taskId": "9", "status": "completed"}, failed, "Task not found") == []
    for input in (None, {}, [], {"taskId": 5}):
        for tool in ("TaskUpdate", "TaskCreate", "TaskList", "TaskGet"):
            assert tasks.changed(tool, input, {}, "") == []


def test_without_details_the_output_names_the_task() -> None:
    told = Tasks().changed("TaskCreate", {"subject": "feed"}, {}, "Task #1 created successfully: feed")
    assert told == [Plan(steps=(FEED,))]
    unknown = Tasks().changed("TaskUpdate", {"taskId": "7", "status": "in_progress"}, {}, "Updated task #7 status")
    assert unknown == [Plan(steps=(PlanStep(id="7", text="Task 7", status="active"),))]
