"""When a prompt counts as taken up and a turn as ended, by signals and the time alone."""

import pytest

from ostler.work.tuis.evidence import BEHIND, HINT, SETTLE, STALE, Evidence, state_says, status_says

Said = tuple[str, str, float]  # source, what it says, when


def said(signal: Said) -> str:
    return f"{signal[0]}: {signal[1]}"


def heard(*signals: Said) -> Evidence:
    evidence = Evidence()
    evidence.sent(0.0)
    for source, says, at in signals:
        evidence.add(source, says, at)  # type: ignore[arg-type]
    return evidence


@pytest.mark.parametrize(
    ("signals", "by"),
    [
        ([], None),
        ([("OSC 7501", "ready", 1.0)], None),
        ([("screen", "busy", 1.0)], None),  # a hint, never proof
        ([("OSC 7501", "busy", 1.0)], "OSC 7501: busy"),
        ([("OSC 7501", "busy", 1.0), ("OSC 7501", "ready", 2.0)], "OSC 7501: busy"),
        ([("title", "busy", 1.0)], "title: busy"),
        ([("transcript", "submitted", 1.0)], "transcript: submitted"),
        ([("hook", "submitted", 1.0)], "hook: submitted"),
        ([("hook", "submitted", 1.0), ("hook", "busy", 1.0)], "hook: submitted"),  # both before anybody looked
        ([("OSC 7501", "asking", 1.0), ("OSC 7501", "ready", 1.0)], "OSC 7501: asking"),
    ],
)
def test_a_prompt_is_taken_up(signals: list[Said], by: str | None) -> None:
    acknowledged = heard(*signals).acknowledged
    assert (str(acknowledged) if acknowledged else None) == by


def test_what_was_said_before_the_prompt_says_nothing_of_it() -> None:
    evidence = heard(("OSC 7501", "busy", 0.0), ("OSC 7501", "done", 0.0))
    evidence.sent(1.0)
    assert evidence.acknowledged is None and evidence.ending(100.0) is None
    assert Evidence().acknowledged is None


def test_the_same_again_is_no_news() -> None:
    evidence = heard(("screen", "busy", 1.0))
    assert evidence.add("screen", "busy", 2.0) is None
    assert evidence.add("screen", "ready", 3.0) is not None


BUSY = ("OSC 7501", "busy", 1.0)
DONE = ("OSC 7501", "done", 5.0)
IDLE = ("OSC 7501", "ready", 5.0)
TOLD = ("transcript", "done", 5.0)
STOPPED = ("transcript", "interrupted", 5.0)
LOOKS = ("screen", "ready", 5.0)
WRITTEN = ("transcript", "submitted", 1.0)
STOP = ("hook", "done", 5.0)
FAILURE = ("hook", "failed", 5.0)
FAILED = ("transcript", "failed", 5.0)
OVER = ("hook", "ready", 5.0)


@pytest.mark.parametrize(
    ("signals", "now", "how", "by"),
    [
        ([BUSY], 999.0, None, ()),
        # Two that agree end it at once.
        ([BUSY, DONE, TOLD], 5.0, "done", ("transcript: done", "OSC 7501: done")),
        ([BUSY, IDLE, TOLD], 5.0, "done", ("transcript: done", "OSC 7501: ready")),
        ([("transcript", "failed", 5.0), LOOKS], 5.0, "failed", ("transcript: failed", "screen: ready")),
        ([("title", "busy", 1.0), ("title", "ready", 5.0), TOLD], 5.0, "done", ("transcript: done", "title: ready")),
        # One alone has to stand for a moment.
        ([BUSY, DONE], 5.0, None, ()),
        ([BUSY, DONE], 5.0 + SETTLE, "done", ("OSC 7501: done",)),
        ([TOLD], 5.0, None, ()),
        ([TOLD], 5.0 + SETTLE, "done", ("transcript: done",)),
        ([("pattern", "done", 5.0), LOOKS], 5.0, "done", ("pattern: done", "screen: ready")),
        # Somebody says otherwise.
        ([BUSY, TOLD, LOOKS], 5.0 + SETTLE, None, ()),
        (
            [BUSY, TOLD, LOOKS],
            5.0 + STALE,
            "done",
            ("transcript: done", "screen: ready"),
        ),  # a stale state
        ([TOLD, ("screen", "busy", 5.0)], 99.0, None, ()),
        ([BUSY, DONE, ("screen", "asking", 5.0)], 99.0, None, ()),
        ([BUSY, ("OSC 7501", "asking", 5.0), LOOKS], 99.0, None, ()),
        # An idle that no work came before is none; one without a word of success proves nothing.
        ([DONE], 99.0, None, ()),
        ([BUSY, IDLE], 5.0 + SETTLE, None, ()),
        ([BUSY, IDLE], 5.0 + HINT, "unproven", ("OSC 7501: ready",)),
        ([("screen", "busy", 1.0), LOOKS], 5.0 + SETTLE, None, ()),
        ([("screen", "busy", 1.0), LOOKS], 5.0 + HINT, "unproven", ("screen: ready",)),
        # Hooks: a word like that of the file, which has the answer and is waited for.
        ([BUSY, IDLE, STOP], 5.0, None, ()),
        ([BUSY, IDLE, STOP], 5.0 + BEHIND, "done", ("hook: done", "OSC 7501: ready")),
        ([STOP, LOOKS], 5.0 + BEHIND, "done", ("hook: done", "screen: ready")),
        ([STOP], 5.0, None, ()),
        ([STOP], 5.0 + BEHIND, "done", ("hook: done",)),
        ([BUSY, IDLE, WRITTEN, STOP], 5.0, None, ()),
        ([BUSY, IDLE, WRITTEN, STOP], 5.0 + BEHIND, "done", ("hook: done", "OSC 7501: ready")),
        ([BUSY, IDLE, TOLD, STOP], 5.0, "done", ("transcript: done", "hook: done", "OSC 7501: ready")),
        ([LOOKS, FAILED, STOP], 5.0, "failed", ("transcript: failed", "hook: done", "screen: ready")),
        # A user's own hook may make it go on, and whoever has the token may forge one: others say that it works.
        ([BUSY, STOP], 99.0, None, ()),
        ([STOP, ("screen", "busy", 5.0)], 99.0, None, ()),
        ([STOP, ("title", "busy", 5.0)], 99.0, None, ()),
        ([STOP, ("hook", "busy", 6.0), LOOKS], 6.0 + STALE, None, ()),
        # Two that agree make a state stale sooner (claude after an error of the API).
        ([BUSY, FAILED, FAILURE, LOOKS], 5.0 + SETTLE, "failed", (*map(said, (FAILED, FAILURE, LOOKS)),)),
        # gemini's says that it is over and not how; no hook comes after an interrupt of the others.
        ([OVER], 99.0, None, ()),
        ([("screen", "busy", 1.0), LOOKS, OVER], 5.0 + HINT, "unproven", ("screen: ready", "hook: ready")),
        ([LOOKS, OVER, TOLD], 5.0, "done", ("transcript: done", "screen: ready")),
        ([BUSY, IDLE, ("hook", "busy", 2.0), STOPPED], 5.0, "interrupted", ("transcript: interrupted",)),
        # Interrupts and ends.
        ([BUSY, STOPPED], 5.0, None, ()),
        ([BUSY, STOPPED], 5.0 + SETTLE, "interrupted", ("transcript: interrupted",)),
        ([BUSY, IDLE, STOPPED], 5.0, "interrupted", ("transcript: interrupted",)),
        ([BUSY, ("screen", "interrupted", 5.0)], 5.0 + SETTLE, "interrupted", ("screen: interrupted",)),
        ([BUSY, ("process", "ended", 5.0)], 5.0, "ended", ("process: ended",)),
    ],
)  # fmt: skip
def test_a_turn_ends(signals: list[Said], now: float, how: str | None, by: tuple[str, ...]) -> None:
    ending = heard(*signals).ending(now)
    assert (ending.how if ending else None, tuple(map(str, ending.by)) if ending else ()) == (how, by)


def test_calm_is_what_nobody_contradicts() -> None:
    assert heard().calm == ()
    assert [str(each) for each in heard(("title", "ready", 1.0), ("screen", "ready", 1.0)).calm] == [
        "title: ready",
        "screen: ready",
    ]
    assert heard(("title", "ready", 1.0), ("screen", "busy", 1.0)).calm == ()
    assert heard(("screen", "busy", 1.0)).looks_taken and not heard(("screen", "ready", 1.0)).looks_taken


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("state=working:app=claude-code", "busy"),
        ("state=blocked:app=claude-code:kind=permission:msg=YQ==", "asking"),
        ("state=done:app=codex", "done"),
        ("state=idle", "ready"),
        ("state=clear", None),
        ("", None),
    ],
)
def test_states_of_osc_7501(state: str, says: str | None) -> None:
    assert state_says(state) == says


def test_a_status_says() -> None:
    assert [status_says(each) for each in ("ready", "busy", "asking", "starting", "ended", None)] == [  # type: ignore[arg-type]
        *("ready", "busy", "asking"),
        *(None, None, None),
    ]
