"""Records a second through each adapter: decode, read, and the same with redaction.

Fed with the recorded streams of the real CLIs, over and over.
"""

import sys
import time
from pathlib import Path

from ostler.agents import AGENTS
from ostler.model import Turn
from ostler.store import Redactor

CAPTURES = Path(__file__).parent.parent / "tests" / "captures"
FILES = {
    "claude": "turn-partial.ndjson",
    "codex": "turn-bypass.ndjson",
    "gemini": "turn-stream-json.ndjson",
    "qwen": "turn-partial.ndjson",
    "opencode": "turn-json.ndjson",
    "copilot": "turn-json.ndjson",
}
SECONDS = 1.0


def rate(agent: str, lines: list[bytes], redact: bool) -> float:
    turn = Turn(id="t", session="s", agent=agent, prompt="x", folder="/")
    redactor = Redactor(["a-secret-of-some-length"])
    began, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < SECONDS:
        reader = AGENTS[agent].reader(turn)
        for line in lines:
            events = reader.read_line(line)
            if redact:
                for event in events:
                    redactor.event(event)
        count += len(lines)
    return count / spent


def main() -> None:
    print(f"{'agent':10} {'bytes/record':>12} {'records/s':>12} {'+ redaction':>12}")
    for agent, name in FILES.items():
        lines = (CAPTURES / agent / name).read_bytes().splitlines()
        size = sum(map(len, lines)) // len(lines)
        print(f"{agent:10} {size:12,} {rate(agent, lines, False):12,.0f} {rate(agent, lines, True):12,.0f}")


if __name__ == "__main__":
    sys.exit(main())
