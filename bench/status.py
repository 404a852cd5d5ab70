"""How well an agent's status is told: precision and recall over the recorded screens of tests/captures/tui.

By the screen alone, by the screen with what the program says of itself (OSC 7501, title, exit), and for whole turns by
all evidence together. What was told wrongly is listed below. The same tables stand in docs/visible.md.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from tui_corpus import STATUS_HEAD, TURN_HEAD, moments, status_rows, told, turn_rows, turns


def shown(head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print()


def main() -> None:
    shown(STATUS_HEAD, status_rows())
    shown(TURN_HEAD, turn_rows())
    for moment in moments():
        says = told(moment, "screen and signals")
        if says != moment.status:
            print(f"{moment.recording}: {moment.what}: is {moment.status}, told {says}")
    for turn in turns():
        if turn.decided != turn.how or turn.early:
            print(
                f"{turn.recording}: {turn.prompt}: {turn.how} after {turn.at} s, told {turn.decided} {turn.decided_at}"
            )


if __name__ == "__main__":
    main()
