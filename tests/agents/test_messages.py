"""What claude and qwen share, read by a reader that has nothing else."""

import json
import re
from typing import Any

import pytest

from agents.replayed import CAPTURES, turn_of
from ostler.access import Access
from ostler.agents.hooks import MARK
from ostler.agents.messages import MessagesReader, attachment_rules, conversation_flags, kind_said
from ostler.errors import OstlerError
from ostler.model import (
    AnyEvent,
    Attachment,
    Denial,
    Exit,
    FileChange,
    Hook,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Started,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
)

ID = "01a1e199-7d51-7143-8680-c1629be8b49d"


class Shared(MessagesReader):
    """The reader of a CLI that has an editor, a list, and a shell that only `full` may use."""

    EDITS = frozenset(("Edit",))
    PLANS = frozenset(("Todo",))
    STRUCTURED = "Answer"
    ERROR_MARK = "[API Error: "
    MISSING = re.compile("no such tool")
    LOGIN = "Log in: claw login"

    def remedy(self, name: str) -> Access | None:
        return "full" if name == "Bash" else None

    def _result(self, record: dict[str, Any]) -> list[AnyEvent]:
        self._denials(record)
        self.succeed("result")
        return self._answer(str(record.get("result", "")))


def shared(**options: Any) -> Shared:
    return Shared(turn_of("claw", **options))


def read(reader: MessagesReader, *records: dict[str, Any]) -> list[AnyEvent]:
    return [event for record in records for event in reader.read(record)]


def message(*blocks: Any, id: str = "m1", **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": id, "content": list(blocks)}, **more}


def said(text: Any) -> dict[str, Any]:
    return {"type": "text", "text": text}


def used(name: str = "Bash", id: str = "c1", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(content: Any, id: str = "c1", is_error: bool = False, **record: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}
    return {"type": "user", "message": {"content": [block]}, **record}


def partial(event: Any, **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, **more}


def delta(text: str, kind: str = "text") -> dict[str, Any]:
    return partial({"type": "content_block_delta", "delta": {"type": f"{kind}_delta", kind: text}})


# -- for launches -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"agent_session": ID}, [f"--session-id={ID}"]),
        ({"agent_session": ID, "resume": True}, [f"--resume={ID}"]),
        ({"agent_session": ID, "resume": True, "fork": True}, [f"--resume={ID}", "--fork-session"]),
    ],
)
def test_flags_of_a_conversation(options: dict[str, Any], flags: list[str]) -> None:
    assert conversation_flags(turn_of("claw", **options)) == flags


@pytest.mark.parametrize("id", ["", "latest", "--print", f"{ID} ", f"{ID}\n", "../x"])
@pytest.mark.parametrize("resume", [True, False])
def test_what_is_no_id_is_refused(id: str, resume: bool) -> None:
    with pytest.raises(OstlerError) as refused:
        conversation_flags(turn_of("claw", agent_session=id, resume=resume))
    assert (refused.value.kind, refused.value.hint) == ("bad_request", "Its ids are UUIDs")


def test_a_path_cannot_end_its_rule_or_begin_another() -> None:
    paths = ["/w/a b.png", "/w/x),Bash(rm *", "/w/,y", "/w/[a]*{b}?", "/w/ü_+=~@-.txt"]
    attached = tuple(Attachment(path=path) for path in paths)
    assert attachment_rules(turn_of("claw", attachments=(*attached, Attachment(name="n", content="c")))) == [
        "Read(//w/a?b.png)",
        "Read(//w/x??Bash?rm??)",
        "Read(//w/?y)",
        "Read(//w/?a???b??)",
        "Read(//w/ü_+=~@-.txt)",
    ]


# -- kinds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (None, "No conversation found with session ID: x", "not_found"),
        (None, "No saved session found", "not_found"),
        (None, f"Session ID {ID} is already in use.", "exists"),
        (None, "sandbox required but unavailable", "missing"),
        (None, "No auth type is selected", "unauthenticated"),
        (None, "Prompt is too long", "bad_request"),
        (None, "Segmentation fault", "crashed"),
        (401, "Prompt is too long", "unauthenticated"),  # a status counts more than words
        (529, "No conversation found", "overloaded"),
        ("429", "odd", "crashed"),  # a status that is none does not count
        (True, "odd", "crashed"),
    ],
)
def test_kinds(status: Any, words: str, kind: str) -> None:
    assert kind_said(status, words) == kind


@pytest.mark.parametrize(
    ("exit", "stderr", "problem"),
    [
        (Exit(code=0), "bye", Problem(kind="unproven", message="claw ended without a result: bye")),
        (Exit(signal=9), "not logged in", Problem(kind="crashed", message="claw was ended by signal 9")),
        (
            Exit(code=1),
            "Not logged in",
            Problem(kind="unauthenticated", message="Not logged in", hint="Log in: claw login"),
        ),
        (Exit(code=1), "No saved session found", Problem(kind="not_found", message="No saved session found")),
        (Exit(code=1), "", Problem(kind="crashed", message="claw ended with exit code 1 and no result")),
    ],
)
def test_an_end_without_a_result(exit: Exit, stderr: str, problem: Problem) -> None:
    assert shared().no_result(exit, stderr) == problem


# -- words ------------------------------------------------------------------------------------------


def test_deltas_and_the_whole_text_that_follows_them() -> None:
    reader = shared()
    start = partial({"type": "message_start", "message": {"id": "m1"}})
    assert read(reader, start, delta("hm", "thinking"), delta("He"), delta("llo"), message(said("Hello"))) == [
        ThoughtDelta(text="hm", id="m1"),
        TextDelta(text="He", id="m1"),
        TextDelta(text="llo", id="m1"),
        Text(text="Hello", id="m1"),
    ]
    assert reader.flush() == [Thought(text="hm", id="m1")] and reader.text == "Hello"


def test_words_that_broke_off_are_told_whole_once() -> None:
    reader = shared()
    start = partial({"type": "message_start", "message": {"id": "m2"}})
    assert read(reader, delta("half"), start, delta("again")) == [
        TextDelta(text="half"),
        Text(text="half"),
        TextDelta(text="again", id="m2"),
    ]
    assert reader.flush() == [Text(text="again", id="m2")]
    assert reader.flush() == []


def test_what_is_no_delta_says_nothing() -> None:
    reader = shared()
    assert read(reader, delta(""), delta("[API Error: 500"), partial({"type": "message_stop"})) == []
    assert read(reader, {**delta("sub"), "parent_tool_use_id": "c1"}) == []
    assert read(reader, partial({"type": "content_block_delta", "delta": {"type": "input_json_delta"}})) == []
    odd = [partial(None), partial({"type": "content_block_delta", "delta": "x"})]
    assert read(reader, *odd) == [Raw(record=record) for record in odd]
    assert reader.flush() == [] and reader.text == ""


def test_blocks_of_a_message() -> None:
    reader = shared()
    unknown = {"type": "hologram"}
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "redacted_thinking"}, said("a"), said(""), unknown, "x"]
    assert read(reader, message(*blocks)) == [
        Thought(text="hm", id="m1"),
        Text(text="a", id="m1"),
        Raw(record=unknown),
        Raw(record="x"),
    ]
    assert read(reader, {"type": "assistant", "message": {"content": "bare"}}) == [Text(text="bare")]
    assert read(reader, {"type": "assistant"}, {"type": "assistant", "message": 5}) == []


def test_a_subagents_words_are_quiet_and_not_the_answer() -> None:
    reader = shared()
    read(reader, message(said("mine")))
    quiet = message({"type": "thinking", "thinking": "hm"}, said("theirs"), said(""), parent_tool_use_id="c1")
    assert read(reader, quiet) == [Thought(text="hm", id="m1", quiet=True), Text(text="theirs", id="m1", quiet=True)]
    assert reader.text == "mine"


@pytest.mark.parametrize("more", [{"is_api_error_message": True}, {}])
def test_what_the_program_says_is_no_answer(more: dict[str, Any]) -> None:
    reader = shared()
    record = message(said("API Error: 500"), "bare", **more)
    if not more:
        record["message"]["model"] = "<synthetic>"
    assert read(reader, record) == [Notice(text="API Error: 500", code="agent"), Notice(text="bare", code="agent")]
    assert read(reader, message(said("[API Error: 401 x]"))) == [Notice(text="[API Error: 401 x]", code="agent")]
    assert reader.text == "" and not reader.spoke


def test_the_answer_of_a_result_is_told_where_nothing_was_said() -> None:
    assert read(shared(), {"type": "result", "result": "done"}) == [Text(text="done")]
    reader = shared()
    assert read(reader, message(said("so far")), {"type": "result", "result": "done"}) == [Text(text="so far", id="m1")]
    assert reader.text == "done"
    reader = shared()
    read(reader, message(said("so far")), {"type": "result", "result": ""})
    assert reader.text == "so far"


# -- tools ------------------------------------------------------------------------------------------


def test_a_tool_and_its_result() -> None:
    reader = shared()
    assert read(reader, message(used(command="ls -l")), result("Exit code: 2\nno")) == [
        ToolStarted(id="c1", name="Bash", title="ls -l", input={"command": "ls -l"}),
        ToolEnded(id="c1", output="Exit code: 2\nno", exit_code=2),
    ]
    assert reader.open_tools == {}


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("text", "text"),
        ([said("a"), said("b")], "a\nb"),
        ([{"type": "image"}, {}, None, "c"], "[image]\n[content]\n[content]\nc"),
        (None, ""),
        ({"text": "x"}, ""),
    ],
)
def test_outputs(content: Any, output: str) -> None:
    assert read(shared(), result(content)) == [ToolEnded(id="c1", output=output)]


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Exit code 1", 1),
        ("x\nExit code: -9\n", -9),
        ("The Exit code 1", None),
        ("Exit codes 1", None),
        ("exit code", None),
    ],
)
def test_exit_codes(output: str, code: int | None) -> None:
    (ended,) = read(shared(), result(output))
    assert isinstance(ended, ToolEnded) and ended.exit_code == code


def test_an_edit_and_a_plan_and_an_answer_by_a_schema() -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"status": 7}, "x"]
    blocks = [used("Edit", "e", file_path="/workspace/x"), used("Todo", "t", todos=todos), used("Answer", "s", n=1)]
    edit, todo, plan, answer = read(shared(), message(*blocks))
    assert edit == ToolStarted(
        id="e", name="Edit", title="/workspace/x", input=blocks[0]["input"], files=(FileChange(path="/workspace/x"),)
    )
    assert isinstance(todo, ToolStarted) and not todo.quiet
    steps = (PlanStep(text="a", status="done"), PlanStep(text="b", status="active"), PlanStep(text=""))
    assert plan == Plan(steps=steps)
    assert answer == ToolStarted(id="s", name="Answer", input={"n": 1}, quiet=True)


def test_details_belong_to_one_result_alone() -> None:
    """Where several results come in one record, nobody knows whose the details are."""
    detail = {"type": "create", "filePath": "/workspace/n", "content": "x\n", "structuredPatch": []}
    one = result("ok", tool_use_result=detail)
    (ended,) = read(shared(), one)
    assert ended == ToolEnded(
        id="c1",
        output="ok",
        diff="--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+x\n",
        files=(FileChange(path="/workspace/n", change="add"),),
    )
    two = result("ok", tool_use_result=detail)
    two["message"]["content"] += result("ok", "c2")["message"]["content"]
    assert read(shared(), two) == [ToolEnded(id="c1", output="ok"), ToolEnded(id="c2", output="ok")]
    (failed,) = read(shared(), result("no", is_error=True, tool_use_result=detail))
    assert failed == ToolEnded(id="c1", ok=False, output="no")


# -- refusals ---------------------------------------------------------------------------------------


def rejected(source: str = "rule") -> dict[str, Any]:
    decision = {"id": "c1", "permission_decision": {"decision": "reject", "source": source}}
    return result("<error>Not allowed. IMPORTANT: do not</error>\nmore", is_error=True, tool_result_meta=[decision])


@pytest.mark.parametrize(("source", "access"), [("rule", "full"), ("hook", None)])
def test_a_refusal_is_kept_with_the_access_that_would_do(source: str, access: Any) -> None:
    reader = shared()
    _, ended = read(reader, message(used(command="rm x")), rejected(source))
    assert isinstance(ended, ToolEnded) and (ended.ok, ended.denied) == (False, True)
    assert reader.denied == [Denial(tool="Bash", target="rm x", access=access, reason="Not allowed.")]


def test_a_refusal_that_is_told_in_three_ways_is_one() -> None:
    reader = shared()
    told = {"type": "system", "subtype": "permission_denied", "tool_use_id": "c1", "tool_name": "Bash", "message": "no"}
    listed = {"permission_denials": [{"tool_use_id": "c1", "tool_name": "Bash", "tool_input": {"command": "rm x"}}]}
    read(reader, message(used(command="rm x")), told, rejected(), {"type": "result", **listed})
    assert reader.denied == [Denial(tool="Bash", target="rm x", access="full", reason="no")]


@pytest.mark.parametrize(("name", "denied"), [("Bash", True), ("Hologram", False)])
def test_a_tool_that_is_not_there_is_refused_if_some_access_has_it(name: str, denied: bool) -> None:
    reader = shared()
    _, ended = read(reader, message(used(name)), result("no such tool", is_error=True))
    assert isinstance(ended, ToolEnded) and ended.denied is denied
    assert bool(reader.denied) is denied


def test_words_about_missing_tools_in_good_output_are_no_refusal() -> None:
    reader = shared()
    _, ended = read(reader, message(used(command="grep tool log")), result("log: no such tool"))
    assert isinstance(ended, ToolEnded) and ended.ok and reader.denied == []


# -- what the program says of itself ----------------------------------------------------------------


def system(subtype: Any, **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **more}


def test_the_first_record_counts() -> None:
    reader = shared()
    assert read(reader, system("init", session_id="A", model="m"), system("init", session_id="B", model="n")) == [
        Started(agent="claw", agent_session="A", model="m", folder="/workspace")
    ]
    assert read(shared(), system("init", session_id=5)) == [Started(agent="claw", folder="/workspace")]


@pytest.mark.parametrize(
    ("record", "limited"),
    [
        (
            system("api_retry", attempt=2, retry_delay_ms=1500, error_status=529, error="overloaded"),
            Limited(error="overloaded", message="overloaded (529)", attempt=2, retry_in=1.5),
        ),
        (
            system("api_retry", error_status=401, error="bad key"),
            Limited(error="unauthenticated", message="bad key (401)"),
        ),
        (system("api_retry", error_status=400, error="odd"), Limited(error="overloaded", message="odd (400)")),
        (system("retry", data={"message": "busy", "delayMs": 0}), Limited(message="busy", retry_in=0.0)),
        (system("retry"), Limited(error="limited", message="the model's server asks to wait")),
        (
            system("retry", error_status="x", attempt="y", error="z", retry_delay_ms="w"),
            Limited(error="overloaded", message="z"),
        ),
    ],
)
def test_retries(record: dict[str, Any], limited: Limited) -> None:
    assert read(shared(), record) == [limited]


def test_hooks_notices_and_what_is_silent() -> None:
    hook = system("hook_started", hook_event="PreToolUse")
    assert read(shared(), hook) == [Hook(name="PreToolUse", payload=hook, quiet=True)]
    assert read(shared(), system("hook_response")) == [
        Hook(name="hook_response", payload=system("hook_response"), quiet=True)
    ]
    ours = system("hook_response", hook_event="Stop", stderr=f"{MARK}\n")
    theirs = system("hook_response", hook_event="Stop", stderr="")
    with_hooks = shared(hooks=True)
    assert read(with_hooks, hook, ours, theirs) == [Hook(name="Stop", payload=theirs, quiet=True)]
    assert read(shared(), system("local_command", content="hi"), system("x", content="ho", tag="t")) == [
        Notice(text="hi", code="local_command"),
        Notice(text="ho", code="t"),
    ]
    assert read(shared(), system("status", content="thinking"), system("task_progress")) == []
    odd: list[dict[str, Any]] = [system("new"), system(None), {"type": "news"}, {}]
    assert read(shared(), *odd) == [Raw(record=record) for record in odd]


@pytest.mark.parametrize("agent", ["claude", "qwen"])
def test_everything_that_was_recorded_is_understood(agent: str) -> None:
    """Of both programs: only what a subclass adds is unknown here."""
    unknown = set()
    for path in sorted((CAPTURES / agent).glob("*.ndjson")):
        if path.name.endswith((".hooks.ndjson", ".received.ndjson")):
            continue
        reader = shared()
        for line in path.read_bytes().splitlines():
            record = json.loads(line) if line.startswith(b"{") else {}
            events = reader.read(record) if record else []
            unknown |= {str(record.get("type")) for event in events if isinstance(event, Raw)}
        assert {type(event) for event in reader.flush()} <= {Text, Thought, ToolEnded}
    assert unknown <= {"control_request", "control_response", "rate_limit_event", "control_cancel_request"}
