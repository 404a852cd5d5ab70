"""What proves an adapter: the conformance suite, and what becomes of a recorded turn."""

from pathlib import Path

from ostler_pony import AGENT

from ostler.model import Exit, Started, Text, ToolEnded, ToolStarted, Turn
from ostler.testing import assert_conforms

CAPTURES = Path(__file__).parent / "captures"


def test_it_conforms() -> None:
    assert_conforms(AGENT, CAPTURES)


def test_a_recorded_turn() -> None:
    reader = AGENT.reader(Turn(id="t", session="s", agent="pony", prompt="a letter", folder="/folder"))
    lines = (CAPTURES / "turn.ndjson").read_bytes().splitlines()
    events = [event for line in lines for event in reader.read_line(line)]
    assert [type(event) for event in events] == [Started, ToolStarted, ToolEnded, Text]
    verdict = reader.end(Exit(code=0), "")
    assert (verdict.outcome, verdict.text) == ("done", "I carried: a letter")
