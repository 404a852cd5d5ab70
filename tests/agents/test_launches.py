"""What launches have in common: confirmed flags, literal prompts, what is refused."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ostler.agents.launches import confirm, has_flag, literal, refuse_tool_lists, with_attachments
from ostler.errors import OstlerError
from ostler.model import Attachment, Host, Turn

CAPTURES = Path(__file__).parents[1] / "captures"
TURN = Turn(id="t", session="s", agent="claw", prompt="go", folder="/workspace")
HELP = """
usage: claw run
  -p, --print                     print
      --file <path...>            files to attach
      --system-prompt[-file] TEXT a system prompt
      --schema-file=PATH          a schema
      --no-color                  no colours
      --max-cost=USD, --model=M   [array]
"""


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        *(("--print", True), ("-p", True), ("--file", True), ("--schema-file", True), ("--model", True)),
        *(("--system-prompt", True), ("--system-prompt-file", True), ("--no-color", True), ("--max-cost", True)),
        # part of another flag, or the other way round, is none
        *(("--schema", False), ("--color", False), ("--max", False), ("--prompt", False), ("--files", False)),
        *(("--print-file", False), ("--model-file", False), ("--schema-file-file", False), ("--", False)),
        *(("--system", False), ("--system-file", False)),
    ],
)
def test_a_flag_that_the_help_names(flag: str, named: bool) -> None:
    assert has_flag(HELP, flag) is named


def confirmed(*flags: str, help: str = HELP) -> str:
    try:
        confirm(TURN, Host(executable="/bin/claw", version="1.2", help=help), flags)
    except OstlerError as error:
        return f"{error.kind}: {error.message}"
    return ""


def test_only_flags_that_the_help_names_are_used() -> None:
    assert confirmed("run", "-x", "--print", "--file=/a b.txt", "--system-prompt-file=/s", "--schema-file=/s") == ""
    assert confirmed("--file=a", "--frob=1") == "unsupported: claw 1.2 has no --frob"
    assert confirmed("--print-file=x") == "unsupported: claw 1.2 has no --print-file"


def test_what_is_a_value_is_no_flag() -> None:
    assert confirmed("--system-prompt=--frob", "--model=--frob=--frob", "--", "--frob", "go") == ""


def test_without_a_help_text_nothing_is_refused() -> None:
    assert confirmed("--frob", help="") == ""


@pytest.mark.parametrize(
    ("agent", "flag"),
    [("claude", "--append-system-prompt-file"), ("claude", "--settings"), ("gemini", "--policy"), ("qwen", "--resume")],
)
def test_real_help_texts_name_what_is_used(agent: str, flag: str) -> None:
    help = (CAPTURES / agent / "help.txt").read_text()
    assert has_flag(help, flag)
    assert not has_flag(help, f"{flag}-frob") and not has_flag(help, flag[:-1])


@pytest.mark.parametrize(
    ("prompt", "command", "sent"),
    [("/exit", False, "\n/exit"), ("/exit", True, "/exit"), ("say /exit", False, "say /exit"), ("", False, "")],
)
def test_a_prompt_is_no_command(prompt: str, command: bool, sent: str) -> None:
    assert literal(Turn(id="t", session="s", agent="a", prompt=prompt, folder="/", command=command)) == sent


def test_attachments_as_text() -> None:
    attached = [Attachment(path="/a b.txt"), Attachment(name="n.txt", content="hay"), Attachment(path="/c.png")]
    assert with_attachments("look", attached) == (
        'look\n\nAttached files:\n- /a b.txt\n- /c.png\n\n<file name="n.txt">\nhay\n</file>'
    )
    assert with_attachments("look", []) == "look"
    assert with_attachments("", attached[:1]) == "Attached files:\n- /a b.txt"


@pytest.mark.parametrize(
    ("prompt", "marks", "sent"),
    [
        ("$HOME", "/$", "\n$HOME"),
        ("$HOME", "/", "$HOME"),
        ("!ls", "/", "!ls"),
        (" /exit", "/", " /exit"),
        ("/", "/", "\n/"),
    ],
)
def test_marks_are_those_of_the_agent(prompt: str, marks: str, sent: str) -> None:
    assert literal(Turn(id="t", session="s", agent="a", prompt=prompt, folder="/"), marks) == sent


def test_lists_of_tools_are_refused_where_they_cannot_be_kept() -> None:
    refuse_tool_lists(TURN)
    for lists in ({"tools_allowed": ("read",)}, {"tools_denied": ("web",)}):
        with pytest.raises(OstlerError) as refused:
            refuse_tool_lists(replace(TURN, **lists))
        assert (refused.value.kind, refused.value.message) == ("unsupported", "claw cannot be given a list of tools")
