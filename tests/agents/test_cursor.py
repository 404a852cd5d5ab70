"""cursor's captures are written by hand: these tests prove the reading of the description, not of the CLI."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.replayed import cases, check_invariants, lines, replay, replay_lines, turn_of
from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import (
    Attachment,
    Denial,
    Exit,
    FileChange,
    Host,
    Launch,
    Plan,
    PlanStep,
    Raw,
    Started,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Usage,
)

AGENT = AGENTS["cursor"]
HELP = "--output-format --stream-partial-output --trust --mode --force --sandbox --resume --model"
HOST = Host(executable="/bin/cursor-agent", help=HELP, private="/private")
SESSION = "c0ffee00-0000-4000-8000-000000000001"
STARTED = Started(agent="cursor", agent_session=SESSION, model="composer-2", folder="/workspace")
FIRST = ("/bin/cursor-agent", "-p", "--output-format=stream-json", "--trust")


def launched(host: Host = HOST, **options: Any) -> Launch:
    return AGENT.launch(turn_of("cursor", **options), host)


# -- turns


@pytest.mark.parametrize("case", cases("cursor"))
def test_every_capture_holds_the_invariants(case: str) -> None:
    events, _ = replay("cursor", case)
    check_invariants(events)


def test_a_turn_with_tools_a_plan_and_an_edit() -> None:
    events, verdict = replay("cursor", "turn")
    todos = [
        {"content": "read", "status": "TODO_STATUS_COMPLETED"},
        {"content": "write", "status": "TODO_STATUS_IN_PROGRESS"},
        {"content": "test", "status": "TODO_STATUS_PENDING"},
    ]
    path = "/workspace/a.txt"
    files = (FileChange(path=path),)
    assert events == [
        STARTED,
        ThoughtDelta(text="Let me "),
        ThoughtDelta(text="see."),
        Thought(text="Let me see."),
        TextDelta(text="I will "),
        TextDelta(text="look."),
        Text(text="I will look."),
        ToolStarted(id="t1", name="shell", title="ls", input={"command": "ls"}),
        ToolEnded(id="t1", output="a.txt\n", exit_code=0),
        ToolStarted(id="t2", name="todo", input={"todos": todos}),
        Plan(
            steps=(
                PlanStep(text="read", status="done"),
                PlanStep(text="write", status="active"),
                PlanStep(text="test"),
            )
        ),
        ToolEnded(id="t2"),
        ToolStarted(id="t3", name="edit", title=path, input={"path": path}, files=files),
        ToolEnded(id="t3", diff="-one\n+two\n", files=files),
        TextDelta(text="All "),
        TextDelta(text="done."),
        Text(text="All done."),
    ]
    assert (verdict.outcome, verdict.text, verdict.agent_session) == ("done", "All done.", SESSION)
    assert verdict.usage == Usage(input_tokens=100, output_tokens=7, cached_tokens=60)


def test_a_refused_write() -> None:
    events, verdict = replay("cursor", "denied", access="read")
    path = "/workspace/app.py"
    files = (FileChange(path=path),)
    assert events == [
        STARTED,
        ToolStarted(id="t1", name="write", title=path, input={"path": path, "fileText": "x"}, files=files),
        ToolEnded(id="t1", ok=False, files=files, denied=True),
        Text(text="I may not write."),
    ]
    assert verdict.denied == (Denial(tool="write", target=path, access="write", reason="plan mode"),)
    assert verdict.outcome == "done"


def test_a_turn_that_was_cut_owes_its_text_and_closes_its_tool() -> None:
    events, verdict = replay("cursor", "cut")
    assert events == [
        STARTED,
        TextDelta(text="I will "),
        Text(text="I will "),
        ToolStarted(id="t1", name="shell", title="sleep 9", input={"command": "sleep 9"}),
        ToolEnded(id="t1", ok=False),
    ]
    assert (verdict.outcome, verdict.agent_session) == ("crashed", SESSION)


# -- honesty


@pytest.mark.parametrize(
    ("case", "outcome", "kind"),
    [
        ("is-error", "failed", "limited"),
        ("not-logged-in", "failed", "unauthenticated"),
        ("no-result", "unproven", "unproven"),
    ],
)
def test_errors_have_their_kind_whatever_the_exit(case: str, outcome: str, kind: str) -> None:
    _, verdict = replay("cursor", case)
    assert (verdict.outcome, verdict.error and verdict.error.kind) == (outcome, kind)


def test_a_result_that_does_not_say_success_is_none() -> None:
    _, verdict = replay_lines("cursor", lines({"type": "result", "session_id": SESSION, "result": "hm"}))
    assert verdict.outcome != "done"


def test_a_resume_that_began_anew_is_not_found() -> None:
    _, verdict = replay("cursor", "turn", resume=True, agent_session="another")
    assert verdict.error and verdict.error.kind == "not_found"


def test_text_without_deltas_and_unknown_records() -> None:
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}}
    unknown = {"type": "novelty"}
    events, _ = replay_lines("cursor", lines(said, said, unknown))
    assert events == [Text(text="hi"), Raw(record=unknown)]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["shellToolCall", "todoToolCall", "args", "result", "rejected", "todos", "success"]),
                inner,
            )
        ),
    )
)
def test_no_shape_of_a_record_raises(value: Any) -> None:
    reader = AGENT.reader(turn_of("cursor"))
    for kind, subtype in (("tool_call", "started"), ("tool_call", "completed"), ("assistant", None), ("thinking", "")):
        reader.read({"type": kind, "subtype": subtype, "tool_call": value, "message": value, "text": value})
        reader.read({"type": kind, "subtype": subtype, "tool_call": {"todoToolCall": value}})
    reader.read({"type": value, "subtype": value})
    reader.read({"type": "result", "usage": value, "result": value, "session_id": value})
    reader.flush()
    assert reader.open_tools == {}
    assert reader.end(Exit(code=0), "").outcome != "done"


# -- launch


@pytest.mark.parametrize(
    ("access", "flags"),
    [
        ("read", ("--mode=plan",)),
        ("write", ("--force", "--sandbox=enabled")),
        ("full", ("--force", "--sandbox=disabled")),
    ],
)
def test_a_first_turn(access: Any, flags: tuple[str, ...]) -> None:
    assert launched(access=access) == Launch(argv=(*FIRST, *flags, "--stream-partial-output", "--", "do it"))


def test_a_turn_with_everything() -> None:
    launch = launched(
        host=Host(executable="/bin/cursor-agent", private="/private", folder_names=frozenset({"AGENTS.md"})),
        prompt="/exit",
        model="composer-2",
        system="Be brief.",
        resume=True,
        agent_session=SESSION,
        attachments=(Attachment(path="/a.png", image=True), Attachment(name="n.txt", content="inline")),
    )
    prompt = 'Be brief.\n\n\n/exit\n\nAttached files:\n- /a.png\n\n<file name="n.txt">\ninline\n</file>'
    assert launch == Launch(
        argv=(
            *(*FIRST, "--force", "--sandbox=disabled", "--model=composer-2", f"--resume={SESSION}"),
            *("--", prompt),
        ),
        notices=("the folder has an AGENTS.md: the system prompt was put before the first prompt",),
    )


def test_the_system_prompt_is_a_file_where_there_is_none() -> None:
    launch = launched(system="Be brief.")
    assert (launch.folder_files, launch.argv[-1], launch.notices) == ({"AGENTS.md": "Be brief."}, "do it", ())


def test_a_later_turn_does_not_repeat_the_system_prompt() -> None:
    host = Host(executable="/bin/cursor-agent", folder_names=frozenset({"AGENTS.md"}))
    launch = launched(host=host, system="Be brief.", first=False, resume=True, agent_session=SESSION)
    assert (launch.argv[-1], launch.folder_files, launch.notices) == ("do it", {}, ())


def test_a_long_prompt_lies_in_a_private_file() -> None:
    prompt = "ü" * 50_001
    launch = launched(prompt=prompt)
    assert launch.files == {"/private/prompt.txt": prompt.encode()}
    assert "/private/prompt.txt" in launch.argv[-1] and len(launch.argv[-1]) < 200
    assert launched(prompt="ü" * 50_000).files == {}


@pytest.mark.parametrize("prompt", ["--version", "-", "--help", "@file", "/exit", "!ls"])
def test_prompts_stand_behind_the_dashes(prompt: str) -> None:
    argv = launched(prompt=prompt).argv
    assert argv.index("--") == len(argv) - 2
    assert argv[-1].removeprefix("\n") == prompt


def test_lists_of_tools_are_unsupported() -> None:
    with pytest.raises(OstlerError) as raised:
        launched(tools_denied=("shell",))
    assert raised.value.kind == "unsupported"


def test_no_key_in_the_arguments() -> None:
    launch = launched(env={"CURSOR_API_KEY": "key-of-the-stable"})
    assert "key-of-the-stable" not in json.dumps(launch.argv)
    assert ("NODE_OPTIONS" in AGENT.drop, AGENT.keys) == (True, ("CURSOR_API_KEY",))
