"""The recorded screens of tests/captures/tui, and how well a face tells from them what a program does."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, structs

from ostler.agents import AGENTS
from ostler.agents.tui import Signals, Status, TuiFace, TuiScreen, answer_since
from ostler.work.tuis.evidence import Evidence, state_says, status_says

CORPUS = Path(__file__).parent / "captures" / "tui"
STATUSES: tuple[Status, ...] = get_args(Status)
TICK = 0.1  # seconds between two looks, as a turn looks


class Moment(Struct, frozen=True, kw_only=True):
    """A screen with what the program had said by then, and what it did."""

    recording: str
    agent: str
    what: str
    status: Status
    screen: TuiScreen
    signals: Signals


class TurnEnd(Struct, frozen=True, kw_only=True):
    """How a turn really ended, and what the fused evidence made of it. `at`, `decided_at`: seconds since its prompt."""

    recording: str
    agent: str
    prompt: str
    how: str
    at: float
    decided: str | None
    decided_at: float

    @property
    def early(self) -> bool:
        """Believed to be over while it was not."""
        return self.decided is not None and self.decided_at < self.at


def face_of(agent: str) -> TuiFace:
    face = AGENTS[agent].tui
    assert face is not None
    return face


def recordings(agent: str = "*") -> list[Path]:
    return sorted(CORPUS.glob(f"{agent}-*.jsonl"))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Replayed:
    """A terminal that a recording is played to, line by line."""

    def __init__(self, size: Sequence[int]) -> None:
        self._rows, self._faint = [""] * size[1], [""] * size[1]
        self.signals = Signals(silent=True)

    @property
    def screen(self) -> TuiScreen:
        styled = tuple(faint or row for row, faint in zip(self._rows, self._faint, strict=True))
        return TuiScreen(tuple(self._rows), styled)

    def play(self, line: dict[str, Any]) -> None:
        for y, row in line.get("rows", {}).items():
            self._rows[int(y)] = row
        for y, row in line.get("faint", {}).items():
            self._faint[int(y)] = row
        if "state" in line:
            word = line["state"].partition(":")[0].removeprefix("state=")
            self.signals = structs.replace(self.signals, state=word)
        self.signals = structs.replace(
            self.signals,
            silent=self.signals.silent and "state" not in line and "title" not in line,
            title=line.get("title", self.signals.title),
            exited=line.get("exited", self.signals.exited),
        )


def moments(agent: str = "*") -> Iterator[Moment]:
    for path in recordings(agent):
        head, *lines = lines_of(path)
        terminal = Replayed(head["size"])
        for line in lines:
            terminal.play(line)
            if status := line.get("moment"):
                yield Moment(
                    recording=path.stem,
                    agent=head["agent"],
                    what=line["what"],
                    status=status,
                    screen=terminal.screen,
                    signals=terminal.signals,
                )


# -- one moment at a time -------------------------------------------------------------------------------------

By = Literal["screen", "screen and signals"]


def told(moment: Moment, by: By) -> Status:
    signals = Signals() if by == "screen" else moment.signals
    return face_of(moment.agent).status(moment.screen, signals)


class Score(Struct):
    """Of one status: how often it was right, said, and true."""

    right: int = 0
    said: int = 0
    true: int = 0

    @property
    def precision(self) -> float | None:
        return self.right / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        return self.right / self.true if self.true else None


def scores(found: Sequence[Moment], by: By) -> dict[Status, Score]:
    """No screen shows that its program has ended: for screens alone these moments are left out."""
    table = {status: Score() for status in STATUSES}
    for moment in found:
        if by == "screen" and moment.status == "ended":
            continue
        says = told(moment, by)
        table[says].said += 1
        table[moment.status].true += 1
        table[says].right += says == moment.status
    return table


# -- whole turns ----------------------------------------------------------------------------------------------


def turns(agent: str = "*") -> Iterator[TurnEnd]:
    """Each turn of the recordings, judged by `Evidence` as it is while the turn runs."""
    for path in recordings(agent):
        head, *lines = lines_of(path)
        sent = [n for n, line in enumerate(lines) if "sent" in line]
        terminal = Replayed(head["size"])
        for line in lines[: sent[0]] if sent else []:
            terminal.play(line)
        for first, after in zip(sent, [*sent[1:], len(lines)], strict=False):  # a recording may have no turn
            part = lines[first:after]
            over = [line for line in part if "over" in line]
            decided = decide(face_of(head["agent"]), terminal, part)
            yield TurnEnd(
                recording=path.stem,
                agent=head["agent"],
                prompt=part[0]["sent"].splitlines()[0][:60],
                how=over[-1]["over"],
                at=round(over[-1]["t"] - part[0]["t"], 2),
                decided=decided[0],
                decided_at=round(decided[1] - part[0]["t"], 2),
            )


def decide(face: TuiFace, terminal: Replayed, lines: Sequence[dict[str, Any]]) -> tuple[str | None, float]:
    """What the evidence says of one turn, and when; the recording is played to its end in any case."""
    evidence, waiting, found = Evidence(), list(lines), None
    now, last = lines[0]["t"], lines[-1]["t"]
    evidence.sent(now)
    prompted = False
    while waiting or (found is None and now <= last):
        while waiting and waiting[0]["t"] <= now:
            line = waiting.pop(0)
            terminal.play(line)
            prompted = prompted or "transcript" in line
            _add_signals(evidence, face, line)
        _look(evidence, face, terminal, lines[0]["sent"], prompted, now)
        if found is None and (ending := evidence.ending(now)) is not None:
            found = (ending.how, now)
        now = round(now + TICK, 2)
    return found or (None, last)


def _add_signals(evidence: Evidence, face: TuiFace, line: dict[str, Any]) -> None:
    at = line["t"]
    if says := state_says(line.get("state", "")):
        evidence.add("OSC 7501", says, at)
    if says := status_says(face.title_status(line.get("title", ""))):
        evidence.add("title", says, at)
    if says := line.get("transcript"):
        evidence.add("transcript", says, at)
    if line.get("exited"):
        evidence.add("process", "ended", at)


def _look(evidence: Evidence, face: TuiFace, terminal: Replayed, sent: str, prompted: bool, now: float) -> None:
    """As a turn looks at its screen."""
    screen = terminal.screen
    says = status_says(face.status(screen, Signals()))
    if says == "ready" and not prompted and evidence.looks_taken:
        text = answer_since(screen.rows, sent, face.answer_ends(screen))
        if face.interrupted and re.search(face.interrupted, text):
            says = "interrupted"
    if says is not None:
        evidence.add("screen", says, now)


# -- tables ---------------------------------------------------------------------------------------------------


def agents() -> list[str]:
    """In the order of the docs."""
    return [name for name in AGENTS if recordings(name)]


def status_rows() -> list[list[str]]:
    """Agent, status, moments, then precision and recall by the screen, and by screen and signals."""
    rows = []
    for agent in agents():
        found = list(moments(agent))
        alone, both = scores(found, "screen"), scores(found, "screen and signals")
        for status in STATUSES:
            shown = [_share(value) for each in (alone, both) for value in (each[status].precision, each[status].recall)]
            rows.append([f"`{agent}`", status, str(both[status].true), *shown])
    return rows


def turn_rows() -> list[list[str]]:
    """Agent, turns by how they ended, told rightly, told too early, and how long after the end they were told."""
    rows = []
    for agent in agents():
        found = list(turns(agent))
        kinds = [str(sum(turn.how == how for turn in found)) for how in ("done", "failed", "interrupted", "ended")]
        right = sum(turn.decided == turn.how and not turn.early for turn in found)
        after = sorted(turn.decided_at - turn.at for turn in found if turn.decided)
        late = f"{after[len(after) // 2]:.1f} s, {after[-1]:.1f} s"
        rows.append([f"`{agent}`", *kinds, f"{right} of {len(found)}", str(sum(turn.early for turn in found)), late])
    return rows


STATUS_HEAD = ["agent", "status", "moments", "screen: precision", "recall", "with signals: precision", "recall"]
TURN_HEAD = [
    "agent",
    "done",
    "failed",
    "interrupted",
    "exited",
    "told rightly",
    "too early",
    "median, longest delay",
]


def _share(value: float | None) -> str:
    """Never rounded up to one."""
    return "–" if value is None else "1" if value == 1 else f"{int(value * 1000) / 1000:.3f}"
