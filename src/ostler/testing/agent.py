"""The scripted agent: a real executable that plays a coding agent by script.

    echo "say hello" | ostler-script-agent --access=write --scenario=hello.toml

It reads its prompt from stdin and writes records, one JSON object a line:

    {"type": "init", "session": ID, "model": …, "folder": …}     first, always
    {"kind": "text" | "text_delta" | "thought" | "thought_delta" | "tool_started" | "tool_ended" | "plan" |
             "asked" | "answered" | "usage" | "limited" | "notice", …}
                                          the events of `ostler.model`, without seq, at and turn
    {"type": "denied", "tool": …, "target": …, "access": …, "reason": …}
    {"type": "result", "ok": true, "text": …, "structured": …, "usage": {…}, "cost_usd": …, "steps": …}
    {"type": "result", "ok": false, "error": {"kind": …, "message": …}}

This is ostler's native format: a program that writes it can be read by the adapter `script`. A turn succeeded
when a result with `ok` was written and the exit code is 0. With `--dialog` it stays for many turns
(`ostler.testing.talk`), with `--tui` it has a screen (`ostler.testing.tui`), with `--acp` it is an ACP agent. SIGINT
and SIGTERM end it with 130 and 143 and without a result. Scenarios: `ostler.testing.scenario`; steps:
`ostler.testing.steps`. Without either it shows something worth watching. $OSTLER_SCRIPT_SPEED multiplies all delays
(0: none).

ostler runs it as a file (`python -IS agent.py …`), without site and runpy. It is compiled at each start, so it is
short: whoever asks for its version or its help gets them from here, and a turn is played by `ostler.testing.play_turn`.
"""

import os
import sys

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import NoReturn

VERSION = "1.0"
HELP = """\
usage: ostler-script-agent [OPTION]... < PROMPT

A coding agent that plays by script.

  --scenario=FILE    replies by prompt pattern (TOML, JSON) or a cassette; also $OSTLER_SCENARIO
  --cassette=FILE    replay a recording of any agent
  --session-id=ID    the id of a new conversation
  --resume=ID        go on with a conversation
  --fork             with --resume: go on in a copy, under a new id
  --dialog           stay for many turns: prompts and answers are read from stdin, one JSON object a line
  --tui              a screen of its own, in a terminal (`ostler.testing.tui`)
  --hooks=FILE       hooks to call, in claude's shape (`ostler.testing.tui_hooks`)
  --acp              speak ACP on stdio, for any client (`ostler.testing.acp_agent`)
  --access=LEVEL     read (default), write (this folder) or full
  --model=NAME       reported back
  --system=TEXT      system prompt; see the step `echo`
  --system-mode=MODE append (default) or replace; see the step `echo`
  --schema=FILE      JSON schema of the answer
  --attach=PATH      a file that goes with the prompt; may be repeated
  --allow-tool=NAME  only these tools; may be repeated
  --deny-tool=NAME   not these tools; may be repeated
  --version          show the version
  --help             show this text
"""


def main() -> "NoReturn":
    """Plays one turn and exits."""
    if "--version" in sys.argv:
        print(f"ostler-script-agent {VERSION}")
        leave(0)
    if "--help" in sys.argv or "-h" in sys.argv:
        print(HELP, end="")
        leave(0)
    from ostler.testing.play_turn import play

    leave(play(sys.argv[1:], dict(os.environ)))


def leave(code: int) -> "NoReturn":
    """Exits without the interpreter's farewell: nothing is owed, and a broken pipe must not complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass  # nobody reads it any more
    os._exit(code)


if __name__ == "__main__":
    # With -IS there is nothing but the standard library. Last: `queue` or `select` of anyone else must not hide it.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    main()
