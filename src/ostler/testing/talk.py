"""The scripted agent in a dialog: one process plays many turns, waits for answers, and can be interrupted.

It writes `init` once, then the records of each turn up to its `result`. `steers` in `init` says that it takes words
while it works, `offers` which commands, models and modes there are. On stdin it reads, one JSON object a line:

    {"type": "prompt", "prompt": TEXT, "attach": [PATH, …],                begins a turn
     "model": …, "mode": …, "command": BOOL}
    {"type": "answer", "id": ID, "option": KIND}                           the answer to an `asked` record
    {"type": "steer", "text": TEXT}                                        a word on the way: the step `hear` says it
    {"type": "interrupt"}                                                  ends the turn: its `result` is cancelled

The end of stdin ends it, with what it plays.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading

from ostler.testing import scenario as scenarios
from ostler.testing.children import Interrupted, leave
from ostler.testing.offers import COMMANDS, MODELS, TALK_MODES, described
from ostler.testing.play_turn import at_home, perform
from ostler.testing.steps import Play, Setting

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import Any


OFFERS = {
    "commands": described(COMMANDS),
    "models": [{"id": name} for name in MODELS],
    "modes": described(TALK_MODES),
}


def talk(options: dict[str, Any], scenario: dict[str, Any], scripted: bool, env: dict[str, str]) -> int:
    """Plays turns until stdin ends."""
    if "cassette" in scenario or "cassette" in options:
        raise scenarios.BadScenario("a cassette holds one turn, no dialog")
    memory, speed = at_home(env)
    session = memory.open(options.get("session-id"), options.get("resume"), "fork" in options)
    heard = TalkInput()
    Play(Setting("", session, [], options, speed)).begin(steers=bool(scenario.get("steers", True)), offers=OFFERS)
    while (record := heard.prompts.get()) is not None:
        options |= {"attach": record.get("attach") or [], "model": record.get("model") or options.get("model", "")}
        options |= {"mode": record.get("mode") or "default", "command": bool(record.get("command"))}
        prompt = str(record.get("prompt", ""))
        memory.launched(sys.argv, session, prompt)
        play = Play(Setting(prompt, session, list(memory.history), options, speed))
        play.answer_to, play.hear = heard.answer_to, heard.word
        try:
            heard.playing = True
            perform(play, scenario, scripted, memory)
            heard.playing = False
        except Interrupted:
            heard.playing = False
            play.cut_short()
        play.finish()
        memory.history.append(prompt)
    return 0


class TalkInput:
    """What came on stdin: read by a thread, so that an interrupt is heard while a step is at work."""

    def __init__(self) -> None:
        self.prompts: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.playing = False
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._words: queue.SimpleQueue[str] = queue.SimpleQueue()
        signal.signal(signal.SIGUSR1, self._interrupted)
        threading.Thread(target=self._listen, daemon=True).start()

    def answer_to(self, ask: str) -> str:
        """Waits for the answer; those to other asks come too late and are dropped. `cancelled` ends the turn."""
        while True:
            answer = self._answers.get()
            if answer.get("id") == ask and answer.get("option") == "cancelled":
                raise Interrupted(130)
            if answer.get("id") == ask:
                return str(answer.get("option"))

    def word(self) -> str:
        """Waits for the next word on the way, unless one came before."""
        return self._words.get()

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # not a record
            kind = record.get("type") if isinstance(record, dict) else None
            if kind == "prompt":
                self._words = queue.SimpleQueue()  # what nobody heard was for the turn before
                self.prompts.put(record)
            elif kind == "steer":
                self._words.put(str(record.get("text")))
            elif kind == "answer":
                self._answers.put(record)
            elif kind == "interrupt":
                os.kill(os.getpid(), signal.SIGUSR1)
        if self.playing:
            os.kill(os.getpid(), signal.SIGTERM)
        self.prompts.put(None)

    def _interrupted(self, number: int, frame: object) -> None:
        if self.playing:
            leave(Interrupted(130))
