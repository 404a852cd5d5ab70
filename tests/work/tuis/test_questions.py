"""Dialogs on a screen as asks: what is known of them, and what an access lets people say."""

from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.tui import DialogOption, Question, Signals, TranscriptReader, TuiScreen
from ostler.model import Asked, AskOption, ToolStarted, Turn
from ostler.work.tuis.questions import STARTUP, asked_of, same_question, seen_question

TURN = Turn(id="t", session="s", agent="script", prompt="go", folder="/f")
YES = DialogOption(name="Yes", keys=("1",), kind="allow_once")
NO = DialogOption(name="No", keys=("2",), kind="reject_once")
ODD = DialogOption(name="Only this week", keys=("3",))
QUESTION = Question(text="Allow Bash?\nrm x", title="Allow Bash? rm x", tool="Bash", options=(YES, NO, ODD))
OFFERED = (AskOption(id="1", name="Yes", kind="allow_once"), AskOption(id="2", name="No", kind="reject_once"))


def reader(*tools: ToolStarted) -> TranscriptReader:
    made = TranscriptReader(TURN)
    for tool in tools:
        made.tool_started(tool)
    return made


def test_what_the_records_say_is_exact() -> None:
    tool = ToolStarted(id="c1", name="Bash", title="rm x", input={"command": "rm x"})
    asked = asked_of(QUESTION, reader(tool), "write", "tui-1", begun=True)
    assert asked == Asked(
        id="tui-1", tool="Bash", title="rm x", input={"command": "rm x"}, options=OFFERED, reason=QUESTION.text
    )


def test_a_screen_alone_gives_no_input_and_keeps_an_access() -> None:
    """Nobody can tell from a screen whether an edit leaves the folder: without a wall it can only be refused."""
    full = asked_of(QUESTION, reader(), "full", "tui-1", begun=True)
    assert (full.input, full.options, full.tool) == (None, OFFERED, "Bash")
    kept = asked_of(QUESTION, reader(), "write", "tui-1", begun=True)
    assert kept.options == (AskOption(id="1", name="No", kind="reject_once"),)
    for access, options in (("write", OFFERED), ("read", kept.options)):  # behind a wall it cannot leave the folder
        walled = TranscriptReader(structs.replace(TURN, walled=True))
        assert asked_of(QUESTION, walled, access, "tui-1", begun=True).options == options


def test_a_first_run_screen_is_not_about_a_tool() -> None:
    trust = Question(text="Trust?", title="Trust?", options=(YES, NO))
    asked = asked_of(trust, reader(), "read", "tui-1", begun=False)
    assert (asked.tool, asked.options) == (STARTUP, OFFERED)


def test_the_same_dialog() -> None:
    assert same_question(QUESTION, Question(text="another tip", title=QUESTION.title, options=QUESTION.options))
    assert not same_question(QUESTION, Question(text="", title=QUESTION.title, options=(YES,)))
    assert not same_question(QUESTION, None)


def test_a_dialog_that_is_not_known() -> None:
    face = AGENTS["script"].tui
    assert face is not None
    strange = TuiScreen(("Pick a colour", "( ) red", "( ) blue"))
    assert seen_question(face, strange, Signals()) is None
    found = seen_question(face, strange, Signals(state="blocked"))
    assert found is not None and found.options == () and "Pick a colour" in found.text
