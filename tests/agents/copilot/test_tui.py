"""copilot's screen and file, as the real 1.0.102 drew and wrote them against a scripted model."""

from typing import Any

import pytest

from ostler.agents.copilot.agent import AGENT
from ostler.agents.copilot.tui import CopilotTranscript, answer_ends, box, is_busy, pasted_prompt, question, transcripts
from ostler.agents.tui import Signals, TuiScreen
from ostler.model import AnyEvent, Host, Text, ToolEnded, ToolStarted, Turn

FACE = AGENT.tui
assert FACE is not None
ID = "11111111-1111-4111-8111-111111111111"
TURN = Turn(id="t", session="s", agent="copilot", prompt="do it", folder="/f", agent_session=ID, access="full")
BAR = " " * 60 + "┃"
HEAD, FOOT = "╻" + "▄" * 119, "╹" + "▀" * 119
IDLE = " ← open sidebar · Interactive · Manual Approval · / commands · ? help · tab next tab       fake-model"
SAID = (f"  ❯ do it      18:20   {BAR}", f" ● 1. One.{BAR}", f"   2. Two.{BAR}", "", " /f [⎇ master%]")
READY = (*SAID, HEAD, "┃", FOOT, IDLE)
TYPED = (
    *SAID,
    HEAD,
    "┃ first line",
    "┃ [[hold:one]] wait",
    FOOT,
    " Interactive · Manual Approval · @ files       fake-model",
)
LONG = (*SAID, HEAD, "┃ [Paste #1 - 134 lines][Paste #2 - 133 lines]", FOOT, IDLE)
BUSY = (*SAID, HEAD, "┃", FOOT, " ◉ Working · 13 B esc esc interrupt       fake-model")
PLAIN = (*SAID, "─" * 119, "❯ first line", "  second", "─" * 119, IDLE)  # as tmux has it
EARLY = (*SAID, HEAD, "┃", FOOT, " ● Working esc esc edit prompt       fake-model")
STOPPING = (*SAID, HEAD, "┃", FOOT, " ◉ Cancelling       fake-model")
EDGE = "╭" + "─" * 116 + "╮"
ASKING = (
    *(SAID[0], f" $ Shell run the scripted step    6s {BAR}", EDGE, "│ run the scripted step      │"),
    *("│ " + "─" * 116 + " │", f"│ {EDGE} │", "│ │ touch yes.txt      │ │", "│ ╰" + "─" * 110 + "╯ │"),
    *("│ │", "│ Do you want to run this command?      │", "│ │", "│ ❯ 1. Yes      │"),
    *("│   2. Yes, and don't ask again for `touch` in this repo (/f)      │",),
    *("│   3. No, and tell Copilot what to do differently (Esc to stop)      │", "│ │"),
    *("│ ↑/↓ to navigate · enter to select · esc to cancel      │", "╰" + "─" * 116 + "╯"),
)
TRUST = (
    *(EDGE, "│ Confirm folder trust      │", "│ │ /f      │ │", "│ Do you trust the files in this folder?      │"),
    *("│ ❯ 1. Yes      │", "│   2. Yes, and remember this folder for future sessions      │", "│   3. No (Esc)      │"),
)


@pytest.mark.parametrize(
    ("rows", "status", "text"),
    [
        ((), "starting", None),
        (READY, "ready", ""),
        (TYPED, "ready", "first line\n[[hold:one]] wait"),
        (PLAIN, "ready", "first line\nsecond"),
        ((*PLAIN, *ASKING), "asking", None),
        (BUSY, "busy", ""),
        (EARLY, "busy", ""),
        (STOPPING, "busy", ""),
        (ASKING, "asking", None),
        (TRUST, "asking", None),
    ],
)
def test_status_and_box(rows: tuple[str, ...], status: str, text: str | None) -> None:
    assert FACE is not None
    screen = TuiScreen(rows)
    assert (FACE.status(screen, Signals()), box(screen)) == (status, text)
    assert is_busy(screen) is (status == "busy")


def test_what_the_box_shows() -> None:
    assert FACE is not None
    assert FACE.shows(TuiScreen(TYPED), "first line\n[[hold:one]] wait") and FACE.shows(TuiScreen(LONG), "x" * 100_000)
    assert not FACE.shows(TuiScreen(READY), "do it")
    assert answer_ends(TuiScreen(READY)) == 4 and answer_ends(TuiScreen(ASKING)) is None


def test_a_dialog() -> None:
    asked = question(TuiScreen(ASKING))
    assert asked is not None and asked.title == "run the scripted step Do you want to run this command?"
    assert "touch yes.txt" in asked.text and asked.settled_by is None
    assert [(option.kind, option.keys) for option in asked.options] == [
        ("allow_once", ("1",)),
        (None, ("2",)),  # it would be kept
        ("reject_once", ("Escape",)),
    ]
    assert question(TuiScreen(READY)) is None  # a list that somebody wrote
    trust = question(TuiScreen(TRUST))
    assert trust is not None and trust.settled_by is not None and trust.settled_by.keys == ("1",)


@pytest.mark.parametrize(("prompt", "sent"), [("go", "go"), ("/exit", "\u2800/exit"), (" !exit", "\u2800 !exit")])
def test_a_prompt_that_looks_like_a_command_is_text(prompt: str, sent: str) -> None:
    assert pasted_prompt(Turn(id="t", session="s", agent="copilot", prompt=prompt, folder="/f")) == sent


@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_the_launch_denies_as_for_one_turn_and_allows_less(access: Any) -> None:
    assert FACE is not None
    turn = Turn(id="t", session="s", agent="copilot", prompt="go", folder="/f", agent_session=ID, access=access)
    host = Host(executable="/bin/copilot", private="/p")
    once, own = AGENT.launch(turn, host), FACE.launch(turn, host)
    assert own.argv[:2] == ("/bin/copilot", "--mode=interactive") and own.stdin == b""
    assert set(once.argv) - set(own.argv) == {"--output-format=json", *(["--allow-all"] if access == "full" else [])}


def record(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": "x", "timestamp": "2026-11-17T18:20:31.012Z"}


def read(*records: dict[str, Any]) -> tuple[CopilotTranscript, list[AnyEvent]]:
    reader = CopilotTranscript(TURN)
    return reader, [
        event for each in (record("user.message", content="do  it"), *records) for event in reader.read(each)
    ]


CALL = {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "touch yes.txt"}}
USED = record("session.usage_record", usage={"inputTokens": 1234, "outputTokens": 56, "cacheReadTokens": 1000})
STEP = (
    *(record("assistant.turn_start"), USED, record("assistant.message", content="First.", toolRequests=[CALL])),
    record("tool.execution_start", **CALL),
)
LAST = (record("assistant.turn_start"), USED, record("assistant.message", content="Done.", toolRequests=[]))


def test_a_turn_in_the_file() -> None:
    done = record("tool.execution_complete", toolCallId="c1", success=True, result={"content": "made"})
    reader, events = read(*STEP, done, record("assistant.turn_end"), *LAST)
    assert reader.result is None and reader.prompted  # it may still go on
    reader.read(record("assistant.turn_end"))
    assert (reader.result, reader.text, reader.agent_session) == ("ok", "Done.", ID)
    assert reader.usage is not None and (reader.usage.input_tokens, reader.usage.output_tokens) == (2468, 112)
    assert [type(event) for event in events if isinstance(event, Text | ToolStarted | ToolEnded)] == [
        *(Text, ToolStarted, ToolEnded, Text)
    ]
    reader.read(record("assistant.turn_start"))
    assert reader.result is None


def test_how_else_it_ends() -> None:
    reader, _ = read(*STEP, record("assistant.turn_end"), record("abort", reason="user_initiated"))
    assert reader.interrupted and reader.result is None
    reader, _ = read(record("assistant.turn_end"), record("session.error", statusCode=400, message="400 wrong"))
    assert reader.result == "error" and reader.problem is not None and reader.problem.kind == "bad_request"
    other = CopilotTranscript(TURN)
    assert other.read(record("user.message", content="another")) == [] and not other.prompted
    assert other.read(LAST[2]) == []


def test_what_a_dialog_is_about() -> None:
    asked = question(TuiScreen(ASKING))
    assert asked is not None
    reader, _ = read(*STEP)
    about = reader.asked_about(asked)
    assert about is not None and (about.tool, about.input) == ("bash", {"command": "touch yes.txt"})
    for input, files in (({"path": "/etc/x"}, ["/etc/x"]), ({"patch": "…"}, None)):
        reader, _ = read(record("tool.execution_start", toolCallId="c2", toolName="create", arguments=input))
        about = reader.asked_about(asked)
        assert (None if about is None else [file.path for file in about.files]) == files


def test_where_the_file_is() -> None:
    assert transcripts(TURN) == (f".copilot/session-state/{ID}/events.jsonl",)
