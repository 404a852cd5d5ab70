"""What a line typed at an ask means: only a clear yes is one."""

from typing import Any

import pytest

from ostler.cli.ask_view import BRIEF, AskReply, choices, details, not_understood, question, understood
from ostler.model import Asked, AskOption

KINDS = ("allow_once", "allow_always", "reject_once")
BOTH = tuple(AskOption(id=str(n), name="x", kind=kind) for n, kind in enumerate(KINDS))  # type: ignore[arg-type]
ONCE = (BOTH[0], BOTH[2])


def asked(options: tuple[AskOption, ...] = BOTH, **fields: Any) -> Asked:
    return Asked(id="q", tool="Bash", options=options, **fields)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *(
            ("a", AskReply("allow")),
            ("allow", AskReply("allow")),
            (" A \n", AskReply("allow")),
            ("ALLOW", AskReply("allow")),
        ),
        *(("d", AskReply("deny")), ("deny", AskReply("deny")), ("d not  now ", AskReply("deny", "not  now"))),
        *(("w", AskReply("always")), ("always", AskReply("always"))),
        *(("v", AskReply("view")), ("view", AskReply("view"))),
    ],
)
def test_words_and_their_first_letters(line: str, said: AskReply) -> None:
    assert understood(line, asked()) == said


@pytest.mark.parametrize(
    "line", ["", " ", "y", "yes", "1", "aa", "a please", "allow all", "w now", "v x", "all", "ok", "\x1b[A", "а"]
)
def test_anything_else_answers_nothing(line: str) -> None:
    assert understood(line, asked()) == AskReply("again")


def test_what_answers_nothing_is_told_what_would() -> None:
    assert not_understood("yes", asked()) == ["  “yes” is not an answer: type a, d, w or v"]
    assert not_understood("w", asked(ONCE)) == ["  “w” is not an answer: type a, d or v"]
    assert not_understood("  ", asked()) == []


def test_what_is_not_offered_cannot_be_chosen() -> None:
    assert understood("w", asked(ONCE)) == AskReply("again")
    assert understood("a", asked((BOTH[2],))) == AskReply("again")
    assert understood("d", asked(())) == AskReply("deny")  # every ask can be denied
    assert [choices(asked(options)) for options in (BOTH, ONCE, ())] == [
        ["allow", "deny", "always"],
        ["allow", "deny"],
        ["deny"],
    ]


def test_the_question_names_what_can_be_answered() -> None:
    assert question(asked()) == "  [a]llow  [d]eny  al[w]ays  [v]iew ? "
    assert question(asked(())) == "  [d]eny  [v]iew ? "


def test_the_beginning_of_a_diff_and_all_of_it() -> None:
    diff = "".join(f"+{n}\r\n" for n in range(BRIEF + 5))
    brief = details(asked(diff=diff), whole=False)
    assert brief == [*(f"  +{n}" for n in range(BRIEF)), "  … 5 more lines: [v]iew"]
    whole = details(asked(diff=diff, input={"command": "ls"}), whole=True)
    assert whole == ["  {", '    "command": "ls"', "  }", *(f"  +{n}" for n in range(BRIEF + 5))]
    assert details(asked(), whole=False) == details(asked(), whole=True) == []


def test_nothing_of_it_acts_on_the_terminal() -> None:
    evil = "\x1b[2J\x07\u202e"
    shown = details(asked(diff=f"+{evil}\n", input={"command": evil}), whole=True)
    assert not any(char in line for line in shown for char in "\x1b\x07\u202e")
