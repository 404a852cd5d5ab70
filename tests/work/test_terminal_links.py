"""A tool call and the terminal that shows it, from a real agent's words to the journal."""

import sys
from pathlib import Path

from ostler.model import AnyEvent, Asked, TerminalClosed, TerminalOpened, ToolEnded, ToolStarted
from ostler.work.dialogs.asks import AskAnswer
from work.acp_yard import AcpYard, turn

# An agent that runs its command itself, and only shows the terminal.
SHOWS = r"""
import json, sys
def send(**frame): print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)
def update(name, **what):
    told = {"sessionUpdate": name, "toolCallId": "c", **what}
    send(method="session/update", params={"sessionId": "s", "update": told})
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        send(id=asked["id"], result={"protocolVersion": 1})
    elif asked.get("method") == "session/new":
        send(id=asked["id"], result={"sessionId": "s"})
    elif asked.get("method") == "session/prompt":
        shown = [{"type": "terminal", "terminalId": "own"}, {"type": "terminal", "terminalId": "nobody's"}]
        update("tool_call", title="ls", kind="execute", status="in_progress", content=shown)
        for name, more in (("info", {}), ("output", {"data": "a\n"}), ("exit", {"exit_code": 0})):
            update("tool_call_update", _meta={"terminal_" + name: {"terminal_id": "own", **more}})
        update("tool_call_update", status="completed")
        send(id=asked["id"], result={"stopReason": "end_turn"})
    elif "id" in asked:
        send(id=asked["id"], result={})
"""


def kinds_of(events: list[AnyEvent]) -> list[str]:
    kept = (TerminalOpened, TerminalClosed, ToolStarted, ToolEnded)
    return [type(event).__name__ for event in events if isinstance(event, kept)]


async def test_a_command_that_ostler_runs(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path)
    async with yard.ostler() as o:
        live = await yard.session(o)
        gate, events = yard.folder / "gate", list[AnyEvent]()
        async for event in live.run(f"[[run:echo oats; until [ -e {gate} ]; do sleep 0.02; done]]"):
            events.append(event)
            if isinstance(event, Asked):
                await o.answer(live.id, AskAnswer(ask=event.id, option="allow", by="a person"))
            elif isinstance(event, TerminalOpened) and event.tool:
                assert o.terminals.get(event.terminal).state == "live"
                gate.touch()
        assert live.last is not None and live.last.outcome == "done"
        assert kinds_of(events) == ["ToolStarted", "TerminalOpened", "TerminalOpened", "TerminalClosed", "ToolEnded"]
        tool = next(event for event in events if isinstance(event, ToolStarted))
        opened, again = [event for event in events if isinstance(event, TerminalOpened)]
        assert (opened.tool, again.tool) == ("", tool.id)
        assert (opened.terminal, opened.title) == (again.terminal, again.title)
        assert o.terminals.get(again.terminal).source == "pty"
        assert "oats" in await o.terminals.text(again.terminal)


async def test_a_terminal_of_the_agents_own(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path, (sys.executable, "-c", SHOWS))
    async with yard.ostler() as o:
        live = await yard.session(o, access="read")
        envelope, events = await turn(o, live, "look around")
        assert envelope.outcome == "done", envelope.error
        (opened,) = [event for event in events if isinstance(event, TerminalOpened)]
        assert opened.tool == "c"
        assert kinds_of(events) == ["ToolStarted", "TerminalOpened", "TerminalClosed", "ToolEnded"]
        (row,) = [row for row in o.terminals.list(live.id) if row.source != "turn"]
        assert (row.id, row.source) == (opened.terminal, "acp")
        assert await o.terminals.text(row.id) == "a\n"
