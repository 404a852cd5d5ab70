"""Facts and updates put together for a slow follower, bounds of sizes, and frames cut anywhere."""

from typing import Any

import pytest
from msgspec import structs

from ostler.terminal.keys import KeyModes
from ostler.terminal.screen.protocol import (
    CloseScreen,
    Cursor,
    Done,
    FeedScreen,
    Frames,
    Modes,
    OpenScreen,
    Progress,
    ResizeScreen,
    Row,
    ScreenAnswer,
    ScreenFacts,
    ScreenLimits,
    ScreenRequest,
    Update,
    frame,
    joined,
    key_modes,
    merged,
)


def update(seq: int, *rows: Row, cols: int = 80, whole: bool = False, facts: ScreenFacts | None = None) -> Update:
    return Update(seq, seq * 10, cols, 24, rows, Cursor(x=seq), Modes(), facts or ScreenFacts(), whole)


def row(y: int, text: str) -> Row:
    return Row(y, text, text)


# -- facts ------------------------------------------------------------------------------------------


def test_the_last_word_counts_and_bells_add_up() -> None:
    first = ScreenFacts(bells=1, title="a", cwd="/a", progress=Progress("set", 5), modes=Modes(focus=True), offset=9)
    then = ScreenFacts(bells=2, title="", progress="none", offset=20)
    assert joined(first, then) == ScreenFacts(
        bells=3, title="", cwd="/a", progress="none", modes=Modes(focus=True), offset=20
    )
    assert joined(first, ScreenFacts()) == first and joined(ScreenFacts(), first) == first


def test_of_many_states_and_notes_the_newest_are_kept() -> None:
    first = ScreenFacts(states=tuple(f"s{n}" for n in range(90)), notes=tuple((f"n{n}", "") for n in range(15)))
    then = ScreenFacts(states=tuple(f"t{n}" for n in range(20)), notes=tuple((f"m{n}", "") for n in range(10)))
    both = joined(first, then)
    assert (len(both.states), both.states[0], both.states[-1]) == (100, "s10", "t19")
    assert (len(both.notes), both.notes[0], both.notes[-1]) == (20, ("n5", ""), ("m9", ""))


# -- updates ----------------------------------------------------------------------------------------


def test_two_updates_have_the_newest_of_each_row() -> None:
    then = update(2, row(1, "new"), row(0, "top"), facts=ScreenFacts(bells=1))
    first = update(1, row(1, "old"), row(3, "low"), facts=ScreenFacts(title="t"))
    assert merged(None, then) is then
    assert merged(first, then) == structs.replace(
        then, changed=(row(0, "top"), row(1, "new"), row(3, "low")), facts=ScreenFacts(bells=1, title="t")
    )


def test_what_was_whole_stays_whole_with_the_changes_since() -> None:
    both = merged(update(1, row(0, "a"), row(1, "b"), whole=True), update(2, row(1, "c")))
    assert (both.whole, both.changed) == (True, (row(0, "a"), row(1, "c")))


@pytest.mark.parametrize("then", [update(2, row(0, "x"), whole=True), update(2, row(0, "x"), cols=100)])
def test_a_whole_screen_or_another_size_makes_what_was_before_void(then: Update) -> None:
    first = update(1, row(5, "old"), facts=ScreenFacts(bells=2))
    assert merged(first, then) == structs.replace(then, facts=ScreenFacts(bells=2))


# -- sizes and modes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "clamped"),
    [
        *(((80, 24), (80, 24)), ((20, 5), (20, 5)), ((19, 4), (20, 5)), ((0, -3), (20, 5))),
        *(((1000, 500), (1000, 500)), ((1001, 501), (1000, 500)), ((10**9, 24), (1000, 24))),
    ],
)
def test_sizes_are_clamped(size: tuple[int, int], clamped: tuple[int, int]) -> None:
    assert ScreenLimits().clamp(*size) == clamped


def test_what_keys_have_to_know_of_the_modes() -> None:
    assert key_modes(Modes()) == KeyModes()
    every = Modes(
        application_cursor=True,
        application_keypad=True,
        numlock_keypad=False,
        alt_escape=False,
        backarrow=True,
        modify_other_keys=2,
        kitty=5,
    )
    assert key_modes(every) == KeyModes(
        cursor_application=True,
        keypad_application=True,
        numlock_keypad=False,
        alt_escape=False,
        backarrow=True,
        modify_other_keys=2,
        kitty=5,
    )


# -- frames -----------------------------------------------------------------------------------------

MESSAGES: list[Any] = [
    OpenScreen(1, 80, 24, 0, ScreenLimits()),
    FeedScreen(1, 5, False, b"hello"),
    FeedScreen(1, 5, True, b""),
    ResizeScreen(1, 1, 100, 30),
    CloseScreen(1),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_messages_come_whole_however_they_are_cut(size: int) -> None:
    stream = b"".join(map(frame, MESSAGES))
    frames = Frames(ScreenRequest)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [message for piece in pieces for message in frames.read(piece)] == MESSAGES
    assert list(frames.read(b"")) == []


def test_half_a_message_is_kept() -> None:
    frames = Frames(ScreenAnswer)
    whole = frame(Done(3, {1: 5}))
    assert list(frames.read(whole + whole[:6])) == [Done(3, {1: 5})]
    assert list(frames.read(whole[6:])) == [Done(3, {1: 5})]


def test_a_message_of_another_kind_is_an_error() -> None:
    import msgspec

    with pytest.raises(msgspec.ValidationError):
        list(Frames(ScreenAnswer).read(frame(CloseScreen(1))))
