"""MCP servers that go with turns: a real server, by each real CLI, against the scripted model."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import mcp_server
from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Asked, McpServer, ToolEnded
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from real.yard import Yard

pytestmark = pytest.mark.timeout(240)

MARK = "the-mark-of-the-shouter"
PROGRAM: dict[str, Any] = {"command": sys.executable, "args": (mcp_server.__file__,)}
SHOUTER = McpServer(name="loud", env={"MARK": MARK}, **PROGRAM)
# What each CLI calls the tool before its model, and the model for which codex does not hide it behind a search.
TOOLS = {
    **{"claude": "mcp__loud__shout", "codex": "shout", "gemini": "mcp_loud_shout", "qwen": "mcp__loud__shout"},
    **{"opencode": "loud_shout", "copilot": "loud-shout"},
}
MODELS = {"codex": "gpt-5-fake"}
SOME = 20  # turns within which a server is up: most CLIs do not wait for theirs


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server.served() as url:
        yield url


async def shout(
    yard: Yard, o: Ostler, live: LiveSession, server: McpServer, option: str = "allow", **options: Any
) -> list[AnyEvent]:
    """The events of the first turn in which the server was up."""
    prompt = f'[[tool:{TOOLS[yard.agent]}:{{"text": "hey"}}]]'
    for _ in range(SOME):
        events: list[AnyEvent] = []
        async for event in live.run(prompt, mcp=[server], model=MODELS.get(yard.agent), **options):
            events.append(event)
            if isinstance(event, Asked):
                await o.answer(live.id, AskAnswer(ask=event.id, option=option, by="a person"))
        said = " ".join(e.output for e in events if isinstance(e, ToolEnded))
        if said and not any(word in said for word in ("does not exist", "No such tool", "not found", "unsupported")):
            break
    return events


def outputs(events: list[AnyEvent]) -> list[tuple[bool, str]]:
    return [(e.ok, e.output) for e in events if isinstance(e, ToolEnded)]


def written(yard: Yard) -> list[str]:
    """The files of ostler's that hold the value that the server was given."""
    files = [path for path in (yard.home.parent / "state").rglob("*") if path.is_file()]
    return [str(path) for path in files if MARK.encode() in path.read_bytes()]


@pytest.mark.parametrize("agent", [*TOOLS])
async def test_a_server_in_a_dialog(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        events = await shout(yard, o, live, SHOUTER, transport="dialog")
        assert outputs(events) == [(True, "[redacted] HEY")]
        assert [e.option for e in events if isinstance(e, Answered)] == ["allow_once"]
        assert any(f"{MARK} HEY" in x.text for x in yard.model.asked)  # the server had it
        await o.dialogs.close()
        events = await shout(yard, o, live, SHOUTER, "deny", transport="dialog")  # resumed, with the server
        assert [ok for ok, _ in outputs(events)] == [False]
        assert [e.option for e in events if isinstance(e, Answered)] == ["reject_once"]
    assert written(yard) == []


@pytest.mark.parametrize("agent", [*TOOLS])
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_elsewhere(yard: Yard, address: str, transport: Any) -> None:
    path = "mcp" if transport == "http" else "sse"
    server = McpServer(name="loud", url=f"{address}/{path}", transport=transport, headers={"MARK": MARK})
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        if (yard.agent, transport) == ("codex", "sse"):
            with pytest.raises(OstlerError, match="codex does not support MCP servers over sse"):
                await shout(yard, o, live, server, transport="dialog")
            return
        assert outputs(await shout(yard, o, live, server, transport="dialog")) == [(True, "[redacted] HEY")]
    assert written(yard) == []


@pytest.mark.parametrize("agent", [*TOOLS])
@pytest.mark.core
async def test_a_server_in_a_turn_of_its_own(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        if yard.agent in ("codex", "gemini", "opencode"):
            with pytest.raises(OstlerError) as refused:
                await shout(yard, o, live, SHOUTER)
            assert (refused.value.kind, refused.value.hint) == ("unsupported", "Use --dialog")
        if yard.agent == "codex":  # without a variable, nothing would stand in its arguments
            assert outputs(await shout(yard, o, live, McpServer(name="loud", **PROGRAM))) == [(True, " HEY")]
        elif yard.agent not in ("gemini", "opencode"):
            assert outputs(await shout(yard, o, live, SHOUTER)) == [(True, "[redacted] HEY")]
    assert written(yard) == []


@pytest.mark.parametrize("agent", ["codex"])
async def test_always_lasts_for_the_session_alone(yard: Yard) -> None:
    config = yard.home / ".codex" / "config.toml"
    before = config.read_text()
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        events = await shout(yard, o, live, SHOUTER, "always", transport="dialog")
        assert [e.option for e in events if isinstance(e, Answered)] == ["allow_always"]
        events = await shout(yard, o, live, SHOUTER, "deny", transport="dialog")
        assert outputs(events) == [(True, "[redacted] HEY")] and not any(isinstance(e, Asked) for e in events)
    assert config.read_text() == before


@pytest.mark.parametrize("agent", ["claude"])
async def test_an_agent_delegates_to_another(yard: Yard) -> None:
    state = yard.env["OSTLER_HOME"]
    args = ("-m", "ostler", "mcp", "--access", "write")
    server = McpServer(name="ostler", command=sys.executable, args=args, env={"OSTLER_HOME": state})
    wanted = {"agent": "claude", "prompt": "hello below", "access": "read", "seconds": 120}
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        for _ in range(SOME):
            events = [e async for e in live.run(f"[[tool:mcp__ostler__start_turn:{json.dumps(wanted)}]]", mcp=[server])]
            if "No such tool" not in str(outputs(events)):
                break
        ((ok, output),) = outputs(events)
        told = json.loads(output)
        assert ok and (told["state"], told["envelope"]["status"]) == ("ended", "ok"), output
        assert live.last is not None
        (below,) = o.store.turns_asked_by(live.last.turn)
        assert (below.id, below.turn.depth, below.turn.access) == (told["turn"], 1, "read")
    assert any("hello below" in asked.text and "[[tool" not in asked.text for asked in yard.model.asked)
