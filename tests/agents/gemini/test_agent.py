"""gemini: whole command lines, what it keeps, and that it conforms."""

import tomllib

import pytest

from agents.replayed import CAPTURES, turn_of
from ostler.agents.gemini.agent import AGENT, PROMPT_LIMIT
from ostler.errors import OstlerError
from ostler.model import Attachment, Host, Launch, Turn
from ostler.testing import assert_conforms

ID = "12345678-1234-4234-8234-123456789abc"
HOST = Host(executable="/bin/gemini", private="/run/private", home="/home/ann")
ENV = {
    "GEMINI_CLI_NO_RELAUNCH": "true",
    "GEMINI_CLI_TRUST_WORKSPACE": "false",
    "GEMINI_CLI_TRUSTED_FOLDERS_PATH": "/run/private/trusted-folders.json",
}
NO_TRUST = {"/run/private/trusted-folders.json": b'{"/project": "DO_NOT_TRUST"}'}
SETTINGS = {"general": {"sessionRetention": {"enabled": False}}, "security": {"folderTrust": {"enabled": True}}}
POLICY = "/run/private/policy.toml"
NO_SHELL = "gemini cannot confine commands to the folder: it has no shell, run again with --access full"
TURN = {"prompt": "hello", "folder": "/project", "access": "read"}


def a_turn(**fields: object) -> Turn:
    return turn_of("gemini", **TURN | fields)


def test_conforms() -> None:
    assert_conforms(AGENT, captures=CAPTURES / "gemini")


def policy(*rules: tuple[str, str, int]) -> list[dict[str, object]]:
    return [{"toolName": name, "decision": decision, "priority": priority} for name, decision, priority in rules]


UNCONFINED = [(name, "deny", 999) for name in ("run_shell_command", "save_memory", "mcp_*", "discovered_tool_*")]


def test_read_and_write_are_enforced_by_a_private_policy() -> None:
    read = AGENT.launch(a_turn(), HOST)
    assert read.argv == (
        "/bin/gemini",
        "--output-format=stream-json",
        "--approval-mode=default",
        "--skip-trust",
        f"--policy={POLICY}",
    )
    assert (read.stdin, read.env, read.notices, list(read.files)) == (b"hello", ENV, (), [POLICY, *NO_TRUST])
    assert read.settings == SETTINGS
    writing = [("write_file", "deny", 999), ("replace", "deny", 999)]
    assert tomllib.loads(read.files[POLICY].decode()) == {"rule": policy(*writing, *UNCONFINED)}
    write = AGENT.launch(a_turn(access="write"), HOST)
    assert write.argv == (*read.argv[:2], "--approval-mode=auto_edit", *read.argv[3:])
    assert tomllib.loads(write.files[POLICY].decode()) == {"rule": policy(*UNCONFINED)}
    assert write.notices == (NO_SHELL,)


def test_behind_a_wall_write_has_a_shell() -> None:
    for transport, unasked in (("pipe", [("run_shell_command", "allow", 998)]), ("dialog", []), ("pty", [])):
        write = AGENT.launch(a_turn(access="write", walled=True, transport=transport), HOST)
        assert tomllib.loads(write.files[POLICY].decode()) == {"rule": policy(*UNCONFINED[1:], *unasked)}
        assert write.notices == ()
    read = AGENT.launch(a_turn(walled=True), HOST)
    assert read == AGENT.launch(a_turn(), HOST)


def test_full_access_leaves_the_users_policies_alone() -> None:
    assert AGENT.launch(a_turn(access="full", model="-m"), HOST) == Launch(
        argv=("/bin/gemini", "--output-format=stream-json", "--approval-mode=yolo", "--skip-trust", "--model=-m"),
        stdin=b"hello",
        env=ENV,
        files=NO_TRUST,
        settings=SETTINGS,
    )


def test_lists_of_tools_are_rules_and_never_widen_the_access() -> None:
    turn = a_turn(access="full", tools_denied=("shell", 'odd"name'), tools_allowed=("write", "mcp_w_find"))
    rules = tomllib.loads(AGENT.launch(turn, HOST).files[POLICY].decode())["rule"]
    assert rules == policy(
        ("run_shell_command", "deny", 999),
        ('odd"name', "deny", 999),
        ("write_file", "allow", 998),
        ("mcp_w_find", "allow", 998),
        ("*", "deny", 997),
    )
    rules = tomllib.loads(AGENT.launch(a_turn(tools_allowed=("shell",)), HOST).files[POLICY].decode())["rule"]
    assert [r["decision"] for r in rules if r["toolName"] == "run_shell_command"] == ["deny", "allow"]


def test_a_conversation_is_begun_and_resumed_by_its_id() -> None:
    assert f"--session-id={ID}" in AGENT.launch(a_turn(agent_session=ID), HOST).argv
    resumed = AGENT.launch(a_turn(agent_session=ID, resume=True, first=False), HOST).argv
    assert f"--resume={ID}" in resumed
    assert not any(part.startswith("--session-id") for part in resumed)


@pytest.mark.parametrize(
    ("prompt", "stdin"),
    [
        ("/exit", b"\n/exit"),
        ("--version", b"--version"),
        ("!ls", b"!ls"),
        ("#x", b"#x"),
        ("-", b"-"),
        ("a @ b, @, @.", b"a @ b, @, \\@."),
        ("\\@kept", b"\\@kept"),
    ],
)
def test_prompts_are_literal(prompt: str, stdin: bytes) -> None:
    assert AGENT.launch(a_turn(prompt=prompt), HOST).stdin == stdin


def test_a_mention_is_kept_from_being_read_and_it_is_said() -> None:
    launch = AGENT.launch(a_turn(prompt="@README.md by ann@inn.example\n@app"), HOST)
    assert launch.stdin == b"\\@README.md by ann\\@inn.example\n\\@app"
    assert launch.notices == ("gemini would read @name as a file: it was sent as \\@name",)


def test_a_command_is_sent_as_it_is() -> None:
    launch = AGENT.launch(a_turn(prompt="/review @app.py", command=True, access="full"), HOST)
    assert (launch.stdin, launch.notices) == (b"/review @app.py", ())


def test_the_system_prompt_precedes_the_first_prompt_only() -> None:
    first = AGENT.launch(a_turn(prompt="/x", system="Be @brief"), HOST)
    assert first.stdin == b"Be \\@brief\n\n/x"
    assert first.notices == (
        "the system prompt was put before the first prompt",
        "gemini would read @name as a file: it was sent as \\@name",
    )
    assert AGENT.launch(a_turn(system="Be brief", first=False), HOST).stdin == b"hello"


def test_attachments_of_the_folder_are_mentioned() -> None:
    attachments = (
        Attachment(path="/project/pics/a b.png", image=True),
        Attachment(path="/project/odd;name.txt"),
        Attachment(name="n.txt", content="to @you"),
    )
    assert AGENT.launch(a_turn(attachments=attachments), HOST).stdin == (
        b'hello\n\n<file name="n.txt">\nto \\@you\n</file>\n\nAttached files:\n- @pics/a\\ b.png\n- odd;name.txt'
    )


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (a_turn(attachments=(Attachment(path="/else/a.png", image=True),)), "unsupported"),
        (a_turn(attachments=(Attachment(path="/project/../else/a.png", image=True),)), "unsupported"),
        (a_turn(prompt="x" * (PROMPT_LIMIT + 1)), "bad_request"),
        (a_turn(agent_session="latest", resume=True), "bad_request"),
        (a_turn(agent_session="5", resume=True), "bad_request"),
        (a_turn(agent_session=ID, resume=True, fork=True), "unsupported"),
    ],
)
def test_what_gemini_cannot_do_is_refused_before_it_starts(turn: Turn, kind: str) -> None:
    with pytest.raises(OstlerError) as caught:
        AGENT.launch(turn, HOST)
    assert caught.value.kind == kind


def test_a_kept_conversation_is_found() -> None:
    context = "<session_context>\nThis is…\n- **Workspace Directories:**\n  - /project/a b\n- **Directory Structure:**"
    records = [
        {"sessionId": ID, "kind": "main"},
        {"$set": {"messages": [{"type": "user", "content": [{"text": context}]}]}},
        {"type": "user", "content": [{"text": "mend the gate\nplease"}]},
        {"type": "gemini", "content": "Mended."},
    ]
    found = AGENT.conversation
    assert found is not None
    kept = found("session.jsonl", records)
    assert kept is not None and (kept.id, kept.folder, kept.title) == (ID, "/project/a b", "mend the gate")
    assert found("session.jsonl", records[1:]) is None
    assert found("session.jsonl", []) is None
