"""copilot: whole command lines, what it keeps, and that it conforms."""

from typing import Any

import pytest

from agents.replayed import (
    CAPTURES,
    turn_of,
)
from ostler.agents import AGENTS, Conversation
from ostler.agents.copilot.agent import OFFERED
from ostler.model import Attachment, Host, Launch

AGENT = AGENTS["copilot"]
HELP = (CAPTURES / "copilot" / "help.txt").read_text()
HOST = Host(executable="/bin/copilot", help=HELP, private="/private")
UUID = "12345678-1234-4234-8234-123456789abc"
OFFER = f"--available-tools={','.join(OFFERED)}"


def launched(**options: Any) -> Launch:
    return AGENT.launch(turn_of("copilot", **options), HOST)


def test_a_first_turn_of_access_read() -> None:
    assert launched(access="read", agent_session=UUID) == Launch(
        argv=(
            *("/bin/copilot", "--output-format=json", "--no-auto-update"),
            *("--deny-tool=write", "--deny-tool=shell", "--disallow-temp-dir", OFFER, f"--session-id={UUID}"),
        ),
        stdin=b"do it",
    )


def test_a_full_turn_with_everything() -> None:
    launch = launched(
        prompt="--version",
        model="gpt-9",
        system="Be brief.",
        resume=True,
        agent_session=UUID,
        env={"COPILOT_CUSTOM_INSTRUCTIONS_DIRS": "/mine"},
        attachments=(
            Attachment(path="/a,b.png", image=True),
            Attachment(path="/logs/x.log"),
            Attachment(name="n.txt", content="inline"),
        ),
    )
    assert launch == Launch(
        argv=(
            *("/bin/copilot", "--output-format=json", "--no-auto-update", "--allow-all"),
            *(f"--resume={UUID}", "--model=gpt-9", "--attachment=/a,b.png"),
        ),
        stdin=b'--version\n\nAttached files:\n- /logs/x.log\n\n<file name="n.txt">\ninline\n</file>',
        env={"COPILOT_CUSTOM_INSTRUCTIONS_DIRS": "/mine,/private"},
        files={"/private/.github/instructions/ostler.instructions.md": b"Be brief."},
    )


def test_write_is_kept_to_the_folder_and_says_what_is_missing() -> None:
    launch = launched(access="write", attachments=(Attachment(path="/logs/x.log"), Attachment(path="/workspace/y")))
    assert launch.argv[3:] == (
        *("--deny-tool=shell", "--disallow-temp-dir", OFFER),
        *("--allow-tool=write(/workspace/**)", "--add-dir=/logs"),
    )
    assert "--access full" in launch.notices[0]


def test_behind_a_wall_write_has_a_shell() -> None:
    launch = launched(access="write", walled=True)
    assert launch.argv[3:] == (OFFER, "--allow-tool=shell", "--allow-tool=write") and launch.notices == ()
    asking = launched(access="write", walled=True, transport="pty")  # where somebody says yes or no
    assert asking.argv[3:] == (OFFER, "--allow-tool=write(/workspace/**)")
    assert launched(access="read", walled=True) == launched(access="read")


@pytest.mark.parametrize("folder", ["/a(b)", "/a*", "/a,b", "/a[b]", "/{a}"])
def test_a_folder_that_is_no_pattern_relies_on_the_check_of_paths(folder: str) -> None:
    assert "--allow-tool=write" in launched(access="write", folder=folder).argv


@pytest.mark.parametrize("prompt", ["/exit", "!ls", "@file", "#x", "-", "--help", "/compactor", "x" * 1_048_576])
def test_prompts_go_to_stdin_as_they_are(prompt: str) -> None:
    launch = launched(prompt=prompt)
    assert launch.stdin == prompt.encode()
    assert not [word for word in launch.argv if word == prompt]


@pytest.mark.parametrize("prompt", ["/compact", "/compact please", " \n/compact"])
def test_the_one_command_it_would_run_is_kept_literal(prompt: str) -> None:
    assert launched(prompt=prompt).stdin == ("\u200b" + prompt).encode()
    assert launched(prompt=prompt, command=True).stdin == prompt.encode()


def test_lists_of_tools() -> None:
    assert (
        "--excluded-tools=bash,read_bash,write_bash,stop_bash,list_bash,mine"
        in launched(tools_denied=("shell", "mine")).argv
    )
    assert "--available-tools=view,mine" in launched(tools_allowed=("read", "mine")).argv
    # What read does not offer cannot be asked for.
    assert "--available-tools=none" in launched(access="read", tools_allowed=("mine",)).argv
    assert "--available-tools=view" in launched(access="read", tools_allowed=("read", "mine")).argv


def test_the_flags_a_launch_needs_are_in_the_help() -> None:
    assert [flag for flag in (*AGENT.needs, "--excluded-tools", "--attachment", "--add-dir") if flag not in HELP] == []


def test_a_conversation_is_known_by_its_first_records() -> None:
    start = {"type": "session.start", "data": {"sessionId": UUID, "context": {"cwd": "/workspace"}}}
    prompt = {"type": "user.message", "data": {"content": "\nfix it\nplease"}}
    assert AGENT.conversation is not None
    assert AGENT.conversation("/x/events.jsonl", [start, prompt]) == Conversation(
        id=UUID, folder="/workspace", title="fix it"
    )
    assert AGENT.conversation("/x/events.jsonl", [start]) is None
    assert AGENT.conversation("/x/events.jsonl", [prompt]) is None
