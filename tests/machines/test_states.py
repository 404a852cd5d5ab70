"""Whether a machine lives, by its heartbeats."""

import pytest
from msgspec.structs import replace

from ostler.machines.model import MachineRow, MachineState
from ostler.machines.states import BEAT, GONE, LEASE, Sightings, state_of

ROW = MachineRow(id="a", epoch=1, name="hawk", url="http://hawk", public_key=b"", beat=1, age=0.5, joined_at=0.0)


@pytest.mark.parametrize(
    ("row", "silent", "state"),
    [
        (ROW, 0.0, "live"),
        (ROW, LEASE, "live"),
        (ROW, LEASE + 0.1, "unreachable"),
        (ROW, GONE + 1, "gone"),
        (replace(ROW, draining=True), 1.0, "draining"),
        (replace(ROW, draining=True), LEASE + 1, "unreachable"),
        (replace(ROW, left=True), 0.0, "gone"),
    ],
)
def test_states(row: MachineRow, silent: float, state: MachineState) -> None:
    assert state_of(row, silent) == state


def test_silence_is_counted_between_looks_and_ends_with_a_beat() -> None:
    seen = Sightings()
    assert seen.look([ROW], 100.0) == {"a": 0.5}
    assert seen.look([ROW], 102.0) == {"a": 2.5}
    assert seen.look([replace(ROW, beat=2)], 104.0) == {"a": 0.0}
    assert seen.look([replace(ROW, beat=2)], 106.0) == {"a": 2.0}
    assert seen.look([replace(ROW, epoch=2, beat=2)], 108.0) == {"a": 0.0}
    assert seen.look([], 110.0) == {}


def test_a_time_without_a_directory_says_nothing_about_machines() -> None:
    seen = Sightings()
    seen.look([ROW], 100.0)
    assert seen.look([replace(ROW, age=500.0)], 600.0)["a"] <= 0.5 + 2 * BEAT
    assert Sightings().look([replace(ROW, age=500.0)], 600.0) == {"a": 500.0}  # who has just come knows no better
    assert Sightings(3.0).look([replace(ROW, age=500.0)], 600.0) == {"a": 3.0}  # nobody could tell anything before
