"""claude: whole command lines, what it keeps, and that it conforms."""

import json
from typing import Any

import pytest

from agents.replayed import (
    CAPTURES,
    turn_of,
)
from ostler.agents import AGENTS, Conversation
from ostler.errors import OstlerError
from ostler.model import Attachment, Host, Launch, Limits
from ostler.testing import assert_conforms

AGENT = AGENTS["claude"]
HELP = (CAPTURES / "claude" / "help.txt").read_text()
HOST = Host(executable="/bin/claude", version="2.1.325", help=HELP, private="/private")
CONFINING = Host(executable="/bin/claude", help=HELP, private="/private", programs=frozenset(("bwrap", "socat")))
UUID = "12345678-1234-4234-8234-123456789abc"
START = (
    *("/bin/claude", "-p", "--output-format=stream-json", "--verbose", "--include-partial-messages"),
    "--include-hook-events",
    "--setting-sources=user",
)
READ_TOOLS = (
    "--tools=Read,Glob,Grep,LS,NotebookRead,WebFetch,WebSearch,Task,Skill,"
    "TodoWrite,TaskCreate,TaskUpdate,TaskList,TaskGet"
)
EDIT_TOOLS = f"{READ_TOOLS},Edit,MultiEdit,Write,NotebookEdit"
READ_DENIED = "--disallowedTools=Edit,MultiEdit,Write,NotebookEdit,Bash,Monitor,PowerShell,mcp__*"
SANDBOX = (
    '--settings={"sandbox":{"enabled":true,"autoAllowBashIfSandboxed":true,'
    '"allowUnsandboxedCommands":false,"failIfUnavailable":true}}'
)
ENV = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1", "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}


def test_conforms() -> None:
    assert_conforms(AGENT, captures=CAPTURES / "claude")


def launched(host: Host = HOST, **options: Any) -> Launch:
    return AGENT.launch(turn_of("claude", **{"access": "read", **options}), host)


def test_the_first_turn() -> None:
    assert launched(agent_session=UUID, model="opus") == Launch(
        argv=(
            *START,
            "--permission-mode=dontAsk",
            f"--session-id={UUID}",
            READ_TOOLS,
            "--strict-mcp-config",
            READ_DENIED,
            "--model=opus",
        ),
        stdin=b"do it",
        env=ENV,
    )


def test_a_later_turn_that_may_write() -> None:
    launch = launched(
        CONFINING,
        access="write",
        agent_session=UUID,
        resume=True,
        system="Be brief",
        schema={"type": "object"},
        limits=Limits(cost_usd=0.5),
    )
    assert launch == Launch(
        argv=(
            *START,
            "--permission-mode=acceptEdits",
            f"--resume={UUID}",
            f"{EDIT_TOOLS},Bash",
            "--strict-mcp-config",
            "--disallowedTools=Monitor,PowerShell,mcp__*",
            SANDBOX,
            "--system-prompt-snapshot=off",
            "--append-system-prompt=Be brief",
            '--json-schema={"type":"object"}',
            "--max-budget-usd=0.500000",
        ),
        stdin=b"do it",
        env=ENV,
    )


def test_write_has_no_commands_where_nothing_confines_them() -> None:
    launch = launched(access="write")
    assert launch.argv == (
        *START,
        "--permission-mode=acceptEdits",
        EDIT_TOOLS,
        "--strict-mcp-config",
        "--disallowedTools=Bash,Monitor,PowerShell,mcp__*",
    )
    assert launch.notices == (
        "commands are off: claude's sandbox needs bwrap and socat, and the right to create user namespaces. "
        "Install them (apt install bubblewrap socat), see `ostler doctor claude`, or run with --access full",
    )


def test_behind_a_wall_write_has_commands_and_no_sandbox() -> None:
    launch = launched(access="write", walled=True)
    assert launch.argv == (
        *START,
        "--permission-mode=acceptEdits",
        f"{EDIT_TOOLS},Bash",
        "--strict-mcp-config",
        "--allowedTools=Bash",
        "--disallowedTools=Monitor,PowerShell,mcp__*",
        '--settings={"sandbox":{"enabled":false}}',
    )
    assert launch.notices == ()
    asking = launched(access="write", walled=True, transport="dialog")  # where somebody says yes or no
    assert not [flag for flag in asking.argv if flag.startswith("--allowedTools")]
    none = launched(access="write", walled=True, tools_allowed=("read",))
    assert "--tools=Read,NotebookRead" in none.argv and not [f for f in none.argv if f.startswith("--allowedTools")]
    read = launched(access="read", walled=True)
    assert not [flag for flag in read.argv if "Bash" in flag and not flag.startswith("--disallowed")]


def test_when_its_login_ends() -> None:
    assert AGENT.state is not None
    assert AGENT.state.expires(b'{"claudeAiOauth": {"expiresAt": 1700000000000}}') == 1_700_000_000
    assert [AGENT.state.expires(data) for data in (b"{", b"[]", b'{"claudeAiOauth": {"expiresAt": "x"}}')] == [None] * 3


@pytest.mark.parametrize(("root", "added"), [(True, {"IS_SANDBOX": "1"}), (False, {})])
def test_full(root: bool, added: dict[str, str]) -> None:
    host = Host(executable="/bin/claude", help=HELP, root=root)
    assert launched(host, access="full") == Launch(
        argv=(*START, "--permission-mode=bypassPermissions"), stdin=b"do it", env=ENV | added
    )


def test_a_fork_and_a_lean_turn() -> None:
    flags = launched(agent_session=UUID, resume=True, fork=True, lean=True, access="full").argv
    assert flags == (*START, "--permission-mode=bypassPermissions", f"--resume={UUID}", "--fork-session", "--bare")


def test_tools_allowed_and_denied_stay_within_the_access() -> None:
    launch = launched(tools_allowed=("read", "web", "shell", "Write"), tools_denied=("Grep",))
    assert launch.argv[8:] == (
        "--tools=Read,NotebookRead,WebFetch,WebSearch",
        "--strict-mcp-config",
        "--allowedTools=WebFetch,WebSearch",
        f"{READ_DENIED.removesuffix(',mcp__*')},Grep,mcp__*",
    )


def test_an_mcp_tool_that_is_named_is_allowed() -> None:
    assert launched(tools_allowed=("mcp__db__query",)).argv[8:] == (
        "--tools=",
        "--allowedTools=mcp__db__query",
        READ_DENIED.removesuffix(",mcp__*"),
    )


def test_a_rule_never_lets_an_edit_out_of_the_folder() -> None:
    argv = launched(CONFINING, access="write", tools_allowed=("Edit(//etc/**)", "Bash", "WebFetch(domain:x.org)")).argv
    assert "--tools=Edit,Bash,WebFetch" in argv
    assert "--allowedTools=WebFetch(domain:x.org)" in argv


def test_attachments() -> None:
    given = (
        Attachment(path="/tmp/a b,c(1).png", image=True),
        Attachment(name="notes.md", content="hay & oats"),
    )
    launch = launched(attachments=given)
    assert "--allowedTools=Read(//tmp/a?b?c?1?.png)" in launch.argv
    assert launch.stdin.decode() == (
        'do it\n\nAttached files:\n- /tmp/a b,c(1).png\n\n<file name="notes.md">\nhay & oats\n</file>'
    )


def test_a_long_system_prompt_goes_by_a_private_file() -> None:
    launch = launched(system="ö" * 60_000, access="full")
    assert launch.argv[-1] == "--append-system-prompt-file=/private/system.txt"
    assert launch.files == {"/private/system.txt": ("ö" * 60_000).encode()}


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("/exit", b"\n/exit"),
        ("--version", b"--version"),
        ("-", b"-"),
        ("@file", b"@file"),
        ("!ls", b"!ls"),
        ("#x", b"#x"),
    ],
)
def test_prompts_are_literal(prompt: str, sent: bytes) -> None:
    launch = launched(prompt=prompt)
    assert launch.stdin == sent
    assert launch.argv == launched().argv
    command = launched(prompt="/cost", command=True)
    assert (command.stdin, command.env) == (b"/cost", {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"})


@pytest.mark.parametrize("id", ["--version", "latest", "my title", "../x"])
def test_only_an_id_names_a_conversation(id: str) -> None:
    with pytest.raises(OstlerError) as caught:
        launched(agent_session=id, resume=True)
    assert caught.value.kind == "bad_request"


def test_a_schema_too_long_for_an_argument_is_unsupported() -> None:
    with pytest.raises(OstlerError) as caught:
        launched(schema={"description": "x" * 120_000})
    assert caught.value.kind == "unsupported"


def test_conversations_that_claude_keeps() -> None:
    assert AGENT.conversation is not None
    records = [
        {"type": "queue-operation", "content": "fix it"},
        {"type": "user", "isMeta": True, "message": {"content": "meta"}, "cwd": "/home/ann/app"},
        {"type": "user", "message": {"role": "user", "content": "fix it\nplease"}, "cwd": "/home/ann/app"},
    ]
    path = f"/home/ann/.claude/projects/-home-ann-app/{UUID}.jsonl"
    assert AGENT.conversation(path, records) == Conversation(id=UUID, folder="/home/ann/app", title="fix it")
    assert AGENT.conversation(path, []) is None
    assert AGENT.conversation("/home/ann/.claude/projects/-home-ann-app/notes.jsonl", records) is None


def test_every_flag_it_needs_is_in_the_help() -> None:
    assert [flag for flag in AGENT.needs if flag not in HELP] == []
    assert json.loads(SANDBOX.partition("=")[2])["sandbox"]["allowUnsandboxedCommands"] is False
