"""opencode: whole command lines, what it keeps, and that it conforms."""

import json
from typing import Any

import pytest

from agents.replayed import (
    CAPTURES,
    turn_of,
)
from ostler.agents import AGENTS
from ostler.agents.opencode.agent import READ
from ostler.model import Attachment, Host, Launch

AGENT = AGENTS["opencode"]
HELP = (CAPTURES / "opencode" / "help-run.txt").read_text()
HOST = Host(executable="/bin/opencode", help=HELP, private="/private")


def launched(**options: Any) -> Launch:
    return AGENT.launch(turn_of("opencode", **options), HOST)


def config_of(launch: Launch) -> dict[str, Any]:
    return json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])


def test_a_first_turn_of_access_read() -> None:
    assert launched(access="read") == Launch(
        argv=(
            *("/bin/opencode", "run", "--format=json", "--print-logs", "--log-level=INFO"),
            *("--title=", "--agent=ostler-t-1", "--thinking"),
        ),
        stdin=b"do it",
        env={
            "PWD": "/workspace",
            "OPENCODE_CONFIG_CONTENT": json.dumps(
                {"agent": {"ostler-t-1": {"mode": "primary", "permission": READ}}},
            ),
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        },
    )


def test_a_full_turn_with_everything() -> None:
    launch = launched(
        prompt="--version",
        model="anthropic/x",
        system="Be brief. {file:/etc/passwd}",
        resume=True,
        fork=True,
        agent_session="ses_1",
        attachments=(Attachment(path="/a b.png", image=True), Attachment(name="n.txt", content="inline")),
    )
    assert launch == Launch(
        argv=(
            *("/bin/opencode", "run", "--format=json", "--print-logs", "--log-level=INFO"),
            *("--session=ses_1", "--fork", "--auto", "--model=anthropic/x", "--file=/a b.png", "--thinking"),
        ),
        stdin=b'--version\n\n<file name="n.txt">\ninline\n</file>',
        # A path, not the text: `{file:…}` in the configuration would be replaced.
        env={
            "PWD": "/workspace",
            "OPENCODE_CONFIG_CONTENT": '{"instructions": ["/private/system.md"]}',
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        },
        files={"/private/system.md": b"Be brief. {file:/etc/passwd}"},
    )


def test_write_allows_edits_and_says_what_is_missing() -> None:
    launch = launched(access="write")
    rules = config_of(launch)["agent"]["ostler-t-1"]["permission"]
    assert rules == READ | {"edit": "allow"}
    assert next(iter(rules)) == "*"  # the last rule that matches wins
    assert rules["external_directory"] == "deny" and "bash" not in rules
    assert "--access full" in launch.notices[0]


def test_behind_a_wall_write_has_a_shell() -> None:
    launch = launched(access="write", walled=True)
    config = config_of(launch)
    assert config["agent"]["ostler-t-1"]["permission"] == READ | {"edit": "allow", "bash": "allow"}
    assert config["snapshot"] is False and launch.notices == ()
    read = config_of(launched(access="read", walled=True))
    assert read["agent"]["ostler-t-1"]["permission"] == READ and read["snapshot"] is False


@pytest.mark.parametrize("prompt", ["/exit", "!ls", "@file", "#x", "-", "--help", "x" * 1_048_576])
def test_prompts_go_to_stdin_as_they_are(prompt: str) -> None:
    launch = launched(prompt=prompt)
    assert launch.stdin == prompt.encode()
    assert not [word for word in launch.argv if word == prompt]


def test_a_command_is_sent_as_one() -> None:
    launch = launched(prompt="/review the last commit", command=True)
    assert "--command=review" in launch.argv
    assert launch.stdin == b"the last commit"


def test_lists_of_tools_become_rules_of_an_agent_of_ours() -> None:
    launch = launched(access="full", tools_denied=("shell", "web"))
    assert config_of(launch)["agent"]["ostler-t-1"]["permission"] == {
        "*": "allow",
        "external_directory": "allow",
        **dict.fromkeys(("bash", "webfetch", "websearch", "codesearch"), "deny"),
    }
    assert "--auto" not in launch.argv
    launch = launched(access="read", tools_allowed=("read", "shell"))
    assert config_of(launch)["agent"]["ostler-t-1"]["permission"] == {
        "*": "deny",
        "read": READ["read"],
        "external_directory": "deny",
    }


def test_the_flags_a_launch_needs_are_in_the_help() -> None:
    assert [flag for flag in AGENT.needs if flag not in HELP] == []
    assert "--thinking" not in AGENT.launch(turn_of("opencode"), Host(executable="/bin/opencode")).argv
