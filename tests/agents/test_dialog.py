"""What every dialog does unless it says otherwise: nothing is lost, nothing waits for ever, no mode widens."""

import re
from typing import Any, ClassVar

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.agents.dialog import AWAITED, Dialog, Emit, Fail, too_wide
from ostler.errors import OstlerError
from ostler.model import Notice, Offer, Offered, Problem, Raw


class Modes(Dialog):
    modes: ClassVar[Any] = {
        "read": ("default", "plan"),
        "write": ("default", "plan", "edits"),
        "full": ("default", "yolo"),
    }


def refused(call: Any, *args: Any, **named: Any) -> tuple[str, str, str]:
    with pytest.raises(OstlerError) as error:
        call(*args, **named)
    return error.value.kind, error.value.message, error.value.hint


@pytest.mark.parametrize(
    "head",
    [
        '{"jsonrpc":"2.0","id":5,"result"',
        ' { "jsonrpc" : "2.0" , "id" : "a"',
        '{"id":0,"method":"x"',
        '{"type":"result","is_error"',
        '{"type":"control_request","request_id"',
        '{"method":"turn/completed","params"',
    ],
)
def test_a_cut_line_that_somebody_waits_for_ends_the_dialog(head: str) -> None:
    assert re.match(AWAITED, head)
    cut = Notice(code="line_cut", text="a line of output was too long and was cut")
    problem = Problem(
        kind="unsupported", message="mine sent a message that is too long to be read", hint="Ask for less at once"
    )
    assert Dialog(turn_of(), HOST).read_cut(head) == [Emit([Raw(line=head), cut]), Fail(problem)]


@pytest.mark.parametrize(
    "head",
    [
        '{"jsonrpc":"2.0","method":"session/update","params":{"id":5',
        '{"type":"assistant","message":{"id":"m"',
        '{"type":"user","x":{"type":"result"',
        '{"method":"item/completed"',
        'log: {"id":5',
        '{"idea":1',
        "",
    ],
)
def test_another_cut_line_costs_that_line_alone(head: str) -> None:
    cut = Notice(code="line_cut", text="a line of output was too long and was cut")
    assert Dialog(turn_of(), HOST).read_cut(head) == [Emit([Raw(line=head), cut])]


def test_noise_is_kept_and_blank_lines_are_not() -> None:
    dialog = Dialog(turn_of(), HOST)
    assert dialog.read_noise("welcome") == [Emit([Raw(line="welcome")])]
    assert dialog.read_noise(" \t") == []


def test_what_a_dialog_cannot_do_is_said() -> None:
    dialog = Dialog(turn_of(), HOST)
    assert [refused(dialog.steer, "x")[0], refused(dialog.change, model="m")[0], refused(dialog.usual_model)[0]] == [
        *("unsupported", "unsupported", "unsupported"),
    ]
    assert refused(dialog.check_mode, "plan") == (
        "unsupported",
        "mine has no modes that could be set",
        "Leave the mode out",
    )
    assert dialog.give_up() == dialog.close() == dialog.unread({"id": 5}) == []
    assert dialog.startup_error(None, "boom") is None


@pytest.mark.parametrize(
    ("access", "mode", "kind"),
    [
        *(("read", "plan", ""), ("write", "edits", ""), ("full", "yolo", "")),
        *(("read", "edits", "denied"), ("read", "yolo", "denied"), ("write", "yolo", "denied")),
        *(("read", "", "bad_request"), ("read", "Plan", "bad_request"), ("full", "nonesuch", "bad_request")),
    ],
)
def test_a_mode_stays_within_the_access(access: str, mode: str, kind: str) -> None:
    dialog = Modes(turn_of(access=access), HOST)
    if kind:
        assert refused(dialog.check_mode, mode)[0] == kind
    else:
        dialog.check_mode(mode)


def test_too_wide_says_what_is_within() -> None:
    error = too_wide("mine", "yolo", "read", ["default", "plan"])
    assert (error.kind, error.message, error.hint) == (
        "denied",
        "the mode 'yolo' of mine may go beyond --access read",
        "Within it: default, plan. Others need a wider --access",
    )
    assert too_wide("mine", "yolo", "read", ()).hint == "Within it: none. Others need a wider --access"


def test_offers_are_told_when_they_change() -> None:
    class Offering(Dialog):
        now = Offered(quiet=True)

        def offered(self) -> Offered:
            return self.now

    dialog = Offering(turn_of(), HOST)
    assert dialog.offers() == []  # nothing, as before
    dialog.now = Offered(quiet=True, models=(Offer(id="m"),))
    assert dialog.offers() == [Emit([dialog.now])]
    assert dialog.offers() == []
    dialog.now = Offered(quiet=True)
    assert dialog.offers() == [Emit([dialog.now])]  # it offers nothing any more
    assert dialog.offers() == []
