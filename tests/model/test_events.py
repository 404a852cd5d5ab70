"""Events as they are kept: each there and back, small where nothing is to be said."""

from typing import Any, get_args

import msgspec
import pytest

from ostler.model import (
    EVENT_DECODER,
    EVENT_ENCODER,
    AnyEvent,
    Asked,
    AskOption,
    FileChange,
    Plan,
    PlanStep,
    Raw,
    Text,
    Usage,
    UsageReport,
)

WHOLE: dict[str, Any] = {
    **{"text": "t", "id": "i", "name": "n", "tool": "x", "option": "allow_once", "by": "you", "terminal": "t1"},
    **{"steps": (PlanStep(text="a", status="done"),), "usage": Usage(input_tokens=1), "outcome": "failed"},
    **{"to": "https://backend.example", "ok": True},
}
KINDS: tuple[Any, ...] = get_args(AnyEvent)


def event_of(kind: Any) -> Any:
    """The smallest event of a kind."""
    needed = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return kind(seq=3, at=1.5, turn="k3-1", **{name: WHOLE[name] for name in needed})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_there_and_back(kind: Any) -> None:
    event = event_of(kind)
    body = EVENT_ENCODER.encode(event)
    assert EVENT_DECODER.decode(body) == event
    assert body.startswith(b'{"kind":"%s"' % kind.__struct_config__.tag.encode())  # readers look at these bytes alone


def test_kinds_are_told_apart() -> None:
    tags = [kind.__struct_config__.tag for kind in KINDS]
    assert len(set(tags)) == len(KINDS)


def test_events_in_full() -> None:
    asked = Asked(
        id="q",
        tool="Edit",
        input={"a": [1, None]},
        diff="--- a",
        files=(FileChange(path="x", change="move"),),
        options=(AskOption(id="1", name="Yes", kind="allow_once"),),
        expires_at=9.5,
    )
    for event in (
        asked,
        Plan(steps=()),
        UsageReport(usage=Usage(), cost_usd=0.0),
        Raw(record={"x": [1]}, line="\ufffd"),
    ):
        assert EVENT_DECODER.decode(EVENT_ENCODER.encode(event)) == event


def test_what_is_not_said_takes_no_room() -> None:
    assert EVENT_ENCODER.encode(Text(text="hi")) == b'{"kind":"text","text":"hi"}'


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"kind":"nonsense"}', b'{"kind":"text"}', b'{"kind":"text","text":5}', b'{"kind":5}']
)
def test_what_is_no_event(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        EVENT_DECODER.decode(body)
