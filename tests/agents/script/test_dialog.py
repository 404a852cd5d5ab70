"""The scripted agent in a dialog, step by step; with its process it is in tests/testing/test_talk.py."""

from typing import Any

import pytest

from agents.acp_replayed import HOST, turn_of
from ostler.agents import AGENTS
from ostler.agents.dialog import Ask, Emit, Over, Ready, Write
from ostler.agents.script.dialog import dialog_launch
from ostler.errors import OstlerError
from ostler.model import Attachment, Launch, Offer, Offered, Started


def begun(**init: Any) -> Any:
    face = AGENTS["script"].dialog
    assert face is not None
    dialog = face.dialog(turn_of(agent="script"), HOST)
    assert dialog.open() == []
    ready = dialog.read({"type": "init", "session": "S", "model": "m", **init})
    assert ready == [Ready(agent_session="S", model="m")]
    return dialog


def kind(call: Any, *args: Any, **named: Any) -> str:
    with pytest.raises(OstlerError) as refused:
        call(*args, **named)
    return refused.value.kind


def test_a_turn_from_its_prompt_to_its_result() -> None:
    dialog = begun()
    attached = (Attachment(name="n", content="hay"), Attachment(path="/p"))
    assert dialog.prompt(turn_of("go", agent="script", attachments=attached, command=True)) == [
        Emit([Started(agent="script", agent_session="S", model="m", folder="/workspace")]),
        Write(
            {
                "type": "prompt",
                "prompt": 'go\n\n<file name="n">\nhay\n</file>',
                "attach": ["/p"],
                "model": "m",
                "mode": "default",
                "command": True,
            }
        ),
    ]
    steps = dialog.read({"type": "result", "ok": True, "text": "done", "steps": 1})
    assert steps[-1] == Over() and dialog.verdict(None, "").outcome == "done"


def test_between_turns_its_records_mean_nothing() -> None:
    assert begun().read({"kind": "text", "text": "late"}) == []


@pytest.mark.parametrize("init", [{"session": 5}, {"session": None}])
def test_a_first_record_of_the_wrong_types(init: dict[str, Any]) -> None:
    face = AGENTS["script"].dialog
    assert face is not None
    dialog = face.dialog(turn_of(agent="script"), HOST)
    assert dialog.read({"type": "init", "model": [], "steers": "yes", **init}) == [Ready()]
    assert dialog.steers is False


def test_an_ask_is_answered_once() -> None:
    dialog = begun()
    dialog.prompt(turn_of(agent="script"))
    steps = dialog.read({"kind": "asked", "id": "q", "tool": "shell"})
    assert [type(step) for step in steps] == [Ask]
    assert dialog.answer("q", "reject_once", "no") == [
        Write({"type": "answer", "id": "q", "option": "reject_once", "message": "no"})
    ]
    assert kind(dialog.answer, "q", "allow_once") == "not_found"
    assert dialog.interrupt() == [Write({"type": "interrupt"})]


def test_words_on_the_way_are_for_a_turn_that_runs() -> None:
    assert kind(begun().steer, "x") == "unsupported"
    dialog = begun(steers=True)
    assert kind(dialog.steer, "x") == "not_found"
    dialog.prompt(turn_of(agent="script"))
    assert dialog.steer("more") == [Write({"type": "steer", "text": "more"})]
    dialog.read({"type": "result", "ok": True, "text": "done", "steps": 1})
    assert kind(dialog.steer, "x") == "not_found"


def test_models_and_modes_hold_for_the_turns_that_follow() -> None:
    dialog = begun(offers={"modes": [{"id": "default"}, {"id": "plan"}], "models": [{"id": "m"}]})
    assert dialog.change(model="n", mode="plan") == []
    assert kind(dialog.change, mode="yolo") == "bad_request"
    _, told, write = dialog.prompt(turn_of(agent="script"))
    assert (write.record["model"], write.record["mode"]) == ("n", "plan")
    modes = (Offer(id="default"), Offer(id="plan"))
    assert told == Emit([Offered(quiet=True, modes=modes, models=(Offer(id="m"),), model="n", mode="plan")])


def test_a_dialog_is_launched_without_what_goes_with_a_prompt() -> None:
    def once(turn: Any, host: Any) -> Launch:
        return Launch(argv=("script", "--access=read", "--attach=/p"), stdin=b"x", files={"/f": b""}, notices=("n",))

    assert dialog_launch(once)(turn_of(), HOST) == Launch(
        argv=("script", "--access=read", "--dialog"), files={"/f": b""}
    )
