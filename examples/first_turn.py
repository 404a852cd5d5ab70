"""A first look: one real turn of the scripted agent that ships with ostler, in a scratch folder.

No credentials, no server and no agent CLI are needed.
"""

import subprocess
import sys
import tempfile

PROMPT = "Write a small program that draws something, and run it"

NEXT = """
What to try next
  ostler doctor                                   which agents are here, and are they logged in?
  ostler run claude "what does this project do?"  one turn, read only, in this folder
  ostler run codex "fix the failing test" --access write
  ostler sessions                                 everything that ran; each can be continued
  ostler run script "[[fail]]"                    see how a failure is told
(`ostler` is at {ostler}; put its folder on PATH or use `source .venv/bin/activate`)
"""


def main() -> int:
    folder = tempfile.mkdtemp(prefix="ostler-first-turn-")
    ostler = [sys.executable, "-m", "ostler"]
    done = subprocess.run([*ostler, "run", "script", PROMPT, "--access", "write", "--folder", folder], check=False)
    if done.returncode == 0:
        print(NEXT.format(ostler=sys.executable.rsplit("/", 1)[0] + "/ostler"))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
