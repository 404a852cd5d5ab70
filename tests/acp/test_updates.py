"""Events to updates, whole values: words, tools, diffs, asks, terminals, usage; and prompts the other way."""

import base64
from typing import Any

import pytest

from ostler.acp.kinds import KINDS, kind_of
from ostler.acp.permissions import chosen
from ostler.acp.prompts import Image, PromptContent, read_prompt
from ostler.acp.updates import OUTPUT, UpdateContext, UpdateTranslator, merged, usage_of
from ostler.agents import AGENTS
from ostler.agents.proposals import unified
from ostler.agents.tools import category_of
from ostler.errors import OstlerError
from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    AskOption,
    Attachment,
    Ended,
    FileChange,
    Limited,
    Notice,
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
    UsageReport,
)

LOOK = UpdateContext(folder="/w")
ONCE = (
    AskOption(id="yes", name="Allow", kind="allow_once"),
    AskOption(id="no", name="Deny", kind="reject_once"),
)


def updates(*events: AnyEvent, look: UpdateContext = LOOK) -> list[dict[str, Any]]:
    made = UpdateTranslator(look, "k3ab-f00d")
    return [update for event in events for update in made.of(event)]


def chunk(kind: str, text: str, message: int) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": f"agent_{kind}_chunk", "content": content, "messageId": f"f00d.{message}"}


# -- words --------------------------------------------------------------------------------------------


def test_words_are_told_once() -> None:
    assert updates(
        Started(agent="claude"),
        ThoughtDelta(text="Hm", id="t"),
        ThoughtDelta(text="m.", id="t"),
        Thought(text="Hmm.", id="t"),
        TextDelta(text="Hel", id="m"),
        TextDelta(text="lo", id="m"),
        Text(text="Hello", id="m"),
        Text(text="Alone.", id="n"),
        TextDelta(text="Cut", id="o"),
        Text(text="Cut short", id="o"),
        Raw(line="?"),
        Ended(outcome="done"),
    ) == [
        chunk("thought", "Hm", 1),
        chunk("thought", "m.", 1),
        chunk("message", "Hel", 2),
        chunk("message", "lo", 2),
        chunk("message", "Alone.", 3),
        chunk("message", "Cut", 4),
        chunk("message", " short", 4),
    ]


def test_messages_without_ids_are_apart() -> None:
    told = updates(TextDelta(text="one"), Text(text="one"), TextDelta(text="two"), Text(text="two"))
    assert told == [chunk("message", "one", 1), chunk("message", "two", 2)]


def test_a_whole_text_that_differs_from_its_deltas_is_not_told_again() -> None:
    assert updates(TextDelta(text="key: *****", id="m"), Text(text="key: secret", id="m")) == [
        chunk("message", "key: *****", 1)
    ]


def test_history_is_told_whole() -> None:
    told = updates(
        TextDelta(text="a", id="m"), TextDelta(text="b", id="m"), Text(text="abc", id="m"), Text(text="d", id="n")
    )
    assert merged(told) == [chunk("message", "abc", 1), chunk("message", "d", 2)]


# -- tools --------------------------------------------------------------------------------------------


def test_a_command() -> None:
    input = {"command": "make test"}
    assert updates(
        ToolStarted(id="t1", name="Bash", title="make test", input=input),
        ToolEnded(id="t1", ok=False, output="2 failed\n", exit_code=2, duration_ms=5),
        ToolEnded(id="t1", ok=True),
    ) == [
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "f00d.t1",
            "title": "make test",
            "name": "Bash",
            "kind": "execute",
            "status": "in_progress",
            "content": [],
            "locations": [],
            "rawInput": input,
        },
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "f00d.t1",
            "status": "failed",
            "content": [{"type": "content", "content": {"type": "text", "text": "2 failed\n"}}],
            "rawOutput": {"output": "2 failed\n", "exit_code": 2, "duration_ms": 5},
        },
    ]


def test_a_command_in_a_terminal_of_the_client() -> None:
    look = UpdateContext(folder="/w", terminals=True)
    began, ended = updates(
        ToolStarted(id="t1", name="Bash", title="ls", input={"command": "ls"}),
        ToolEnded(id="t1", output="a\nb\n", exit_code=0),
        look=look,
    )
    terminal = [{"type": "terminal", "terminalId": "f00d.t1"}]
    assert (began["content"], began["_meta"]) == (
        terminal,
        {"terminal_info": {"terminal_id": "f00d.t1", "cwd": "/w"}},
    )
    assert (ended["content"], ended["_meta"]) == (
        terminal,
        {
            "terminal_output": {"terminal_id": "f00d.t1", "data": "a\nb\n"},
            "terminal_exit": {"terminal_id": "f00d.t1", "exit_code": 0, "signal": None},
        },
    )


@pytest.mark.parametrize("code", [None, -9])
def test_an_exit_that_is_not_known_is_not_made_up(code: int | None) -> None:
    look = UpdateContext(folder="/w", terminals=True)
    _, ended = updates(
        ToolStarted(id="t1", name="Bash", input={"command": "ls"}), ToolEnded(id="t1", exit_code=code), look=look
    )
    assert ended["_meta"] == {"terminal_exit": {"terminal_id": "f00d.t1", "exit_code": None, "signal": None}}


def test_an_edit_shows_what_it_changes_from_the_start() -> None:
    input = {"file_path": "/w/a.py", "old_string": "one\ntwo", "new_string": "one\n2"}
    began, ended = updates(
        ToolStarted(id="e", name="Edit", title="a.py", input=input), ToolEnded(id="e", output="updated")
    )
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "one\ntwo\n", "newText": "one\n2\n"}
    assert (began["kind"], began["content"], began["locations"]) == ("edit", [diff], [{"path": "/w/a.py"}])
    assert ended["content"] == [diff, {"type": "content", "content": {"type": "text", "text": "updated"}}]


def test_what_an_edit_did_replaces_what_it_meant_to_do() -> None:
    done = unified("a.py", "before\n", "after\n")
    _, ended = updates(
        ToolStarted(id="e", name="Write", input={"file_path": "a.py", "content": "after\n"}),
        ToolEnded(id="e", diff=done, files=(FileChange(path="a.py"),)),
    )
    assert ended["content"] == [{"type": "diff", "path": "/w/a.py", "oldText": "before\n", "newText": "after\n"}]
    assert ended["locations"] == [{"path": "/w/a.py"}]


def test_a_tool_that_was_refused_and_one_within_another() -> None:
    told = updates(
        ToolStarted(id="s", name="Task", title="look"),
        ToolStarted(id="r", name="Read", input={"file_path": "x"}, parent="s"),
        ToolEnded(id="r", ok=False, output="no", denied=True),
    )
    assert told[1]["_meta"] == {"ostler": {"parent": "f00d.s"}}
    assert told[2]["rawOutput"] == {"output": "no", "denied": True}


def test_a_tool_that_is_told_again_is_updated() -> None:
    told = updates(ToolStarted(id="r", name="Read"), ToolStarted(id="r", name="Read", title="x.py"))
    assert [(u["sessionUpdate"], u["title"]) for u in told] == [("tool_call", "Read"), ("tool_call_update", "x.py")]


def test_an_end_without_a_beginning_is_a_whole_call() -> None:
    told = updates(ToolEnded(id="z", output="out"))
    assert [u["sessionUpdate"] for u in told] == ["tool_call", "tool_call_update"]


def test_endless_output_is_cut() -> None:
    _, ended = updates(ToolStarted(id="t", name="Bash"), ToolEnded(id="t", output="x" * (OUTPUT * 2)))
    said = ended["content"][0]["content"]["text"]
    assert len(said) < OUTPUT + 100 and "left out" in said


@pytest.mark.parametrize(
    ("agent", "name", "kind"),
    [
        ("claude", "Bash", "execute"),
        ("claude", "MultiEdit", "edit"),
        ("claude", "Grep", "search"),
        ("claude", "WebFetch", "fetch"),
        ("claude", "TodoWrite", "think"),
        ("gemini", "read_many_files", "read"),
        ("gemini", "replace", "edit"),
        ("codex", "command_execution", "execute"),
        ("codex", "file_change", "edit"),
        ("opencode", "execute", "execute"),
        ("script", "mcp__db__query", "other"),
        ("script", "delete_file", "delete"),
        ("script", "rename_symbol", "move"),
    ],
)
def test_kinds_of_tools(agent: str, name: str, kind: str) -> None:
    assert kind_of(name, category_of(name, AGENTS[agent].tools)) == kind
    assert kind in KINDS


# -- asks ---------------------------------------------------------------------------------------------


def test_an_ask_about_a_tool_that_has_begun() -> None:
    made, input = UpdateTranslator(LOOK, "k3ab-f00d"), {"command": "rm x"}
    made.of(ToolStarted(id="t1", name="Bash", title="rm x", input=input))
    asked = Asked(id="q", tool="Bash", title="rm x", input=input, options=ONCE, reason="it deletes")
    assert made.of(asked) == []
    assert made.permission(asked) == {
        "toolCall": {
            "toolCallId": "f00d.t1",
            "title": "rm x",
            "kind": "execute",
            "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": "it deletes"}}],
            "locations": [],
            "rawInput": input,
        },
        "options": [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Deny", "kind": "reject_once"},
        ],
    }
    assert made.of(Answered(id="q", option="reject_once", by="the editor")) == []
    assert made.of(Ended(outcome="done")) == []


def test_an_ask_before_its_tool() -> None:
    made, input = UpdateTranslator(LOOK, "k3ab-f00d"), {"file_path": "x", "content": "y"}
    asked = Asked(id="q", tool="Write", input=input, diff=unified("x", None, "y"), options=ONCE)
    [call] = made.of(asked)
    assert (call["sessionUpdate"], call["toolCallId"], call["status"]) == ("tool_call", "f00d.ask:q", "pending")
    assert made.permission(asked)["toolCall"]["content"] == [{"type": "diff", "path": "/w/x", "newText": "y\n"}]
    assert made.of(Answered(id="q", option="allow_once", by="the editor")) == []
    [began] = made.of(ToolStarted(id="t", name="Write", input=input))
    assert (began["sessionUpdate"], began["toolCallId"]) == ("tool_call_update", "f00d.ask:q")
    [ended] = made.of(ToolEnded(id="t"))
    assert (ended["toolCallId"], ended["status"]) == ("f00d.ask:q", "completed")
    assert made.of(Ended(outcome="done")) == []


@pytest.mark.parametrize(
    ("option", "status", "said"),
    [("reject_once", "failed", "refused by rule 2"), ("cancelled", "failed", "cancelled"), ("allow_once", "", "")],
)
def test_an_ask_without_a_tool_comes_to_an_end(option: str, status: str, said: str) -> None:
    made = UpdateTranslator(LOOK, "k3ab-f00d")
    made.of(Asked(id="q", tool="Bash", input={"command": "x"}, options=ONCE))
    told = made.of(Answered(id="q", option=option, by="rule 2"))
    left = made.of(Ended(outcome="done"))
    if status:
        content = [{"type": "content", "content": {"type": "text", "text": said}}]
        assert (told[0]["status"], told[0]["content"], left) == (status, content, [])
    else:
        assert (told, left[0]["status"]) == ([], "completed")


@pytest.mark.parametrize(
    ("response", "option"),
    [
        ({"outcome": {"outcome": "selected", "optionId": "yes"}}, "allow_once"),
        ({"outcome": {"outcome": "selected", "optionId": "no"}}, "reject_once"),
        ({"outcome": {"outcome": "selected", "optionId": "allow_once"}}, "deny"),  # an id, not a kind
        ({"outcome": {"outcome": "selected"}}, "deny"),
        ({"outcome": {"outcome": "cancelled"}}, "cancelled"),
        ({"outcome": "selected"}, "deny"),
        (None, "deny"),
    ],
)
def test_only_a_clear_yes_is_one(response: Any, option: str) -> None:
    assert chosen(Asked(id="q", tool="Bash", options=ONCE), response)[0] == option


# -- the rest -----------------------------------------------------------------------------------------


def test_a_plan() -> None:
    steps = (PlanStep(text="a", status="done"), PlanStep(text="b", status="active"), PlanStep(text="c"))
    status = ["completed", "in_progress", "pending"]
    entries = [
        {"content": text, "priority": "medium", "status": s} for text, s in zip(("a", "b", "c"), status, strict=True)
    ]
    assert updates(Plan(steps=steps)) == [{"sessionUpdate": "plan", "entries": entries}]


def test_usage_counts_the_turn_and_the_cost_of_the_session() -> None:
    usage = Usage(input_tokens=100, output_tokens=20, cached_tokens=90)
    told = updates(UsageReport(usage=usage, cost_usd=0.5), look=UpdateContext(folder="/w", cost_usd=0.25))
    cost = {"amount": 0.75, "currency": "USD"}
    assert told == [{"sessionUpdate": "usage_update", "used": 120, "size": 0, "cost": cost}]
    assert usage_of(usage) == {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120, "cachedReadTokens": 90}
    assert updates(UsageReport(usage=Usage())) == [{"sessionUpdate": "usage_update", "used": 0, "size": 0}]


def test_notices_go_to_those_that_show_them() -> None:
    events = (Notice(text="a folder is large"), Notice(text="hm", quiet=True), Limited(message="slow down"))
    assert updates(*events) == []
    assert updates(*events, look=UpdateContext(folder="/w", notices=True)) == [
        {"sessionUpdate": "notice", "severity": "info", "title": "a folder is large"},
        {"sessionUpdate": "notice", "severity": "warning", "title": "slow down"},
    ]


# -- prompts ------------------------------------------------------------------------------------------


def test_a_prompt_of_everything() -> None:
    png = b"\x89PNG\r\n\x1a\n"
    wanted = read_prompt(
        [
            {"type": "text", "text": "compare "},
            {"type": "resource_link", "uri": "file:///w/a%20b.py#L3:9", "name": "a b.py"},
            {"type": "text", "text": " with"},
            {"type": "resource", "resource": {"uri": "file:///w/c.py", "text": "code", "mimeType": "text/x"}},
            {"type": "resource_link", "uri": "https://example.org/x", "name": "page"},
            {"type": "image", "data": base64.b64encode(png).decode(), "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///w/i.gif", "blob": "R0lG", "mimeType": "image/gif"}},
        ]
    )
    assert wanted == PromptContent(
        prompt="compare @/w/a b.py#L3:9 with @/w/c.py @[page](https://example.org/x) @image-1.png @i.gif",
        attachments=(Attachment(name="c.py", content="code"),),
        links=("/w/a b.py",),
        images=(Image(name="image-1.png", data=png), Image(name="image-2.gif", data=b"GIF")),
    )


def test_texts_in_a_row_are_paragraphs() -> None:
    assert read_prompt([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]).prompt == "one\ntwo"


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [
        (None, "bad_request"),
        ("hello", "bad_request"),
        (["hello"], "bad_request"),
        ([{"type": "audio", "data": "", "mimeType": "audio/wav"}], "unsupported"),
        ([{"type": "hologram"}], "unsupported"),
        ([{}], "unsupported"),
        ([{"type": "image", "data": "%%%", "mimeType": "image/png"}], "bad_request"),
        ([{"type": "image", "data": "", "mimeType": "image/png"}], "bad_request"),
        ([{"type": "image", "data": 5, "mimeType": "image/png"}], "bad_request"),
        ([{"type": "image", "data": "R0lG", "mimeType": "image/tiff"}], "unsupported"),
        ([{"type": "resource", "resource": {"uri": "file:///x", "blob": "R0lG"}}], "unsupported"),
        ([{"type": "resource_link", "name": "x"}], "bad_request"),
    ],
)
def test_what_is_no_prompt_is_refused(blocks: Any, kind: str) -> None:
    with pytest.raises(OstlerError) as refused:
        read_prompt(blocks)
    assert refused.value.kind == kind


@pytest.mark.parametrize("uri", ["file://elsewhere/etc/passwd", "file:relative", "file://[bad", "zed:///agent/rule"])
def test_links_that_are_no_files_of_this_machine_are_only_named(uri: str) -> None:
    wanted = read_prompt([{"type": "resource_link", "uri": uri, "name": "n"}])
    assert (wanted.links, wanted.prompt) == ((), f"@[n]({uri})")
