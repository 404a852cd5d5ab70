"""What is exported, line by line."""

import json

from export.samples import RUN, SESSION
from ostler.export.record import ndjson


def kinds(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["record"] for line in lines]


def test_a_session_is_told_in_its_order() -> None:
    lines = list(ndjson(SESSION))
    assert kinds(lines) == ["session", "turn", *["event"] * 7, "turn", "turn"]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    first, event = json.loads(lines[0]), json.loads(lines[2])
    assert (first["id"], event["kind"], event["text"]) == ("s1", "thought", "let me look")


def test_a_run_is_told_with_its_nodes_and_sessions() -> None:
    lines = list(ndjson(RUN))
    assert kinds(lines)[:5] == ["run", "node", "node", "session", "turn"]
    assert lines[3:] == list(ndjson(SESSION))
