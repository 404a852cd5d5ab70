"""Lines as records, and the rule of proof."""

from typing import Any

import pytest
from msgspec.structs import replace

from ostler.agents.reader import Reader, decode
from ostler.model import Exit, Problem, Raw, ToolEnded, ToolStarted, Turn

TURN = Turn(id="t", session="s", agent="claw", prompt="go", folder="/workspace")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": [1, null, true]}', {"a": [1, None, True]}),
        (b" [1] ", [1]),
        (b'"text"', "text"),
        (b"", None),
        (b"   ", None),
        (b"warning: {not json}", None),
        (b'{"a": 1', None),
        (b'{"a": 1}{"b": 2}', None),
        (b'{"a": NaN}', None),
        (b'{"a": "caf\xe9"}', {"a": "caf\ufffd"}),
        (b'{"a": "\\ud83d"}', {"a": "\ufffd"}),
        (b'{"a": "x\\udc00y"}', {"a": "x\ufffdy"}),
        (b'{"a": "\\ud83d\\ude00 \\ud83d"}', {"a": "\U0001f600 \ufffd"}),
        (b"[" * 100_000, None),
        (b'{"a":' * 100_000, None),
    ],
)
def test_lines_as_values(line: bytes, value: Any) -> None:
    assert decode(line) == value


class OneWord(Reader):
    """The smallest reader: `{"ok": true}` or `{"ok": false}` ends the turn."""

    def read(self, record: dict[str, Any]) -> list[Any]:
        if record.get("ok") is True:
            self.text = "Here."
            self.succeed("it said so")
        elif record.get("ok") is False:
            self.fail("it said so", "limited", record.get("why", ""))
        return [Raw(record=record)]


GOOD = Exit(code=0)


def ended(*lines: bytes, exit: Exit | None = GOOD, stderr: str = "", session: str | None = None, **turn: Any) -> Any:
    reader = OneWord(replace(TURN, **turn))
    reader.agent_session = session
    for line in lines:
        reader.read_line(line)
    verdict = reader.end(exit, stderr)
    return verdict.outcome, verdict.error, verdict.evidence


def test_what_is_no_record_is_kept_as_a_line() -> None:
    reader = OneWord(TURN)
    assert reader.read_line(b"[1, 2]") == [Raw(line="[1, 2]")]
    assert reader.read_line(b"caf\xe9 {") == [Raw(line="caf\ufffd {")]
    assert reader.read_line(b" \t") == [] and reader.read_stderr("anything") == []
    assert reader.read_line(b'{"x": 1}') == [Raw(record={"x": 1})]


def test_only_the_agents_own_word_and_a_good_exit_are_success() -> None:
    assert ended(b'{"ok": true}') == ("done", None, ("it said so",))
    assert ended(b'{"ok": true}', exit=None) == ("done", None, ("it said so",))  # ended by us, after its result


@pytest.mark.parametrize(
    ("exit", "words"), [(Exit(code=1), "exit code 1"), (Exit(code=255), "exit code 255"), (Exit(signal=9), "signal 9")]
)
def test_a_good_word_and_a_bad_exit_is_a_crash(exit: Exit, words: str) -> None:
    problem = Problem(kind="crashed", message=f"claw reported success but ended with {words}")
    assert ended(b'{"ok": true}', exit=exit) == ("crashed", problem, ("it said so",))


def test_a_bad_word_is_a_failure_whatever_the_exit() -> None:
    for exit in (Exit(code=0), Exit(code=1), None):
        assert ended(b'{"ok": false, "why": "slow down"}', exit=exit) == (
            "failed",
            Problem(kind="limited", message="slow down"),
            ("it said so",),
        )
    assert ended(b'{"ok": false}')[1] == Problem(kind="limited", message="limited")


def test_the_last_word_counts() -> None:
    assert ended(b'{"ok": false}', b'{"ok": true}')[0] == "done"
    assert ended(b'{"ok": true}', b'{"ok": false}')[0] == "failed"


@pytest.mark.parametrize(
    ("exit", "stderr", "outcome", "problem"),
    [
        (Exit(code=0), "", "unproven", Problem(kind="unproven", message="claw ended without a result")),
        (None, "a\nb\n", "unproven", Problem(kind="unproven", message="claw ended without a result: b")),
        (Exit(signal=15), "HTTP 401", "crashed", Problem(kind="crashed", message="claw was ended by signal 15")),
        (Exit(code=3), "", "crashed", Problem(kind="crashed", message="claw ended with exit code 3 and no result")),
        (Exit(code=1), "x\nHTTP 429\n", "failed", Problem(kind="limited", message="HTTP 429")),
        (Exit(code=1), "x.js:429:1", "crashed", Problem(kind="crashed", message="x.js:429:1")),
    ],
)
def test_without_a_word_nothing_is_proven(exit: Exit | None, stderr: str, outcome: str, problem: Problem) -> None:
    assert ended(exit=exit, stderr=stderr) == (outcome, problem, ())


def test_another_conversation_than_the_one_to_resume_is_no_success() -> None:
    asked = {"resume": True, "agent_session": "A"}
    wrong = Problem(kind="not_found", message="claw was asked to resume A, but began B", hint="Start a new session")
    assert ended(b'{"ok": true}', session="B", **asked) == ("failed", wrong, ("it said so",))
    assert ended(b'{"ok": true}', session="A", **asked)[0] == "done"
    assert ended(b'{"ok": true}', session=None, **asked)[0] == "done"
    assert ended(b'{"ok": true}', session="B", fork=True, **asked)[0] == "done"
    assert ended(b'{"ok": true}', session="B", agent_session="A")[0] == "done"  # it chose its own id


def test_tools_that_never_ended_are_closed_at_the_end() -> None:
    reader = OneWord(TURN)
    for id in ("1", "2", "3"):
        reader.tool_started(ToolStarted(id=id, name="Bash"))
    reader.tool_ended(ToolEnded(id="2"))
    assert reader.flush() == [ToolEnded(id="1", ok=False), ToolEnded(id="3", ok=False)]
    assert reader.flush() == [] and reader.open_tools == {}
