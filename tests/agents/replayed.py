"""Recorded turns, read again by an adapter: events, verdict, and what must hold for all of them."""

import json
from pathlib import Path
from typing import Any

from ostler.agents import AGENTS
from ostler.model import AnyEvent, Exit, Raw, TextDelta, ToolEnded, ToolStarted, Turn, Verdict
from ostler.model import Text as WholeText

CAPTURES = Path(__file__).parents[1] / "captures"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CAPTURES / "expected.json").read_text())


def cases(agent: str) -> list[str]:
    return sorted(path.name.removesuffix(".ndjson") for path in (CAPTURES / agent).glob("*.ndjson"))


def turn_of(agent: str, **options: Any) -> Turn:
    given = {"id": "t-1", "session": "s-1", "prompt": "do it", "folder": "/workspace", "access": "full"}
    return Turn(agent=agent, **(given | options))


def replay(agent: str, case: str, **options: Any) -> tuple[list[AnyEvent], Verdict]:
    """All events of a capture, those owed at its end included, and the verdict."""
    meta = json.loads((CAPTURES / agent / f"{case}.meta.json").read_text())
    stderr = CAPTURES / agent / f"{case}.stderr.txt"
    said = stderr.read_text() if stderr.exists() else ""
    stdout = (CAPTURES / agent / f"{case}.ndjson").read_bytes()
    return replay_lines(agent, stdout.splitlines(), said, meta["exit_code"], **options)


def replay_lines(
    agent: str, stdout: list[bytes], stderr: str = "", code: int = 0, **options: Any
) -> tuple[list[AnyEvent], Verdict]:
    reader = AGENTS[agent].reader(turn_of(agent, **options))
    events = [event for line in stdout for event in reader.read_line(line)]
    events += [event for line in stderr.splitlines() for event in reader.read_stderr(line)]
    events += reader.flush()
    return events, reader.end(Exit(signal=-code) if code < 0 else Exit(code=code), stderr)


def lines(*records: Any) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def check_expected(agent: str, case: str, verdict: Verdict) -> None:
    """The verdict is the one written down for this capture."""
    wanted = EXPECTED[f"{agent}/{case}"]
    assert ("ok" if verdict.outcome == "done" else "error") == wanted["status"], verdict
    assert verdict.agent_session == wanted["agent_session"]
    if "text" in wanted:
        assert verdict.text == wanted["text"]
    if "kind" in wanted:
        assert verdict.error is not None and verdict.error.kind == wanted["kind"]
    assert (verdict.error is None) == (wanted["status"] == "ok")


def check_invariants(events: list[AnyEvent]) -> None:
    """Whole texts follow their deltas, every tool is closed once, and nothing recorded is unknown."""
    owed: dict[str, str] = {}
    open_tools: set[str] = set()
    for event in events:
        match event:
            case TextDelta():
                owed[event.id] = owed.get(event.id, "") + event.text
            case WholeText():
                assert owed.pop(event.id, event.text) == event.text
            case ToolStarted():
                assert event.id not in open_tools
                open_tools.add(event.id)
            case ToolEnded():
                open_tools.remove(event.id)
            case Raw():
                raise AssertionError(f"not understood: {event}")
    assert owed == {} and open_tools == set()
