"""Recorded ACP dialogs, played to a dialog of ours: what it writes stands beside what was written then."""

import json
from pathlib import Path
from typing import Any

from msgspec import structs

from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.acp.protocol import Acp
from ostler.agents.dialog import Ask, Call, Emit, Over, Ready, Step, Write
from ostler.model import AnyEvent, Host, Offered, Turn, Verdict

CAPTURES = Path(__file__).parent.parent / "captures"
HOST = Host(executable="agent", version="", help="", private="/private", home="/home/user")
ANSWERS = {"allow_once": "allow", "approved": "allow", "allow-once": "allow", "once": "allow", "proceed_once": "allow"}


def dialog_of(acp: Acp | None = None, **changes: Any) -> AcpDialog:
    """A dialog in /workspace, as one that asks for everything."""
    modeless = structs.replace(acp or Acp(), modes={}, mode_of=None)  # the recordings set none
    return AcpDialog(turn_of(**changes), HOST, modeless)


def turn_of(prompt: str = "do it", **changes: Any) -> Turn:
    whole = {"id": "t", "session": "s", "agent": "mine", "prompt": prompt, "folder": "/workspace", "access": "full"}
    return Turn(**{**whole, **changes})


class Replay:
    """One recording and what a dialog made of it: events, verdicts, asks and calls of each turn."""

    def __init__(self, name: str, acp: Acp | None = None) -> None:
        self.dialog = dialog_of(acp)
        self.events: list[list[AnyEvent]] = []
        self.offered: list[Offered] = []
        self.verdicts: list[Verdict] = []
        self.asks: list[Ask] = []
        self.calls: list[Call] = []
        self.ready: Ready | None = None
        self.pairs: list[tuple[Any, Any]] = []  # (what we answer, what was answered then)
        self._ids: dict[Any, Any] = {}  # id of a request then → ours
        self._requests: list[dict[str, Any]] = []  # ours that were not sent then yet
        self._open: dict[Any, list[Step]] = {}  # the agent's request → what came of it
        self._take(self.dialog.open())
        for line in (CAPTURES / f"{name}.trace.ndjson").read_text().splitlines():
            frame = json.loads(line)
            message = frame["msg"]
            if not isinstance(message, dict):
                self._take(self.dialog.read_noise(json.dumps(message)))
            elif frame["dir"].startswith("client"):
                self._told_then(message)
            else:
                self._said_then(message)

    def _told_then(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method == "session/prompt":
            self.events.append([])
            self._take(self.dialog.prompt(turn_of(message["params"]["prompt"][0]["text"])))
        elif method == "session/cancel":
            self._take(self.dialog.interrupt())
        if "method" in message and "id" in message and method != "session/set_mode":
            ours = self._requests.pop(0)
            assert ours["method"] == method
            self._ids[message["id"]] = ours["id"]
        elif "method" not in message:
            self._answered_then(message)

    def _answered_then(self, message: dict[str, Any]) -> None:
        """An answer of the client of then: ours has to be the same, but for words."""
        for step in self._open.pop(message["id"], []):
            if isinstance(step, Ask):
                (write,) = [s for s in self.dialog.answer(step.asked.id, "allow_once") if isinstance(s, Write)]
                self.pairs.append((write.record, message))
            elif isinstance(step, Call):
                (write,) = self.dialog.reply(step.id, message.get("result", {}))
                self.pairs.append((write.record, message))
            elif isinstance(step, Write):
                self.pairs.append((step.record, message))

    def _said_then(self, message: dict[str, Any]) -> None:
        if "method" not in message and message.get("id") in self._ids:
            message = {**message, "id": self._ids[message["id"]]}
        steps = self.dialog.read(message)
        if "method" in message and "id" in message:
            self._open[message["id"]] = [s for s in steps if isinstance(s, Ask | Call | Write)]
            steps = [s for s in steps if not isinstance(s, Write)]
        self._take(steps)

    def _take(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case Write(record) if "id" in record and "method" in record:
                    self._requests.append(record)
                case Emit(events):
                    self.offered += [event for event in events if isinstance(event, Offered)]
                    self.events[-1] += [event for event in events if not isinstance(event, Offered)]
                case Ask():
                    self.asks.append(step)
                case Call():
                    self.calls.append(step)
                case Ready():
                    self.ready = step
                case Over():
                    self.verdicts.append(self.dialog.verdict(None, ""))


# -- a dialog step by step --------------------------------------------------------------------------


def opened(dialog: AcpDialog, session: dict[str, Any] | None = None, **answer: Any) -> list[Any]:
    """The dialog with its session open; the last steps."""
    (write,) = dialog.open()
    about = {"protocolVersion": 1, "agentCapabilities": {}, **answer}
    (write,) = dialog.read({"id": write.record["id"], "result": about})
    return dialog.read({"id": write.record["id"], "result": {"sessionId": "S", **(session or {})}})


def running(acp: Acp | None = None, prompt: str = "do it", **changes: Any) -> AcpDialog:
    dialog = dialog_of(acp, **changes)
    assert isinstance(opened(dialog)[0], Ready)
    dialog.prompt(turn_of(prompt, **changes))
    return dialog


def update(dialog: AcpDialog, update_kind: str, **what: Any) -> list[Any]:
    update = {"sessionUpdate": update_kind, **what}
    steps = dialog.read({"method": "session/update", "params": {"sessionId": "S", "update": update}})
    return [event for step in steps if isinstance(step, Emit) for event in step.events]


def said(dialog: AcpDialog, text: str) -> list[Any]:
    return update(dialog, "agent_message_chunk", content={"type": "text", "text": text})


def end(dialog: AcpDialog, **result: Any) -> Any:
    steps = dialog.read({"id": dialog._prompt, "result": {"stopReason": "end_turn", **result}})
    assert isinstance(steps[-1], Over)
    return dialog.verdict(None, "")
