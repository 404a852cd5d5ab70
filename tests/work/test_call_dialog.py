"""Commands and files of a real process that speaks ACP: asked for, answered, and ended with the dialog."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from needs import needs
from ostler.access import Access
from ostler.agents import AGENTS
from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.reader import AcpReader, Meter
from ostler.model import AnyEvent, Host, Launch, Problem, TerminalClosed, TerminalOpened, Text, TextDelta, Turn
from ostler.process import tree
from ostler.settings import AskRule, Settings
from ostler.store import Redactor
from ostler.store.files import private_folder
from ostler.work import Ostler
from ostler.work.dialogs.call_terminals import CallTerminals
from ostler.work.dialogs.open_dialogs import Dialogs
from ostler.work.sessions.rows import new_session_row
from ostler.work.transports.stop import Stop
from ostler.work.transports.transport import Attempt, Carried, TurnContext
from ostler.work.turns.artifacts import Artifacts
from ostler.work.turns.command import COMMAND
from ostler.work.walls import Enclosure, wall_around
from waiting import until
from work.scripted import Stable

# Its prompt is a list of [method, params]; "$" in params is the last terminal's id. It answers with what it got.
AGENT = """
import itertools, json, sys
numbers = itertools.count(100)
def send(**record): print(json.dumps({"jsonrpc": "2.0", **record}), flush=True)
def asked(method, params):
    id = next(numbers)
    send(id=id, method=method.removeprefix("no longer "), params={"sessionId": "one", **params})
    if method.startswith("no longer "):
        send(method="$/cancel_request", params={"requestId": id})
    while True:
        record = json.loads(sys.stdin.readline() or sys.exit())
        if record.get("id") == id and "method" not in record:
            return record.get("result") or {"code": record["error"]["code"]} if "error" in record else record["result"]
        if record.get("method") == "session/cancel":
            raise KeyboardInterrupt
terminal = ""
for line in sys.stdin:
    record = json.loads(line)
    method, id = record.get("method"), record.get("id")
    if method == "initialize":
        offered = record["params"]["clientCapabilities"]
        send(id=id, result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        send(id=id, result={"sessionId": "one"})
    elif method == "session/prompt":
        got, reason = [], "end_turn"
        try:
            for method, params in json.loads(record["params"]["prompt"][0]["text"]):
                params = {k: terminal if v == "$" else v for k, v in params.items()}
                if method == "update":
                    send(method="session/update", params={"sessionId": "one", "update": params})
                    continue
                got.append(offered if method == "offered" else asked(method, params))
                terminal = got[-1].get("terminalId", terminal)
        except KeyboardInterrupt:
            reason = "cancelled"
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": json.dumps(got)}}
        send(method="session/update", params={"sessionId": "one", "update": chunk})
        send(id=id, result={"stopReason": reason})
    elif id is not None and method:
        send(id=id, result={})
"""


class Talk:
    """Turns of one session with that agent."""

    def __init__(self, o: Ostler, stable: Stable, session: str) -> None:
        self.ostler, self.stable, self.session = o, stable, session
        self.dialogs = Dialogs(o.warden.get, partial(CallTerminals, o.terminal_context, lambda: o.terminals))
        self.events: list[AnyEvent] = []
        self.stop = Stop()
        self._turns = 0

    async def turn(
        self, *wants: tuple[str, dict[str, Any]], access: Access = "full", walled: bool = False
    ) -> list[Any]:
        """What the agent got for its requests."""
        await self.run(*wants, access=access, walled=walled)
        said = [event.text for event in self.events if isinstance(event, Text | TextDelta)]
        return list(json.loads(said[-1]))

    async def run(self, *wants: tuple[str, dict[str, Any]], access: Access = "full", walled: bool = False) -> Carried:
        self._turns += 1
        turn = Turn(
            id=f"{self.session}-{self._turns}",
            session=self.session,
            agent="gemini",
            prompt=json.dumps(wants),
            folder=str(self.stable.folder),
            access=access,
            transport="dialog",
            walled=walled,
        )
        program = self.stable.home / "agent.py"
        program.write_text(AGENT)
        dialog = AcpDialog(turn, Host(executable=sys.executable), Acp())
        attempt = Attempt(
            turn=turn,
            agent=AGENTS["gemini"],
            reader=AcpReader(turn, Acp(), Meter(Acp(), new=True)),
            launch=Launch(argv=(sys.executable, "-u", str(program))),
            env=dict(self.stable.env),
            served_by="gemini",
            records_of="gemini",
            redactor=Redactor(),
            effective_turn=turn,
            transport="dialog",
            dialog=dialog,
            state=str(self.ostler.store.folder),
            enclosure=self._wall(turn) if walled else None,
        )
        artifacts = Artifacts(private_folder(self.stable.home / turn.id), Redactor())
        context = TurnContext(
            add=self._add,
            artifacts=artifacts,
            stop=self.stop,
            settings=structs.replace(self.ostler.settings, asks=(AskRule(answer="allow"),), ask_limit=None),
            set_asking=self._set_asking,
        )
        try:
            return await self.dialogs.run(attempt, context)
        finally:
            artifacts.close(None)

    async def _add(self, events: list[AnyEvent]) -> None:
        self.events += events

    async def _set_asking(self, asking: bool) -> None: ...

    def _wall(self, turn: Turn) -> Enclosure | None:
        state = str(self.ostler.store.folder)
        return wall_around(Settings(), COMMAND, turn.access, turn.folder, state=state, environ=self.stable.env)


@pytest.fixture
async def talk(stable: Stable) -> AsyncIterator[Talk]:
    async with stable.ostler() as o:
        row = new_session_row(o.store, o.settings, agent="gemini", folder=str(stable.folder))
        await o.store.add_session(row)
        made = Talk(o, stable, row.id)
        yield made
        await made.dialogs.close()


def sh(script: str, **params: Any) -> tuple[str, dict[str, Any]]:
    return "terminal/create", {"command": "sh", "args": ["-c", script], **params}


def of(method: str) -> tuple[str, dict[str, Any]]:
    return f"terminal/{method}", {"terminalId": "$"}


async def test_a_command_from_beginning_to_end(talk: Talk) -> None:
    wants = sh("echo hello; exit 42"), of("wait_for_exit"), of("output"), of("release"), of("release"), of("output")
    made, *rest = await talk.turn(*wants)
    said = {"output": "hello\n", "truncated": False, "exitStatus": {"exitCode": 42}}
    assert rest == [{"exitCode": 42}, said, {}, {}, {"code": -32002}]
    told = [event for event in talk.events if isinstance(event, TerminalOpened | TerminalClosed)]
    assert told == [
        TerminalOpened(terminal=made["terminalId"], title="sh -c 'echo hello; exit 42'"),
        TerminalClosed(terminal=made["terminalId"], exit_code=42),
    ]


async def test_files_and_their_refusals(talk: Talk, tmp_path: Path) -> None:
    path = str(talk.stable.folder / "made" / "a.txt")
    got = await talk.turn(
        ("fs/write_text_file", {"path": path, "content": "one\ntwo\n"}),
        ("fs/read_text_file", {"path": path, "line": 2, "limit": 1}),
        ("fs/read_text_file", {"path": f"{path}.none"}),
        ("fs/read_text_file", {"path": str(tmp_path / "outside")}),
        ("fs/read_text_file", {"path": 7}),
    )
    assert got == [{}, {"content": "two\n"}, {"code": -32002}, {"code": -32603}, {"code": -32602}]


async def test_a_session_that_is_not_this_one(talk: Talk) -> None:
    method, params = sh("touch made")
    assert await talk.turn((method, {**params, "sessionId": "two"})) == [{"code": -32602}]
    assert list(talk.stable.folder.iterdir()) == []


@pytest.mark.parametrize(("access", "offered"), [("full", True), ("write", False), ("read", False)])
async def test_terminals_are_offered_with_full_access_alone(talk: Talk, access: Access, offered: bool) -> None:
    abilities, made = await talk.turn(("offered", {}), sh("true"), access=access)
    assert abilities["terminal"] is offered
    assert ("terminalId" in made) is offered


@needs("landlock")
async def test_behind_a_wall_they_are_offered_under_write_too(talk: Talk) -> None:
    outside = talk.stable.home / "outside"
    wants = ("offered", {}), sh(f"echo x > inside; echo x > {outside}"), of("wait_for_exit")
    abilities, _, ended = await talk.turn(*wants, access="write", walled=True)
    assert abilities["terminal"] is True and ended != {"exitCode": 0}
    assert (talk.stable.folder / "inside").exists() and not outside.exists()


async def test_a_command_outlives_its_turn_but_not_the_dialog(talk: Talk) -> None:
    (made,) = await talk.turn(sh("echo up; exec sleep 1000"))
    id = made["terminalId"]
    assert talk.ostler.terminals.get(id).state == "live"
    ended = await talk.turn(of("kill"), of("wait_for_exit"))
    assert ended == [{}, {"signal": "SIGTERM"}]
    (made,) = await talk.turn(sh("exec sleep 1000"))
    await talk.dialogs.close()
    assert tree.marked(made["terminalId"]) == []


async def test_an_interrupt_ends_the_command_that_the_agent_waits_for(talk: Talk) -> None:
    turn = asyncio.create_task(talk.run(sh("echo up; exec sleep 1000"), of("wait_for_exit")))
    opened = await until(lambda: [event for event in talk.events if isinstance(event, TerminalOpened)])
    talk.stop.request(Problem(kind="cancelled", message="enough"))
    carried = await turn
    assert carried.verdict.outcome == "cancelled"
    assert tree.marked(opened[0].terminal) == []
    talk.stop = Stop()
    assert await talk.turn(of("wait_for_exit")) == [{"signal": "SIGTERM"}]


async def test_a_wait_that_is_taken_back(talk: Talk) -> None:
    method, params = of("wait_for_exit")
    got = await talk.turn(sh("exec sleep 1000"), (f"no longer {method}", params), of("output"))
    assert got[1:] == [{"code": -32800}, {"output": "", "truncated": False}]


async def test_a_terminal_that_the_agent_only_tells_of(talk: Talk) -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls", "kind": "execute", "status": "in_progress"}
    more = {"sessionUpdate": "tool_call_update", "toolCallId": "c1"}
    shown = {"terminal_id": "x"}
    await talk.turn(
        ("update", {**call, "_meta": {"terminal_info": {**shown, "cwd": "/"}}}),
        *(("update", {**more, "_meta": {"terminal_output": {**shown, "data": f"line {n}\n"}}}) for n in range(20)),
        ("update", {**more, "status": "completed", "_meta": {"terminal_exit": {**shown, "exit_code": 0}}}),
    )
    (row,) = talk.ostler.terminals.list(talk.session)
    assert (row.source, row.state) == ("acp", "ended")
    assert await talk.ostler.terminals.text(row.id) == "".join(f"line {n}\n" for n in range(20))
