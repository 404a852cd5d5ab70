"""A session as an ATIF trajectory, judged by the rules of version 1.4."""

from datetime import datetime
from typing import Any

from export.samples import SESSION
from ostler.export.atif import trajectory

AGENT_ONLY = {"model_name", "reasoning_content", "tool_calls", "metrics"}
FIELDS = {"step_id", "timestamp", "source", "message", "observation", "extra", *AGENT_ONLY}
METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"}


def judge(made: dict[str, Any]) -> None:
    """The rules that a reader of the format holds a trajectory to."""
    assert set(made) <= {"schema_version", "session_id", "agent", "steps", "notes", "final_metrics", "extra"}
    assert made["schema_version"] == "ATIF-v1.4" and made["session_id"]
    assert set(made["agent"]) <= {"name", "version", "model_name", "extra"} and {"name", "version"} <= set(
        made["agent"]
    )
    assert [step["step_id"] for step in made["steps"]] == list(range(1, len(made["steps"]) + 1))
    for step in made["steps"]:
        assert set(step) <= FIELDS and isinstance(step["message"], str)
        assert step["source"] in ("system", "user", "agent")
        assert step["source"] == "agent" or not set(step) & AGENT_ONLY
        datetime.fromisoformat(step["timestamp"])
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", ()))
        results = step.get("observation", {"results": []})["results"]
        assert {result["source_call_id"] for result in results} <= calls
        assert set(step.get("metrics", ())) <= METRICS


def test_a_session_becomes_a_trajectory() -> None:
    made = trajectory(SESSION, "ostler 1")
    judge(made)
    assert [(step["source"], step["message"]) for step in made["steps"]] == [
        ("system", "be brief"),
        ("user", "what is here?"),
        ("agent", "I look."),
        ("agent", "There is b.txt."),
        ("user", "what is here?"),
        ("agent", ""),
        ("user", "what is here?"),  # this turn runs
    ]
    looked, said = made["steps"][2:4]
    assert looked["reasoning_content"] == "let me look"
    assert looked["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "Bash", "arguments": {"command": "ls"}},
        {"tool_call_id": "c2", "function_name": "Read", "arguments": {"input": "a.txt"}},
    ]
    assert looked["observation"]["results"] == [
        {"source_call_id": "c2", "content": "no such file"},
        {"source_call_id": "c1", "content": "b.txt"},
    ]
    assert said["metrics"] == {"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 2, "cost_usd": 0.25}
    assert made["agent"] == {
        "name": "claude",
        "version": "unknown",
        "model_name": "big",
        "extra": {"driven_by": "ostler 1"},
    }
    assert made["final_metrics"] == {
        "total_prompt_tokens": 10,
        "total_completion_tokens": 4,
        "total_cached_tokens": 2,
        "total_cost_usd": 0.25,
        "total_steps": 7,
    }
