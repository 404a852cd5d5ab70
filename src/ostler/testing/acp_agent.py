"""The scripted agent behind ACP: `ostler-script-agent --acp` plays the same steps for any ACP client.

It has modes (`ask`: it asks before it runs or writes something; `auto`) and models, keeps sessions that can be
loaded and resumed, and uses the client's files and terminals where the client offers them. What it writes on
stdout are frames alone. The end of stdin ends it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading

from ostler.testing import scenario as scenarios
from ostler.testing.acp_play import AcpPlay, AcpRefusal
from ostler.testing.agent import VERSION
from ostler.testing.children import Interrupted, leave
from ostler.testing.memory import UnknownSession
from ostler.testing.offers import ACP_MODES as MODES
from ostler.testing.offers import COMMANDS, MODELS, described
from ostler.testing.play_turn import at_home, perform
from ostler.testing.steps import Setting

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import Any

    from ostler.testing.memory import Memory

LISTED = 2  # conversations in one answer
OPENING = ("session/new", "session/load", "session/resume")
ABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": False, "sse": False},
    "sessionCapabilities": {"close": {}, "list": {}, "resume": {}},
}


def serve(options: dict[str, Any], scenario: dict[str, Any], scripted: bool, env: dict[str, str]) -> int:
    """Serves one client until stdin ends."""
    if "cassette" in scenario or "cassette" in options:
        raise scenarios.BadScenario("a cassette holds one turn, no dialog")
    options = {**options, "access": "full", "dialog": True}  # its client sets the bounds
    agent = ScriptedAcpAgent(options, scenario, scripted, env)
    return agent.play_prompts()


class ScriptedSession:
    """One conversation, and what was chosen for it."""

    def __init__(self, id: str, memory: Memory, folder: str) -> None:
        self.id, self.memory, self.folder = id, memory, folder
        self.mode, self.model = "ask", MODELS[0]

    def options(self) -> dict[str, Any]:
        """What can be chosen, as the client sees it."""
        modes = [{"id": id, "name": id.title(), "description": said} for id, said in MODES.items()]
        models = [{"value": name, "name": name} for name in MODELS]
        model = {"id": "model", "name": "Model", "category": "model", "type": "select"}
        return {
            "modes": {"currentModeId": self.mode, "availableModes": modes},
            "configOptions": [{**model, "currentValue": self.model, "options": models}],
        }


class ScriptedAcpAgent:
    """Reads frames in a thread, so that a cancel is heard while a step is at work; plays prompts in the main one."""

    def __init__(self, options: dict[str, Any], scenario: dict[str, Any], scripted: bool, env: dict[str, str]) -> None:
        self.options, self.scenario, self.scripted, self.env = options, scenario, scripted, env
        self.client: dict[str, Any] = {}  # what the client can do
        self.sessions: dict[str, ScriptedSession] = {}
        self._prompts: queue.SimpleQueue[tuple[Any, ScriptedSession, str] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._playing: tuple[Any, str] | None = None  # the request and the session of the prompt at work
        self._requests = 0
        self._out = threading.Lock()
        signal.signal(signal.SIGUSR1, self._interrupted)
        threading.Thread(target=self._listen, daemon=True).start()

    # -- prompts

    def play_prompts(self) -> int:
        while (wanted := self._prompts.get()) is not None:
            id, session, prompt = wanted
            self._answer(id, self._play(id, session, prompt))
        return 0

    def _play(self, id: Any, session: ScriptedSession, prompt: str) -> dict[str, Any]:
        os.chdir(session.folder)
        memory = session.memory
        memory.launched(sys.argv, session.id, prompt)
        _, speed = at_home(self.env)
        options = {**self.options, "model": session.model, "mode": session.mode}
        play = AcpPlay(Setting(prompt, session.id, list(memory.history), options, speed), self, session)
        try:
            self._playing = id, session.id
            perform(play, self.scenario, self.scripted, memory)
            self._playing = None
        except Interrupted:
            self._playing = None
            play.cut_short()
        play.finish()
        memory.history.append(prompt)
        return play.outcome

    # -- frames

    def send(self, frame: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"
        with self._out:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def update(self, session: str, update: str, **what: Any) -> None:
        told = {"sessionUpdate": update, **what}
        self.send({"method": "session/update", "params": {"sessionId": session, "update": told}})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Asks the client; raises AcpRefusal for an error."""
        self._requests += 1
        id = f"script-{self._requests}"
        self.send({"id": id, "method": method, "params": params})
        while True:
            answer = self._answers.get()
            if answer.get("id") != id:
                continue  # to a request of a turn that was interrupted
            if "error" in answer:
                raise AcpRefusal(str(answer["error"].get("message")))
            return dict(answer.get("result") or {})

    def _answer(self, id: Any, outcome: dict[str, Any]) -> None:
        self.send({"id": id, **outcome})

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            try:
                frame = json.loads(line)
            except ValueError:
                continue  # not a frame
            if isinstance(frame, dict):
                self._handle_frame(frame)
        if self._playing:
            os.kill(os.getpid(), signal.SIGTERM)
        self._prompts.put(None)

    def _handle_frame(self, frame: dict[str, Any]) -> None:
        method, params = frame.get("method"), frame.get("params") or {}
        if not isinstance(method, str):
            self._answers.put(frame)
        elif "id" not in frame:
            self._handle_notification(method, params)
        elif method == "session/prompt" and params.get("sessionId") in self.sessions:
            self._prompts.put(
                (frame["id"], self.sessions[params["sessionId"]], prompt_text(params.get("prompt") or []))
            )
        else:
            try:
                result = self._asked(method, params)
                self._answer(frame["id"], {"result": result})
                if method in OPENING:
                    id = result.get("sessionId") or params["sessionId"]
                    self.update(id, "available_commands_update", availableCommands=described(COMMANDS, "name"))
            except AcpRefusal as refused:
                self._answer(frame["id"], {"error": {"code": refused.code, "message": str(refused)}})

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        playing = self._playing
        if playing is None:
            return
        if (method == "session/cancel" and params.get("sessionId") == playing[1]) or (
            method == "$/cancel_request" and params.get("requestId") == playing[0]
        ):
            os.kill(os.getpid(), signal.SIGUSR1)

    def _interrupted(self, number: int, frame: object) -> None:
        if self._playing:
            leave(Interrupted(130))

    # -- what a client asks for, but for prompts

    def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                self.client = params.get("clientCapabilities") or {}
                about = {"name": "ostler-script-agent", "title": "Scripted agent", "version": VERSION}
                return {"protocolVersion": 1, "agentCapabilities": ABILITIES, "agentInfo": about, "authMethods": []}
            case "session/new":
                session = self._open(None, params)
                return {"sessionId": session.id, **session.options()}
            case "session/load" | "session/resume":
                session = self._open(str(params.get("sessionId")), params)
                if method == "session/load":
                    self._replay(session)
                return session.options()
            case "session/list":
                return self._listed(params)
        session = self._known(params)
        match method:
            case "session/close":
                del self.sessions[session.id]
            case "session/set_mode" if params.get("modeId") in MODES:
                session.mode = params["modeId"]
            case "session/set_config_option" if params.get("configId") == "model" and params.get("value") in MODELS:
                session.model = params["value"]
                return {"configOptions": session.options()["configOptions"]}
            case "session/set_mode" | "session/set_config_option":
                raise AcpRefusal("there is no such choice", -32602)
            case _:
                raise AcpRefusal(f"{method} is not known", -32601)
        return {}

    def _open(self, resume: str | None, params: dict[str, Any]) -> ScriptedSession:
        folder = str(params.get("cwd") or "")
        if not os.path.isabs(folder) or not os.path.isdir(folder):
            raise AcpRefusal("cwd is no folder", -32602)
        memory, _ = at_home(self.env)
        os.chdir(folder)
        try:
            id = memory.open(None, resume, False)
        except UnknownSession as error:
            raise AcpRefusal(str(error), -32002) from None
        self.sessions[id] = ScriptedSession(id, memory, folder)
        return self.sessions[id]

    def _listed(self, params: dict[str, Any]) -> dict[str, Any]:
        """All that it remembers, of one folder if that is given, a few at a time."""
        cursor, folder = params.get("cursor"), params.get("cwd")
        memory, _ = at_home(self.env)
        known = [each for each in memory.all() if folder in (None, each["cwd"])]
        start = int(cursor) if cursor else 0
        more = {"nextCursor": str(start + LISTED)} if start + LISTED < len(known) else {}
        return {"sessions": known[start : start + LISTED], **more}

    def _known(self, params: dict[str, Any]) -> ScriptedSession:
        session = self.sessions.get(str(params.get("sessionId")))
        if session is None:
            raise AcpRefusal("no such session", -32602)
        return session

    def _replay(self, session: ScriptedSession) -> None:
        for line in session.memory.lines(session.id):
            kind = "user_message_chunk" if "prompt" in line else "agent_message_chunk"
            if text := line.get("prompt") or line.get("text"):
                self.update(session.id, kind, content={"type": "text", "text": text})


def prompt_text(blocks: list[Any]) -> str:
    """A prompt's blocks as text: embedded files in full, others by their address."""
    parts = []
    for block in blocks:
        resource = block.get("resource") or {}
        parts.append(block.get("text") or resource.get("text") or block.get("uri") or f"[{block.get('type')}]")
    return "\n".join(parts)
