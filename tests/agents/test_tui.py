"""What faces of TUIs share: rows, boxes, lists of options, and the rule by which a status is told."""

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.tui import (
    NumberedOptions,
    Question,
    Signals,
    TranscriptReader,
    TuiScreen,
    above,
    answer_since,
    bright,
    is_rule,
    last_row,
    lowest_line,
    numbered,
    squeezed,
    unframed,
)
from ostler.model import Asked, ToolStarted, Turn

FACE = AGENTS["script"].tui
assert FACE is not None
TURN = Turn(id="t", session="s", agent="script", prompt="say\n it", folder="/f")
BOX = ("╭────────────╮", "│ ❯ {} │", "╰────────────╯")


def screen(text: str = "Type your message", *above: str) -> TuiScreen:
    return TuiScreen((*above, *(row.format(text) for row in BOX)))


END = "its end is seen here, and nowhere else in all the world"
ASKING = TuiScreen(("╭──────────╮", "│ Allow shell? │", "│ rm x │", "│ ❯ 1. Yes │", "│   2. No │", "╰──────────╯"))


@pytest.mark.parametrize(
    ("seen", "signals", "status"),
    [
        (TuiScreen(), Signals(), "starting"),
        (screen(), Signals(), "ready"),
        (screen("half a prompt"), Signals(), "ready"),
        (screen("Type your message", " ◐ Working… (esc to interrupt)"), Signals(), "busy"),
        (screen(), Signals(state="working"), "busy"),
        (screen(), Signals(state="done"), "ready"),
        (ASKING, Signals(), "asking"),
        (ASKING, Signals(state="working"), "asking"),  # what is seen counts more than a word that came before
        (screen(), Signals(state="blocked"), "asking"),
        (screen(), Signals(state="done", exited=True), "ended"),
    ],
)
def test_a_status(seen: TuiScreen, signals: Signals, status: str) -> None:
    assert FACE is not None
    assert FACE.status(seen, signals) == status


def test_a_title_tells_a_status_where_the_face_reads_it() -> None:
    assert FACE is not None
    reads = structs.replace(FACE, title_status=lambda title: "busy" if title.startswith("✦") else "ready")
    assert reads.status(screen(), Signals(title="✦ Working")) == "busy"
    assert reads.status(screen(), Signals(title="◇ Ready")) == "ready"


@pytest.mark.parametrize(
    ("box", "text", "shown"),
    [
        ("hello there", "hello  there", True),
        ("[Pasted text #1 +400 lines]", "anything", True),
        ("Type your message", "Type your message", False),
        ("something else", "hello there", False),
        ("the end of a long prompt that is wrapped", "x" * 500 + " the end of a long prompt that is wrapped", False),
        (END, "x; " + END, True),
    ],
)
def test_a_box_shows_a_prompt(box: str, text: str, shown: bool) -> None:
    assert FACE is not None
    assert FACE.shows(screen(box), text) is shown


def test_the_prompt_of_the_file_is_known_by_its_words() -> None:
    reader = TranscriptReader(TURN)
    assert not reader.take_prompt("say that")
    assert reader.take_prompt("say it") and reader.prompted


def test_a_dialog_is_about_the_tool_that_was_called_and_has_not_ended() -> None:
    reader = TranscriptReader(TURN)
    assert reader.asked_about(Question(text="Allow?")) is None
    reader.tool_started(ToolStarted(id="1", name="Bash", title="rm x", input={"command": "rm x"}))
    wanted = Asked(id="", tool="Bash", title="rm x", input={"command": "rm x"})
    assert reader.asked_about(Question(text="Allow?")) == wanted
    reader.tool_started(ToolStarted(id="2", name="Bash", title="rm y", input={"command": "rm y"}))
    assert reader.asked_about(Question(text="Allow?\nrm  x")) == wanted
    assert reader.asked_about(Question(text="Allow?")) is None


def test_rows() -> None:
    assert squeezed(" a\n\tb\u00a0c ") == "abc"
    assert unframed("│ ❯ hello   │") == "❯ hello"
    assert is_rule("╭──────────╮") and is_rule("──────────") and not is_rule("── a ──────")
    assert last_row(["a", "b", "ab"], "^b") == 1 and last_row(["a"], "z") is None
    assert above(["x", "────────────", "│ one", "", "two", "1. Yes"], 5, is_rule) == ["one", "two"]


@pytest.mark.parametrize(
    ("styled", "text"),
    [
        ("plain", "plain"),
        ("❯ \x1b[0m\x1b[2mTry this\x1b[0m!", "❯ !"),
        ("\x1b[38;2;1;2;3mcoloured\x1b[0m", "coloured"),
        ("\x1b[2mfaint\x1b[22mbright", "bright"),
        ("\x1b[1;2mboth\x1b[mnone", "none"),
    ],
)
def test_what_is_faint_is_no_text(styled: str, text: str) -> None:
    assert bright(styled) == text


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (["│ ❯ 1. Yes │", "│   2. No (esc) │"], NumberedOptions(0, ("Yes", "No (esc)"), 0)),
        (["● 1. Allow once", "2. Allow always", "3. No"], NumberedOptions(0, ("Allow once", "Allow always", "No"), 0)),
        (["1. wash", "2. feed"], None),  # what a model wrote has no mark
        (["❯ 1. only"], None),
        (["  2. cut off", "❯ 3. at its top"], None),
        ([], None),
    ],
)
def test_a_list_of_options(rows: list[str], found: object) -> None:
    assert numbered(rows) == found


def test_the_way_to_an_option() -> None:
    listed = NumberedOptions(3, ("a", "b", "c"), 1)
    assert [listed.keys_to(n) for n in range(3)] == [("ArrowUp", "Enter"), ("Enter",), ("ArrowDown", "Enter")]


def test_an_answer_on_the_screen() -> None:
    rows = ["old answer", "> say it", "", "● Said.", "  More.", "────────────", "❯ box"]
    assert answer_since(rows, "say it\nplease", 5) == "● Said.\n  More."
    assert answer_since(rows, "scrolled away", 5).startswith("old answer")


def test_the_lowest_line_at_the_left() -> None:
    assert lowest_line(["● said", "✻ Working… (1s)", "  ⎿ Tip", ""]) == "✻ Working… (1s)"
    assert lowest_line(["  indented", ""]) is None
