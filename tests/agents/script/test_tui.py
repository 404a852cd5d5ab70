"""The scripted TUI's screen and file, read: `ostler.testing.tui_screen` draws what is read here."""

import pytest

from ostler.agents.script.agent import AGENT, ScriptTranscriptReader
from ostler.agents.script.tui import answer_ends, box, is_busy, pasted_prompt, question, transcripts
from ostler.agents.tui import Question, TuiScreen
from ostler.model import Attachment, Host, Text, ToolEnded, ToolStarted, Turn
from ostler.testing.tui_screen import TuiView, rows

TURN = Turn(id="t", session="s", agent="script", prompt="go", folder="/f", agent_session="abc")


def drawn(**state: object) -> TuiScreen:
    view = TuiView("Scripted agent · /f")
    for name, value in state.items():
        setattr(view, name, value)
    return TuiScreen(tuple(rows(view, 80, 20)))


@pytest.mark.parametrize(
    ("state", "text", "busy"),
    [
        ({}, "", False),
        ({"box": "hello"}, "hello", False),
        ({"box": "one\ntwo"}, "one\ntwo", False),
        ({"box": "[Pasted text #1 +9 lines]", "busy": True}, "[Pasted text #1 +9 lines]", True),
        ({"question": "Allow shell?", "options": ("Yes", "No")}, None, False),
    ],
)
def test_the_box(state: dict[str, object], text: str | None, busy: bool) -> None:
    screen = drawn(**state)
    assert (box(screen), is_busy(screen)) == (text, busy)


def test_no_box_yet() -> None:
    assert box(TuiScreen(("", "loading"))) is None and answer_ends(TuiScreen()) is None


def test_a_dialog() -> None:
    found = question(drawn(question="Allow shell?\nrm -rf x", options=("Yes", "Yes, and don't ask again", "Maybe")))
    assert found is not None
    assert (found.title, found.tool) == ("Allow shell? rm -rf x", "shell")
    assert [(o.name, o.keys, o.kind) for o in found.options] == [
        ("Yes", ("1",), "allow_once"),
        ("Yes, and don't ask again", ("2",), "allow_always"),
        ("Maybe", ("3",), None),
    ]
    assert question(drawn(lines=["1. a list", "2. of the answer"])) is None


def test_its_launch() -> None:
    host = Host(executable="/bin/agent", private="/p")
    assert AGENT.tui is not None
    turn = Turn(id="t", session="s", agent="script", prompt="go", folder="/f", agent_session="abc", schema={"a": 1})
    launch = AGENT.tui.launch(turn, host)
    assert launch.argv == ("/bin/agent", "--access=read", "--session-id=abc", "--tui")
    assert (launch.stdin, launch.files) == (b"", {})
    assert transcripts(turn) == (".local/state/ostler-script/sessions/abc.ndjson",)


def test_what_is_pasted() -> None:
    slash = Turn(id="t", session="s", agent="script", prompt="/exit", folder="/f")
    assert pasted_prompt(slash) == " /exit"
    assert (
        pasted_prompt(Turn(id="t", session="s", agent="script", prompt="/exit", folder="/f", command=True)) == "/exit"
    )
    given = Turn(
        id="t", session="s", agent="script", prompt="go", folder="/f", attachments=(Attachment(name="a", content="b"),)
    )
    assert pasted_prompt(given) == 'go\n\n<file name="a">\nb\n</file>'


def test_its_file() -> None:
    reader = ScriptTranscriptReader(TURN)
    lines = [
        {"kind": "text", "text": "of a turn before"},
        {"prompt": "another"},
        {"prompt": "go"},
        {"kind": "tool_started", "id": "c1", "name": "shell"},
        {"kind": "tool_ended", "id": "c1", "ok": True, "output": "x"},
        {"kind": "asked", "id": "q1", "tool": "shell", "input": {"command": "rm"}, "options": []},
    ]
    events = [event for line in lines for event in reader.read(line)]
    assert [type(event) for event in events[1:]] == [ToolStarted, ToolEnded]
    about = reader.asked_about(Question(text=""))
    assert about is not None and about.input == {"command": "rm"}
    assert reader.read({"kind": "text", "text": "Done.", "id": "m1"}) == [Text(text="Done.", id="m1")]
    assert reader.asked_about(Question(text="")) is None
    assert reader.read({"text": "Done."}) == [] and reader.result is None
    reader.read({"type": "result", "ok": True, "text": "Done."})
    assert (reader.result, reader.text, reader.agent_session) == ("ok", "Done.", "abc")


def test_an_interrupted_turn_in_its_file() -> None:
    reader = ScriptTranscriptReader(TURN)
    reader.read({"interrupted": "yes"})
    assert not reader.interrupted  # that was another turn
    reader.read({"prompt": "go"})
    reader.read({"interrupted": "yes"})
    assert reader.interrupted and reader.result is None
