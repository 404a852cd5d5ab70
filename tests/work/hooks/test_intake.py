"""What of all that comes to a callback is taken."""

import pytest

from ostler.work.hooks.intake import BURST, MOST, RATE, TEXT_LIMIT, Intake, Refused, Repeated, Taken, shortened


def test_the_name_is_in_the_body_or_in_the_address() -> None:
    intake = Intake()
    stop = {"hook_event_name": "Stop"}
    first = intake.take("", b'{"hook_event_name": "Stop"}', 1.0)
    assert isinstance(first, Taken) and (first.name, first.payload) == ("Stop", stop)
    second = intake.take("notify", b'{"a": 1}', 1.0)
    assert isinstance(second, Taken) and (second.name, second.payload) == ("notify", {"a": 1})
    assert intake.count == 2


@pytest.mark.parametrize("body", [b"", b"[]", b"nothing", b'{"hook_event_name": 1}', b'{"hook_event_name": "a\\nb"}'])
def test_what_is_not_a_hook_is_refused(body: bytes) -> None:
    refused = Intake().take("", body, 1.0)
    assert isinstance(refused, Refused) and refused.status == 400


def test_the_same_twice_is_one() -> None:
    intake = Intake()
    first = intake.take("Stop", b"{}", 1.0)
    assert isinstance(first, Taken)
    assert intake.take("Stop", b"{}", 1.0) == Repeated(digest=first.digest)
    assert isinstance(intake.take("Start", b"{}", 1.0), Taken)


def test_too_fast_and_too_many() -> None:
    intake = Intake()
    said = [intake.take("Tick", b'{"n": %d}' % n, 1.0) for n in range(BURST + 2)]
    assert [isinstance(each, Taken) for each in said] == [True] * BURST + [False] * 2
    assert isinstance(intake.take("Tick", b"{}", 1.0 + 1 / RATE), Taken)
    intake.count = MOST
    refused = intake.take("Tock", b"{}", 1000.0)
    assert isinstance(refused, Refused) and refused.status == 429


def test_long_texts_are_cut() -> None:
    cut = shortened({"a": ["x" * 5000, 1, None], "b": {"c": "short"}})
    assert cut["a"][0].startswith("x" * TEXT_LIMIT) and cut["a"][0].endswith("… (5,000 characters)")
    assert (cut["a"][1:], cut["b"]) == ([1, None], {"c": "short"})
    deep: object = "end"
    for _ in range(50):
        deep = [deep]
    assert "…" in str(shortened(deep)) and "end" not in str(shortened(deep))
