"""The made-up CLI that the example drives: `pony run` prints one JSON record a line, `pony acp` speaks ACP."""

import json
import os
import sys
import uuid


def main() -> None:
    if sys.argv[1] == "acp":
        os.execv(sys.executable, [sys.executable, "-m", "ostler.testing.agent", "--acp"])  # the scripted agent does
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in sys.argv[2:])
    prompt = sys.stdin.read().strip()
    say(type="begin", id=flags.get("resume") or str(uuid.uuid4()), model=flags.get("model", "pony-1"))
    say(type="tool", id="1", name="gallop", input={"command": "gallop --far"})
    say(type="tool_end", id="1", ok=True, output="12 miles")
    say(type="say", text=f"I carried: {prompt}")
    say(type="end", ok=True, tokens={"in": len(prompt), "out": 3})


def say(**record: object) -> None:
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
