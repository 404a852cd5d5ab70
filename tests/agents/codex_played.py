"""A dialog of codex app-server: told by hand what the process says, or played again from a capture."""

import json
from typing import Any

from agents.replayed import CAPTURES, turn_of
from ostler.agents.codex.dialog import CodexDialog
from ostler.agents.dialog import Ask, Emit, Over, Write
from ostler.model import (
    AnyEvent,
    Asked,
    AskOption,
    Host,
    Turn,
    Verdict,
)

HOST = Host(executable="/bin/codex", private="/run/private", home="/home/ann")
THREAD, TURN = "01a1e199-7d51-7143-8680-c1629be8b49d", "01a1e199-7d7f-71c0-bd3b-229a0104c5d7"
HISTORY = "/home/ann/.codex/sessions/rollout-1.jsonl"
COMMAND = {"command": "/bin/bash -lc 'make hay'", "cwd": "/workspace"}
OPTIONS = (
    AskOption(id="allow_once", name="Allow", kind="allow_once"),
    AskOption(id="allow_always", name="Allow for this session", kind="allow_always"),
    AskOption(id="reject_once", name="Deny", kind="reject_once"),
)


def a_turn(**options: Any) -> Turn:
    return turn_of("codex", **options)


class Played:
    """A dialog, and what its steps came to."""

    def __init__(self, **options: Any) -> None:
        self.turn = a_turn(**options)
        self.dialog = CodexDialog(self.turn, HOST)
        self.written: list[Any] = []
        self.events: list[AnyEvent] = []
        self.asks: list[Asked] = []
        self.others: list[Any] = []
        self.verdicts: list[Verdict] = []

    def do(self, steps: list[Any]) -> "Played":
        for step in steps:
            match step:
                case Write(record):
                    self.written.append(record)
                case Emit(events):
                    self.events += events
                case Ask(asked):
                    self.asks.append(asked)
                case Over():
                    self.events += self.dialog.reader.flush()
                    self.verdicts.append(self.dialog.verdict(None, ""))
                case _:
                    self.others.append(step)
        return self

    def hear(self, *records: Any) -> "Played":
        for record in records:
            self.do(self.dialog.read(record))
        return self

    def reply(self, method: str, result: Any = None, error: Any = None) -> "Played":
        """Answers the newest request of that name."""
        id = next(r["id"] for r in reversed(self.written) if r.get("method") == method)
        return self.hear({"id": id, "error": error} if error is not None else {"id": id, "result": result or {}})

    def opened(self) -> "Played":
        self.do(self.dialog.open()).reply("initialize")
        method = next(r["method"] for r in self.written if r.get("method", "").startswith("thread/"))
        return self.reply(method, begun(self.turn))

    def begun(self) -> "Played":
        self.opened().do(self.dialog.prompt(self.turn)).reply("turn/start", {"turn": {"id": TURN}})
        self.written.clear()
        self.events.clear()
        return self

    def told(self, method: str, **params: Any) -> "Played":
        return self.hear({"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}})

    def item(self, phase: str, **item: Any) -> "Played":
        return self.told(f"item/{phase}", item=item)

    def ended(self, status: str = "completed", **turn: Any) -> "Played":
        return self.told("turn/completed", turn={"id": TURN, "status": status, **turn})

    def asked(self, method: str = "commandExecution", id: Any = 0, **params: Any) -> "Played":
        given = {"threadId": THREAD, "turnId": TURN, "itemId": "call_1", "reason": None}
        return self.hear({"method": f"item/{method}/requestApproval", "id": id, "params": given | params})

    def found(self, *calls: Any, output: str = "") -> "Played":
        """The answer to a search in codex's history."""
        payloads = [{"type": "function_call", "call_id": "call_1", "arguments": json.dumps(call)} for call in calls]
        if output:
            payloads.append({"type": "function_call_output", "call_id": "call_1", "output": output})
        lines = "".join(json.dumps({"type": "response_item", "payload": p}) + "\n" for p in payloads)
        return self.reply("command/exec", {"exitCode": 0, "stdout": lines, "stderr": ""})


def begun(turn: Turn, **changes: Any) -> dict[str, Any]:
    kinds = {"read": "readOnly", "write": "workspaceWrite", "full": "dangerFullAccess"}
    return {
        "thread": {"id": THREAD, "path": HISTORY},
        "model": turn.model or "gpt-5.5",
        "cwd": turn.folder,
        "runtimeWorkspaceRoots": [turn.folder],
        "approvalPolicy": "never" if turn.access == "read" else "untrusted",
        "approvalsReviewer": "user",
        "sandbox": {"type": kinds[turn.access], "networkAccess": False, "writableRoots": []},
        "activePermissionProfile": {"id": f"ostler-{turn.id}"} if turn.access != "full" else None,
        **changes,
    }


# -- captures ---------------------------------------------------------------------------------------

DECISIONS = {
    "accept": "allow_once",
    "acceptForSession": "allow_always",
    "decline": "reject_once",
    "cancel": "cancelled",
}


def recorded(case: str, **options: Any) -> Played:
    """A capture played again: what its client wanted is wanted of the dialog, which gets the server's records."""
    played = Played(**options)
    wants: dict[Any, str] = {}  # id in the capture → the method that was asked for
    for line in (CAPTURES / "dialogs" / "codex" / f"{case}.trace.ndjson").read_text().splitlines():
        row = json.loads(line)
        message = row["msg"]
        if row["dir"] == "client->server":
            if "method" in message:
                wants[message.get("id")] = message["method"]
            if not want(played, message):
                break
        elif "method" in message:
            played.hear(message)
        elif any(r.get("method") == wants[message["id"]] for r in played.written):
            played.reply(wants[message["id"]], message.get("result"), message.get("error"))
    return played


def want(played: Played, message: dict[str, Any]) -> bool:
    """False: the capture goes on with what ostler would never say."""
    dialog, params = played.dialog, message.get("params", {})
    match message.get("method"):
        case "initialize":
            played.do(dialog.open())
        case "turn/start":
            if dialog._turn:
                return False
            played.do(dialog.prompt(a_turn(prompt=params["input"][0]["text"], model=params.get("model"))))
        case "turn/interrupt":
            played.do(dialog.interrupt())
        case None:
            decision = message.get("result", {}).get("decision")
            if decision not in DECISIONS:
                return False
            if played.asks and played.asks[-1].id in dialog._open:
                before = len(played.written)
                played.do(dialog.answer(played.asks[-1].id, DECISIONS[decision]))
                assert played.written[before:] == [message]
        case "thread/resume" if dialog._thread:
            return False
    return True
