"""What the log says of a launch."""

import pytest

from ostler.model import Turn
from ostler.store import Redactor
from ostler.work.transports.launch_log import LONGEST, shown_argv

CANARY = "canary-8f2d6b1e9a7c4d5f"


def turn(prompt: str, system: str | None = None) -> Turn:
    return Turn(id="t", session="s", agent="claude", folder="/", prompt=prompt, system=system)


@pytest.mark.parametrize(
    "argv, shown",
    [
        (("claude", "-p", "--model=opus"), "claude -p --model=opus"),
        (("claude", "fix the bug"), "claude '[11 characters]'"),
        (("claude", "--prompt=fix the bug"), "claude '[20 characters]'"),
        (("claude", "--system-prompt", "be brief"), "claude --system-prompt '[8 characters]'"),
        (("claude", "x" * (LONGEST + 1)), f"claude '[{LONGEST + 1} characters]'"),
        (("claude", "two\nlines"), "claude '[9 characters]'"),
        (("claude", f"--key={CANARY}"), "claude '--key=[redacted]'"),
    ],
)
def test_a_command_without_prompts_and_secrets(argv: tuple[str, ...], shown: str) -> None:
    assert shown_argv(argv, [turn("fix the bug", "be brief")], Redactor([CANARY])) == shown


def test_a_short_prompt_hides_only_itself() -> None:
    assert shown_argv(("claude", "-p", "p"), [turn("p")], Redactor()) == "claude -p '[1 characters]'"
