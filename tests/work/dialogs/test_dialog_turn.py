"""How the lines of a dialog's process are read, and what is said of one that died early."""

from typing import Any

from ostler.agents.dialog import Emit, Step
from ostler.model import Exit, Notice, Raw, Turn
from ostler.process import OutputLine
from ostler.work.dialogs.dialog_turn import died_early, steps_of
from ostler.work.turns.adapter_errors import AdapterErrors

TURN = Turn(id="s-1", session="s", agent="claw", prompt="x", folder="/w", access="read")


class Reading:
    """Stands for an adapter's dialog; it stumbles over a record that is not its own."""

    def read(self, record: dict[str, Any]) -> list[Step]:
        return [Emit([Raw(line=record["line"])])]

    def read_noise(self, text: str) -> list[Step]:
        return [Emit([Raw(line=f"noise {text}")])]

    def read_cut(self, text: str) -> list[Step]:
        return [Emit([Raw(line=f"cut {len(text)}")])]

    def unread(self, record: dict[str, Any]) -> list[Step]:
        return [Emit([Raw(line="answered")])]


def read(data: bytes, cut: bool = False) -> list[Step]:
    errors = AdapterErrors("claw")
    return steps_of(Reading(), OutputLine(data, cut), lambda: errors)  # type: ignore[arg-type]


def test_records_noise_and_what_is_too_long() -> None:
    assert read(b'{"line": "a"}') == [Emit([Raw(line="a")])]
    assert read(b"[1]") == [Emit([Raw(line="noise [1]")])]
    assert read(b"x" * 5000, cut=True) == [Emit([Raw(line="cut 1000")])]


def test_an_adapter_that_stumbles_costs_one_record() -> None:
    told, answered = read(b'{"other": 1}')
    assert isinstance(told, Emit)
    kept, notice = told.events
    assert kept == Raw(line='{"other": 1}')
    assert isinstance(notice, Notice) and notice.code == "adapter_error"
    assert answered == Emit([Raw(line="answered")])


def test_why_a_process_died_before_it_was_ready() -> None:
    silent = died_early(TURN, Exit(code=3), "")
    assert (silent.kind, silent.message) == ("crashed", "claw ended with exit code 3 before it was ready")
    told = died_early(TURN, None, "boo\nno such file\n")
    assert told.message == "claw ended with an unknown end before it was ready: no such file"
