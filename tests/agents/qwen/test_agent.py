"""qwen: verdicts of recorded cases, event lists by hand, whole command lines, and what must not pass as success."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.replayed import (
    CAPTURES,
    EXPECTED,
    cases,
    check_expected,
    check_invariants,
    lines,
    replay,
    replay_lines,
    turn_of,
)
from ostler.agents import AGENTS, Conversation
from ostler.agents.launches import SYSTEM_FIRST
from ostler.agents.qwen.agent import SYSTEM_LEFT_OUT
from ostler.errors import OstlerError
from ostler.model import (
    Attachment,
    Denial,
    Event,
    Exit,
    FileChange,
    Host,
    Launch,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Started,
    Text,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
    Verdict,
)
from ostler.testing import assert_conforms

AGENT = AGENTS["qwen"]
HELP = (CAPTURES / "qwen" / "help.txt").read_text()
HOST = Host(executable="/bin/qwen", version="0.24.4", help=HELP, private="/private")
FINAL = "All done. The tool ran and this is the final answer."
UUID = "12345678-1234-4234-8234-123456789abc"
COMMAND = "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
LOGIN = "Run `qwen` and choose how to log in, or set OPENAI_API_KEY"
# Two turns in one process, or hook payloads: not one-shot turns.
ONE_SHOT = [c for c in cases("qwen") if c != "input-stream-json" and not c.endswith(".hooks")]

START = ("/bin/qwen", "--output-format=stream-json", "--include-partial-messages")
READ_TOOLS = "--core-tools=read_file,list_directory,glob,grep_search,web_fetch,todo_write,zoom_image"
NO_SERVERS = "--allowed-mcp-server-names=ostler-allows-none"
COMMANDS = "run_shell_command,monitor,cron_create,enter_worktree,exit_worktree,agent"
ENV = {"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"}
OUTSIDE = "qwen does not keep its edits inside the folder; commands are off. With --access full they are on"
MENTIONED = "qwen would read @name as a file: it was sent as \\@name"


# -- captures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [name.partition("/")[2] for name in EXPECTED if name.startswith("qwen/")])
def test_verdict_of_every_recorded_case(case: str) -> None:
    check_expected("qwen", case, replay("qwen", case)[1])


@pytest.mark.parametrize("case", ONE_SHOT)
def test_what_holds_for_every_recorded_case(case: str) -> None:
    check_invariants(replay("qwen", case)[0])


def test_conforms() -> None:
    assert_conforms(AGENT, captures=CAPTURES / "qwen")


def test_events_of_a_turn_with_a_command() -> None:
    events, verdict = replay("qwen", "turn-partial")
    session, tool = "e1ad81a7-ed2c-4c9b-a3ef-2b8e351f7889", "call_36929996e1f74857"
    first, second = "a0831512-b373-41b3-93f5-588c6faf5881", "32a9ae7d-6bfd-4e6f-abb7-c6a86498153a"
    usage = Usage(input_tokens=2468, output_tokens=112, cached_tokens=2000)
    assert events == [
        Started(agent="qwen", agent_session=session, model="fake-model", folder="/workspace"),
        *(TextDelta(text=word, id=first) for word in ("I ", "will ", "run ", "one ", "tool ", "now.")),
        Text(text="I will run one tool now.", id=first),
        ToolStarted(
            id=tool,
            name="run_shell_command",
            title=COMMAND,
            input={"command": COMMAND, "description": "run the scripted step"},
        ),
        ToolEnded(id=tool, output="hello-from-tool"),
        *(TextDelta(text=word, id=second) for word in ("All ", "done. ", "The ", "tool ", "ran ", "and ", "this ")),
        *(TextDelta(text=word, id=second) for word in ("is ", "the ", "final ", "answer.")),
        Text(text=FINAL, id=second),
        UsageReport(usage=usage),
    ]
    assert verdict == Verdict(
        outcome="done",
        evidence=("result success",),
        text=FINAL,
        agent_session=session,
        model="fake-model",
        usage=usage,
        cumulative=True,
        steps=2,
    )


def test_events_of_a_server_that_refuses() -> None:
    events, verdict = replay("qwen", "error-401")
    session, said = "8a1994c1-6f5f-4460-b875-0bfb843da87d", "API Error: 401 scripted 401 from the fake server"
    assert events == [
        Started(agent="qwen", agent_session=session, model="fake-model", folder="/workspace"),
        Notice(text=f"[{said}]", code="agent"),
    ]
    assert verdict == Verdict(
        outcome="failed",
        error=Problem(kind="unauthenticated", message=said, hint=LOGIN),
        evidence=("result error_during_execution",),
        agent_session=session,
        model="fake-model",
        steps=1,
    )


def test_a_schema_gives_the_object_and_its_tool_is_quiet() -> None:
    events, verdict = replay("qwen", "json-schema")
    assert verdict.structured == {"answer": "fake", "n": 7}
    assert [e.quiet for e in events if isinstance(e, ToolStarted | ToolEnded)] == [True, True]


def test_a_resumed_conversation_counts_all_of_it() -> None:
    _, first = replay("qwen", "resume-1")
    events, second = replay("qwen", "resume-2-id", resume=True)
    assert [v.usage and v.usage.input_tokens for v in (first, second)] == [3702, 7404]
    assert (first.cumulative, second.cumulative) == (True, True)
    assert not [e for e in events if isinstance(e, UsageReport)]


# -- what must not pass as success ------------------------------------------------------------------

INIT = {"type": "system", "subtype": "init", "session_id": UUID, "model": "m"}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "hay"}
FAILED = {"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0}


def verdict_of(*records: Any, code: int = 0, stderr: str = "", **options: Any) -> Verdict:
    return replay_lines("qwen", lines(*records), stderr, code, **options)[1]


@pytest.mark.parametrize(
    ("records", "code", "outcome", "kind"),
    [
        ([INIT], 0, "unproven", "unproven"),
        ([], 0, "unproven", "unproven"),
        ([INIT, RESULT | {"num_turns": 0}], 0, "unproven", "unproven"),
        ([INIT, FAILED | {"error": {"message": "[API Error: 429 slow down]"}}], 0, "failed", "limited"),
        ([INIT, FAILED | {"error": {"message": "[API Error: Context is too large]"}}], 1, "failed", "bad_request"),
        ([FAILED | {"error": {"message": "No auth type is selected. Configure one"}}], 1, "failed", "unauthenticated"),
        ([INIT, FAILED | {"error": None}], 0, "crashed", "crashed"),
        ([INIT, RESULT], 1, "crashed", "crashed"),
        ([INIT, RESULT], -15, "crashed", "crashed"),
    ],
)  # fmt: skip
def test_not_a_success(records: list[Any], code: int, outcome: str, kind: str) -> None:
    verdict = verdict_of(*records, code=code)
    assert (verdict.outcome, verdict.error and verdict.error.kind) == (outcome, kind)


def test_a_success_is_one() -> None:
    assert (verdict_of(INIT, RESULT).outcome, verdict_of(INIT, RESULT).text) == ("done", "hay")


def test_a_bad_resume_id_is_not_found() -> None:
    _, verdict = replay("qwen", "resume-bad", resume=True, agent_session=UUID)
    said = 'No saved session found with title "11111111-2222-3333-4444-555555555555".'
    assert verdict.error == Problem(kind="not_found", message=said)
    said = "Error: Session Id 1-2 already exists (active or archived). Delete or unarchive it first."
    assert verdict_of(code=1, stderr=said).error == Problem(kind="exists", message=said)


def test_another_conversation_than_the_one_asked_for_is_not_found() -> None:
    verdict = verdict_of(INIT, RESULT, resume=True, agent_session=UUID.replace("1", "2"))
    assert verdict.error and verdict.error.kind == "not_found"


PLAIN = "Model produced plain text instead of calling the structured_output tool as required by --json-schema"
SAID = {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "plain"}]}}


def test_a_plain_answer_under_a_schema_is_left_to_be_looked_into() -> None:
    records = (INIT, SAID, FAILED | {"error": {"message": PLAIN}})
    verdict = verdict_of(*records, code=1, schema={"type": "object"})
    assert (verdict.outcome, verdict.text, verdict.structured) == ("done", "plain", None)
    assert verdict_of(*records, code=-15, schema={"type": "object"}).outcome == "crashed"
    assert verdict_of(*records, code=1).error is not None


def test_half_a_stream_keeps_its_text() -> None:
    whole = (CAPTURES / "qwen" / "turn-partial.ndjson").read_bytes().splitlines()
    events, verdict = replay_lines("qwen", whole[:6], code=-9)
    assert events[-1] == Text(text="I will ", id="a0831512-b373-41b3-93f5-588c6faf5881")
    assert (verdict.outcome, verdict.text) == ("crashed", "I will ")


# -- records ----------------------------------------------------------------------------------------


def use(name: str, input: Any) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": "t1", "name": name, "input": input}]},
    }


def answer(content: Any, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": is_error}
    return {"type": "user", "message": {"content": [block]}}


def test_a_written_file_is_named() -> None:
    input = {"file_path": "/workspace/a.txt", "content": "x"}
    events, _ = replay_lines("qwen", lines(use("write_file", input), answer("ok")))
    files = (FileChange(path="/workspace/a.txt"),)
    assert events == [
        ToolStarted(id="t1", name="write_file", title="/workspace/a.txt", input=input, files=files),
        ToolEnded(id="t1", output="ok", files=files),
    ]


def test_a_plan() -> None:
    todos = [{"id": "1", "content": "feed", "status": "in_progress"}]
    events, _ = replay_lines("qwen", lines(use("todo_write", {"todos": todos})))
    assert events[1] == Plan(steps=(PlanStep(text="feed", status="active"),))


def test_a_wait_for_the_server() -> None:
    data = {"reason": "retry", "attempt": 1, "maxRetries": 1, "delayMs": 60000}
    events, _ = replay_lines("qwen", lines({"type": "system", "subtype": "retry", "data": data}))
    assert events == [Limited(message="the model's server asks to wait", attempt=1, retry_in=60.0)]


@pytest.mark.parametrize(
    ("access", "name", "said", "remedy"),
    [
        ("read", "write_file", '"write_file" is not listed in the active core tools allowlist', "write"),
        ("read", "run_shell_command", "that permission was declined. Matching deny rule", "full"),
        ("write", "run_shell_command", "that permission was declined. Matching deny rule", "full"),
        ("read", "mcp__usr__put", 'Tool "mcp__usr__put" is unavailable: the MCP server "usr" is not allowed', "full"),
    ],
)
def test_a_tool_that_was_taken_away_is_refused(access: str, name: str, said: str, remedy: Any) -> None:
    denial = {"tool_name": name, "tool_use_id": "t1", "tool_input": {"path": "p"}}
    result = RESULT | {"permission_denials": [denial]}
    events, verdict = replay_lines(
        "qwen", lines(INIT, use(name, {"path": "p"}), answer(said, True), result), access=access
    )
    assert [e.denied for e in events if isinstance(e, ToolEnded)] == [True]
    assert verdict.denied == (Denial(tool=name, target="p", access=remedy, reason=said),)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(["text", "init", "t1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("subtype", "event", "message", "content", "data", "result", "usage", "error", "permission_denials")


@pytest.mark.parametrize("kind", ["stream_event", "assistant", "user", "system", "result"])
@given(record=st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_shape_of_a_record_raises(kind: str, record: dict[str, Any]) -> None:
    reader = AGENT.reader(turn_of("qwen"))
    events = [*reader.read(record | {"type": kind}), *reader.flush()]
    assert all(isinstance(event, Event) for event in events)
    assert reader.end(Exit(code=0), "").outcome != "done" or kind == "result"


# -- launch -----------------------------------------------------------------------------------------


def launched(host: Host = HOST, **options: Any) -> Launch:
    return AGENT.launch(turn_of("qwen", **{"access": "read", **options}), host)


def test_the_first_turn() -> None:
    assert launched(agent_session=UUID, model="qwen3-coder", system="Be brief") == Launch(
        argv=(
            *START,
            "--approval-mode=default",
            f"--session-id={UUID}",
            READ_TOOLS,
            NO_SERVERS,
            f"--exclude-tools=write_file,edit,notebook_edit,{COMMANDS}",
            "--model=qwen3-coder",
            "--append-system-prompt=Be brief",
        ),
        stdin=b"do it",
        env=ENV,
    )


def test_a_later_turn_that_may_write() -> None:
    assert launched(access="write", agent_session=UUID, resume=True, fork=True, schema={"type": "object"}) == Launch(
        argv=(
            *START,
            "--approval-mode=auto-edit",
            f"--resume={UUID}",
            "--fork-session",
            f"{READ_TOOLS},write_file,edit,notebook_edit",
            NO_SERVERS,
            f"--exclude-tools={COMMANDS}",
            '--json-schema={"type":"object"}',
        ),
        stdin=b"do it",
        env=ENV,
        notices=(OUTSIDE,),
    )


def test_behind_a_wall_write_has_a_shell() -> None:
    launch = launched(access="write", walled=True)
    assert launch.argv[len(START) :] == (
        "--approval-mode=auto-edit",
        f"{READ_TOOLS},write_file,edit,notebook_edit,run_shell_command",
        NO_SERVERS,
        "--allowed-tools=run_shell_command",
        f"--exclude-tools={COMMANDS.removeprefix('run_shell_command,')}",
    )
    assert launch.notices == ()
    asking = launched(access="write", walled=True, transport="dialog")  # where somebody says yes or no
    assert "run_shell_command" in asking.argv[-3] and not [f for f in asking.argv if f.startswith("--allowed-tools")]
    assert launched(access="read", walled=True) == launched(access="read")


def test_full_and_lean() -> None:
    assert launched(access="full", lean=True) == Launch(
        argv=(*START, "--approval-mode=yolo", "--bare"), stdin=b"do it", env=ENV
    )


def test_tools_allowed_and_denied_stay_within_the_access() -> None:
    launch = launched(tools_allowed=("read", "web", "shell", "mcp__db__query"), tools_denied=("glob",))
    assert launch.argv[4:] == (
        "--core-tools=read_file,web_fetch",
        "--allowed-mcp-server-names=db",
        "--allowed-tools=web_fetch",
        f"--exclude-tools=write_file,edit,notebook_edit,{COMMANDS},glob",
    )


def test_attachments() -> None:
    given = (Attachment(path="/tmp/a b.png", image=True), Attachment(name="n.md", content="@README.md"))
    launch = launched(attachments=given)
    assert "--allowed-tools=Read(//tmp/a?b.png)" in launch.argv
    assert launch.stdin.decode() == (
        'do it\n\n<file name="n.md">\n\\@README.md\n</file>\n\nAttached files:\n- /tmp/a b.png'
    )
    assert launch.notices == (MENTIONED,)


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("/exit", b"\n/exit"),
        ("--version", b"--version"),
        ("-", b"-"),
        ("@file and (@other), ann@example.org", b"\\@file and (\\@other), ann@example.org"),
        ("a \\@file", b"a \\@file"),
        ("@ home", b"@ home"),
        ("!ls", b"!ls"),
        ("#x", b"#x"),
    ],
)
def test_prompts_are_literal(prompt: str, sent: bytes) -> None:
    launch = launched(prompt=prompt)
    assert launch.stdin == sent
    assert launch.notices == ((MENTIONED,) if prompt.startswith("@file") else ())
    assert launch.argv == launched().argv
    assert launched(prompt="@file", command=True).stdin == b"@file"


@pytest.mark.parametrize("id", ["--version", "latest", "my title"])
def test_only_an_id_names_a_conversation(id: str) -> None:
    with pytest.raises(OstlerError) as caught:
        launched(agent_session=id, resume=True)
    assert caught.value.kind == "bad_request"


def test_a_schema_that_is_too_long_for_an_argument_is_unsupported() -> None:
    with pytest.raises(OstlerError) as caught:
        launched(schema={"description": "x" * 120_000})
    assert caught.value.kind == "unsupported"


LONG = "Mind @barn. " * 10_000


def test_a_system_prompt_that_is_too_long_for_an_argument_goes_before_the_first_prompt() -> None:
    once = launched(system=LONG, prompt="go")
    assert not any("system-prompt" in flag for flag in once.argv)
    assert once.stdin == (LONG.replace("@", r"\@") + "\n\ngo").encode()  # nor is a file read that it names
    assert once.notices == (SYSTEM_FIRST, MENTIONED)
    later = launched(system=LONG, prompt="go", first=False)
    assert (later.stdin, later.notices) == (b"go", ())
    assert launched(system=LONG, prompt="/stats", command=True).notices == (SYSTEM_LEFT_OUT,)
    assert launched(system="x" * 100_000).argv[-1].startswith("--append-system-prompt=")


def test_a_long_one_that_stands_for_qwens_own_is_a_file() -> None:
    once = launched(system=LONG, system_mode="replace", prompt="go")
    path = once.env["QWEN_SYSTEM_MD"]
    assert (once.files[path], once.stdin, once.notices) == (LONG.encode(), b"go", ())


def test_in_a_dialog_a_long_one_comes_with_the_first_prompt_and_is_told_once() -> None:
    face = AGENT.dialog
    assert face is not None
    turn = turn_of("qwen", system=LONG, prompt="go")
    assert face.launch(turn, HOST).notices == ()
    told, *_ = face.dialog(turn, HOST).prompt(turn)
    assert [notice.text for notice in told.events] == [SYSTEM_FIRST, MENTIONED]


# -- adoption ---------------------------------------------------------------------------------------


def test_conversations_that_qwen_keeps() -> None:
    assert AGENT.conversation is not None
    parts = [{"text": "<system-reminder>today"}, {"text": "fix it\nplease"}]
    records = [
        {"type": "system", "cwd": "/home/ann/app"},
        {"type": "user", "cwd": "/home/ann/app", "message": {"role": "user", "parts": parts}},
    ]
    path = f"/home/ann/.qwen/projects/-home-ann-app/chats/{UUID}.jsonl"
    assert AGENT.conversation(path, records) == Conversation(id=UUID, folder="/home/ann/app", title="fix it")
    assert AGENT.conversation(path, []) is None


def test_every_flag_it_needs_is_in_the_help() -> None:
    assert [flag for flag in AGENT.needs if flag not in HELP] == []
