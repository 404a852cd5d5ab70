"""`ostler acp` as a real process, driven frame by frame; the scripted agent behind it."""

import asyncio
import base64
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_peer import Frame, Peer, Told, choose, environ_of, peer_of
from ostler.model import Answered, Asked, Ended
from ostler.process import tree
from ostler.settings import load_settings
from ostler.work import Ostler
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.sessions.rows import new_session_row
from prefork import start_ostler_here
from waiting import until

HELLO: Frame = {"protocolVersion": 1}
ASK = '[[ask:{"tool": "shell", "input": {"command": "touch made.txt"}, "then": [{"run": "touch made.txt"}]}]][[say:so]]'


def text(prompt: str) -> list[Frame]:
    return [{"type": "text", "text": prompt}]


async def new(peer: Peer, folder: Path) -> str:
    result = await peer.call("session/new", cwd=str(folder), mcpServers=[])
    return str(result["sessionId"])


async def prompt(peer: Peer, session: str, said: str) -> str:
    result = await peer.call("session/prompt", sessionId=session, prompt=text(said))
    return str(result["stopReason"])


@asynccontextmanager
async def beside(folder: Path) -> AsyncIterator[Ostler]:
    """Another ostler process's view of the same store."""
    environ = environ_of(folder)
    async with Ostler(load_settings(folder=str(folder), environ=environ).settings, environ) as o:
        yield o


def asks(frame: Frame) -> bool:
    return frame.get("method") == "session/request_permission"


def says(word: str) -> Any:
    return lambda frame: word in str(frame.get("params", {}).get("update", {}).get("content", ""))


async def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(Told) as told:
        await call
    return told.value.code, told.value.data.get("kind", "")


# -- the connection -----------------------------------------------------------------------------------


async def test_initialize(folder: Path) -> None:
    async with peer_of(folder, "script") as peer:
        assert (await refused(peer.call("session/list")))[0] == -32600  # initialize comes first
        assert (await refused(peer.call("initialize", protocolVersion="1")))[0] == -32602
        for version in (0, 9, 1):
            told = await peer.call("initialize", protocolVersion=version, clientCapabilities=None)
            assert told["protocolVersion"] == 1
        assert told["agentInfo"]["name"] == "ostler"
        assert told["agentCapabilities"] == {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {name: {} for name in ("list", "resume", "close", "delete", "fork")},
        }
        assert told["authMethods"] == []  # there is nothing to log in to
        assert await peer.call("authenticate", methodId="cli") == {}
        assert (await refused(peer.call("authenticate", methodId="x")))[0] == -32602
        for unknown in ("session/nope", "logout", "terminal/create"):
            assert (await refused(peer.call(unknown)))[0] == -32601
        peer.notify("something/else", x=1)
        peer.notify("session/cancel", sessionId="nope")
        assert await peer.call("session/list") == {"sessions": []}


async def test_who_is_not_logged_in_is_told_how(folder: Path) -> None:
    codex = folder / "codex"
    codex.write_text("#!/bin/sh\necho codex 0.166.0\n")
    codex.chmod(0o755)
    env = {"OSTLER_ONLY": "", "PATH": f"{folder}:{environ_of(folder)['PATH']}"}
    async with peer_of(folder, "codex", **env) as peer:
        [method] = (await peer.call("initialize", protocolVersion=1))["authMethods"]
        assert "codex" in method["description"]
        assert (await refused(peer.call("authenticate", methodId=method["id"])))[0] == -32000  # it has no flags
    async with peer_of(folder, "codex", **env, OPENAI_API_KEY="sk-test-000000000000") as peer:
        assert (await peer.call("initialize", protocolVersion=1))["authMethods"] == []


async def test_an_agent_that_there_is_not(folder: Path) -> None:
    process = await start_ostler_here(
        ["acp", "cloud"],
        env=environ_of(folder),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert b"cloud" in err and err.count(b"\n") == 1


async def test_only_frames_come_on_stdout(folder: Path) -> None:
    """What settings, agents and libraries print goes elsewhere: the peer takes nothing but frames."""
    (folder / "ostler.toml").write_text('access = "full"\ncommands = {claude = ["rm"]}\n')
    (folder / ".git").mkdir()
    async with peer_of(folder, "claude", initialize=HELLO, OSTLER_DEBUG="1", PYTHONVERBOSE="") as peer:
        session = await new(peer, folder)
        assert await prompt(peer, session, "[[stderr:noise]][[garbage]][[say:hi]]") == "end_turn"
        assert peer.said() == "hi"


async def test_whatever_the_parameters_are_they_are_no_fault_of_ostler(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    given: Frame = {
        **{"sessionId": session, "cwd": str(folder), "mcpServers": [], "prompt": text("[[say:x]]"), "cursor": None},
        **{"modeId": "read", "configId": "mode", "value": "read", "methodId": "cli", "protocolVersion": 1},
    }
    odd = (None, True, 5, -1.5, "", "\0", "/" + "x" * 5000, "9" * 5000, "\ud800", [], {}, [[]], [{}], {"type": "text"})
    needs = {
        "session/new": ("cwd", "mcpServers"),
        "session/list": ("cwd", "cursor"),
        "session/set_mode": ("sessionId", "modeId"),
        "session/set_config_option": ("sessionId", "configId", "value"),
        "session/prompt": ("sessionId", "prompt"),
        "session/load": ("sessionId", "cwd", "mcpServers"),
        "session/resume": ("sessionId", "cwd", "mcpServers"),
        "session/close": ("sessionId",),
        "session/delete": ("sessionId",),
        "session/fork": ("sessionId", "cwd"),
        "initialize": ("protocolVersion", "clientCapabilities"),
        "authenticate": ("methodId",),
    }
    answers = []
    for method, keys in needs.items():
        for name in keys:
            params = {key: given.get(key) for key in keys}
            asked = [peer.begin(method, **{**params, name: value}) for value in odd]
            answers += [await peer.finish(number) for number in asked]
    codes = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert set(codes) == {-32600, -32602, -32002} and len(codes) > 200  # -32600: busy


# -- turns --------------------------------------------------------------------------------------------


async def test_a_turn_is_a_turn_of_ostler(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    greeting = await peer.until(lambda f: "available_commands_update" in str(f))
    assert greeting["params"]["sessionId"] == session
    assert await prompt(peer, session, "[[think:Hm]][[run:echo out]][[say:hello]][[usage:{}]]") == "end_turn"
    kinds = [u["sessionUpdate"] for u in peer.updates(session)]
    assert kinds == [
        "available_commands_update",
        *("available_commands_update", "config_option_update"),  # what the agent offers
        *("agent_thought_chunk", "tool_call", "tool_call_update", "agent_message_chunk", "usage_update"),
        *("session_info_update", "config_option_update"),
    ]
    last = peer.frames[-1]
    assert last["result"]["stopReason"] == "end_turn"  # all updates came before it
    async with beside(folder) as o:
        row = o.find(session)
        assert (row.agent, row.served_by, row.folder, row.turns, row.state) == (
            "claude",
            "script",
            str(folder),
            1,
            "idle",
        )
        assert [type(e) for e in o.events(session)].count(Ended) == 1


@pytest.mark.parametrize(
    ("said", "code", "kind"),
    [
        ("[[fail:unauthenticated]]", -32000, "unauthenticated"),
        ("[[fail:limited]]", -32603, "limited"),
        ("[[say:x]][[exit:0]]", -32603, "unproven"),
        ("[[say:x]][[crash:SEGV]]", -32603, "crashed"),
        (" ", -32602, "bad_request"),
    ],
)
async def test_what_failed_is_an_error_never_an_end_of_turn(
    peer: Peer, folder: Path, said: str, code: int, kind: str
) -> None:
    session = await new(peer, folder)
    assert await refused(prompt(peer, session, said)) == (code, kind)
    assert await prompt(peer, session, "[[say:again]]") == "end_turn"


async def test_a_second_prompt_is_refused_while_one_runs(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    first = peer.begin("session/prompt", sessionId=session, prompt=text("[[say:one]][[wait_for:go]]"))
    assert await refused(prompt(peer, session, "[[say:two]]")) == (-32600, "busy")
    other = await new(peer, folder)
    assert await prompt(peer, other, "[[say:beside]]") == "end_turn"
    (folder / "go").touch()
    assert (await peer.finish(first))["result"]["stopReason"] == "end_turn"
    async with beside(folder) as o:
        live = await o.session(session=session)
        async for event in live.run("[[say:mine]][[wait_for:went]]"):
            if event.seq and (folder / "went").exists() is False and "mine" in str(event):
                assert await refused(prompt(peer, session, "x")) == (-32600, "busy")
                (folder / "went").touch()


async def test_a_prompt_with_files_and_an_image(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    (folder / "there.py").write_text("x = 1\n")
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
    blocks = [
        {"type": "text", "text": "[[echo:attach]][[echo:prompt]]"},
        {"type": "resource_link", "uri": f"file://{folder}/there.py", "name": "there.py"},
        {"type": "resource_link", "uri": f"file://{folder}/gone.py", "name": "gone.py"},
        {"type": "resource", "resource": {"uri": "file:///a/b.txt", "text": "inline words"}},
        {"type": "image", "data": png, "mimeType": "image/png"},
    ]
    await peer.call("session/prompt", sessionId=session, prompt=blocks)
    said = peer.said()
    assert f'["{folder}/there.py", ' in said and "image-1.png" in said
    assert "gone.py" in said and '<file name="b.txt">\ninline words' in said
    for wrong in ([{"type": "audio", "data": "x", "mimeType": "a"}], "text", None):
        code, _ = await refused(peer.call("session/prompt", sessionId=session, prompt=wrong))
        assert code == -32602


# -- asks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        (lambda frame: choose(frame, "allow_once"), "allow_once"),
        (lambda frame: choose(frame, "reject_once"), "reject_once"),
        (lambda frame: {"result": {}}, "reject_once"),
        (lambda frame: {"result": {"outcome": {"outcome": "selected", "optionId": "0"}}}, "reject_once"),
        (lambda frame: {"error": {"code": -32601, "message": "no such method"}}, "reject_once"),
    ],
)
async def test_asks_are_answered_in_the_editor(peer: Peer, folder: Path, answer: Any, option: str) -> None:
    session = await new(peer, folder)
    peer.answer = answer
    assert await prompt(peer, session, ASK) == "end_turn"
    [asked] = [frame["params"] for frame in peer.frames if asks(frame)]
    assert (asked["sessionId"], asked["toolCall"]["rawInput"]) == (session, {"command": "touch made.txt"})
    assert {o["kind"] for o in asked["options"]} == {"allow_once", "reject_once"}
    allowed = option == "allow_once"
    assert (folder / "made.txt").exists() is allowed
    calls = [u for u in peer.updates() if u.get("toolCallId") == asked["toolCall"]["toolCallId"]]
    assert calls[-1]["status"] == ("completed" if allowed else "failed")
    async with beside(folder) as o:
        answers = [(e.option, e.by) for e in o.events(session) if isinstance(e, Answered)]
        assert answers == [(option, "the editor")]


async def test_an_ask_that_was_cancelled_cancels_the_turn(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    peer.answer = lambda frame: {"result": {"outcome": {"outcome": "cancelled"}}}
    assert await prompt(peer, session, ASK) == "cancelled"
    assert not (folder / "made.txt").exists()


async def test_an_ask_answered_elsewhere_is_taken_back(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    peer.answer = lambda frame: None
    running = peer.begin("session/prompt", sessionId=session, prompt=text(ASK))
    frame = await peer.until(asks)
    async with beside(folder) as o:
        [asked] = [e for e in o.events(session) if isinstance(e, Asked)]
        await o.answer(session, AskAnswer(ask=asked.id, option="allow", by="a person"))
    assert (await peer.finish(running))["result"]["stopReason"] == "end_turn"
    assert (folder / "made.txt").exists()
    back = await peer.until(lambda f: f.get("method") == "$/cancel_request")
    assert back["params"] == {"requestId": frame["id"]}


async def test_a_rule_answers_before_anybody_is_asked(folder: Path) -> None:
    config = folder.parent / "home/.config/ostler/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[[asks]]\nanswer = "deny"\ntool = "shell"\n')
    async with peer_of(folder, "claude", "--access=write", initialize=HELLO) as peer:
        assert await prompt(peer, await new(peer, folder), ASK) == "end_turn"
        assert not any(map(asks, peer.frames))
        failed = [u for u in peer.updates() if u.get("status") == "failed"]
        assert "refused by rule 1" in str(failed[0]["content"])


# -- cancelling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["[[run:sleep 99]]", ASK, "[[never_end]]"])
async def test_cancel(peer: Peer, folder: Path, step: str) -> None:
    session = await new(peer, folder)
    peer.answer = lambda frame: None
    running = peer.begin("session/prompt", sessionId=session, prompt=text(f"[[say:begun]]{step}"))
    await peer.until(asks if step == ASK else says("begun"))
    peer.notify("session/cancel", sessionId=session)
    for frame in filter(asks, peer.frames):
        peer.send({"jsonrpc": "2.0", "id": frame["id"], "result": {"outcome": {"outcome": "cancelled"}}})
    answer = await peer.finish(running)
    assert answer["result"]["stopReason"] == "cancelled" and peer.frames[-1] is answer
    assert not (folder / "made.txt").exists()
    assert all(u["status"] != "in_progress" for u in list(last_calls(peer).values()))
    peer.notify("session/cancel", sessionId=session)  # of nothing
    assert await prompt(peer, session, "[[say:again]]") == "end_turn"


def last_calls(peer: Peer) -> dict[str, Frame]:
    return {u["toolCallId"]: u for u in peer.updates() if "toolCallId" in u}


async def test_cancel_before_the_turn_has_begun(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    running = peer.begin("session/prompt", sessionId=session, prompt=text("[[never_end]]"))
    peer.notify("session/cancel", sessionId=session)
    assert (await peer.finish(running))["result"]["stopReason"] == "cancelled"


async def test_a_request_is_cancelled(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    running = peer.begin("session/prompt", sessionId=session, prompt=text("[[say:begun]][[never_end]]"))
    await peer.until(says("begun"))
    peer.notify("$/cancel_request", requestId=running)
    assert (await peer.finish(running))["result"]["stopReason"] == "cancelled"


async def test_cancel_from_another_process(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    running = peer.begin("session/prompt", sessionId=session, prompt=text("[[say:begun]][[never_end]]"))
    await peer.until(says("begun"))
    async with beside(folder) as o:
        assert await o.cancel(session)
    assert (await peer.finish(running))["result"]["stopReason"] == "cancelled"


# -- sessions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cwd", ["relative", "/no/such/folder", "", None, 5])
async def test_a_folder_that_is_none(peer: Peer, cwd: Any) -> None:
    code, _ = await refused(peer.call("session/new", cwd=cwd, mcpServers=[]))
    assert code in (-32602, -32002)


async def test_servers_of_the_editor(folder: Path) -> None:
    hello = {"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}}
    async with peer_of(folder, initialize=hello) as peer:
        good = {"name": "db", "command": "/bin/db", "args": [], "env": []}
        for broken in ("db", [5], [{"name": "db"}], [good, {"command": "x"}]):
            code, kind = await refused(peer.call("session/new", cwd=str(folder), mcpServers=broken))
            assert (code, kind) == (-32602, "bad_request")
        await peer.call("session/new", cwd=str(folder), mcpServers=[good])
        notice = await peer.until(lambda f: "notice" in str(f.get("params", {}).get("update", {}).get("sessionUpdate")))
        assert "db" in notice["params"]["update"]["title"]


async def test_history_is_told_before_the_answer_and_not_on_resume(folder: Path) -> None:
    async with peer_of(folder, "claude", "--access=write", initialize=HELLO) as peer:
        session = await new(peer, folder)
        for said in ("[[stream:one two]]", "[[run:echo three]][[say:four]]"):
            await prompt(peer, session, said)
        live = last_calls(peer)
    async with peer_of(folder, initialize=HELLO) as peer:
        where = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
        state = await peer.call("session/load", **where)
        assert state["modes"]["currentModeId"] == "write"
        told = next(n for n, frame in enumerate(peer.frames) if frame.get("result") == state)
        assert not any("messageId" in str(frame) for frame in peer.frames[told:])
        words = [(u["sessionUpdate"], u["content"]["text"]) for u in peer.updates() if "messageId" in u]
        assert words == [
            ("user_message_chunk", "[[stream:one two]]"),
            ("agent_message_chunk", "one two"),
            ("user_message_chunk", "[[run:echo three]][[say:four]]"),
            ("agent_message_chunk", "four"),
        ]
        assert last_calls(peer) == live
        assert await prompt(peer, session, "[[history]]") == "end_turn"
        assert peer.said().endswith("[[stream:one two]]\n[[run:echo three]][[say:four]]")
    async with peer_of(folder, initialize=HELLO) as peer:
        assert await refused(prompt(peer, session, "x")) == (-32002, "not_found")  # not open here
        await peer.call("session/resume", sessionId=session, cwd=str(folder))
        await peer.until(lambda f: "available_commands_update" in str(f))
        assert [u["sessionUpdate"] for u in peer.updates()] == ["available_commands_update"]
        assert await prompt(peer, session, "[[history]]") == "end_turn"


async def test_sessions_that_cannot_be_loaded(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    for method in ("session/load", "session/resume", "session/close", "session/delete"):
        for unknown in ("zzzz", "", None, session[:2]):
            code = (await refused(peer.call(method, sessionId=unknown, cwd=str(folder), mcpServers=[])))[0]
            assert code == -32002
    wrong = peer.call("session/load", sessionId=session, cwd=str(folder.parent), mcpServers=[])
    assert await refused(wrong) == (-32602, "bad_request")


async def test_sessions_are_listed_a_page_at_a_time(peer: Peer, folder: Path) -> None:
    async with beside(folder) as o:
        for number in range(60):
            row = new_session_row(o.store, o.settings, agent="claude", folder=str(folder), title=f"n{number}")
            await o.store.add_session(row)
        elsewhere = new_session_row(o.store, o.settings, agent="codex", folder=str(folder.parent), name="else")
        await o.store.add_session(elsewhere)
        await o.store.add_session(new_session_row(o.store, o.settings, agent="exec", folder=str(folder)))
    first = await peer.call("session/list", cwd=str(folder))
    second = await peer.call("session/list", cwd=str(folder), cursor=first["nextCursor"])
    titles = {info["title"] for info in (*first["sessions"], *second["sessions"])}
    assert titles == {f"n{number}" for number in range(60)} and "nextCursor" not in second
    [other] = (await peer.call("session/list", cwd=str(folder.parent)))["sessions"]
    assert (other["sessionId"], other["cwd"], other["title"]) == (elsewhere.id, str(folder.parent), "else")
    assert (await refused(peer.call("session/list", cursor="x")))[0] == -32602


async def test_close_delete_and_fork(peer: Peer, folder: Path) -> None:
    session = await new(peer, folder)
    await prompt(peer, session, "[[say:one]]")
    copy = (await peer.call("session/fork", sessionId=session, cwd=str(folder)))["sessionId"]
    assert copy != session
    await prompt(peer, copy, "[[history]]")
    assert peer.said().endswith("[[say:one]]")
    running = peer.begin("session/prompt", sessionId=session, prompt=text("[[run:sleep 77]]"))
    await peer.until(lambda f: "sleep 77" in str(f.get("params")))
    assert await peer.call("session/close", sessionId=session) == {}
    assert (await peer.finish(running))["result"]["stopReason"] == "cancelled"
    assert await refused(prompt(peer, session, "x")) == (-32002, "not_found")
    assert await peer.call("session/delete", sessionId=session) == {}
    assert await refused(peer.call("session/delete", sessionId=session)) == (-32002, "not_found")
    listed = (await peer.call("session/list"))["sessions"]
    assert [info["sessionId"] for info in listed] == [copy]


# -- choices ------------------------------------------------------------------------------------------


def current(options: list[Frame]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in options}


async def test_modes_and_models(peer: Peer, folder: Path) -> None:
    state = await peer.call("session/new", cwd=str(folder), mcpServers=[])
    session = state["sessionId"]
    assert [mode["id"] for mode in state["modes"]["availableModes"]] == ["read", "write", "full"]
    assert current(state["configOptions"]) == {"mode": "write", "model": "default", "agent": "claude"}
    assert [option["category"] for option in state["configOptions"]] == ["mode", "model", "_agent"]
    assert await peer.call("session/set_mode", sessionId=session, modeId="read") == {}
    await prompt(peer, session, "[[echo:access]]")
    told = await peer.call("session/set_config_option", sessionId=session, configId="mode", value="full")
    assert current(told["configOptions"])["mode"] == "full"
    told = await peer.call("session/set_config_option", sessionId=session, configId="model", value="script-9")
    assert current(told["configOptions"])["model"] == "script-9"
    peer.begin("session/set_mode", sessionId=session, modeId="write")  # a prompt right behind it knows
    await prompt(peer, session, "[[echo:access]][[echo:model]]")
    assert await prompt(peer, session, "/model default") == "end_turn"
    assert await prompt(peer, session, "/access") == "end_turn"
    assert peer.said() == "readwritescript-9model: defaultaccess: write"
    modes = [u["currentModeId"] for u in peer.updates() if u["sessionUpdate"] == "current_mode_update"]
    assert modes == ["read", "full", "write"]
    async with beside(folder) as o:
        assert (o.find(session).access, o.find(session).model) == ("write", None)
    for wrong in (
        {"configId": "mode", "value": "root"},
        {"configId": "model", "value": ""},
        {"configId": "model", "value": 5},
        {"configId": "thought", "value": "x"},
        {"value": "x"},
        {"configId": "agent", "value": "codex"},  # it has begun
    ):
        assert (await refused(peer.call("session/set_config_option", sessionId=session, **wrong)))[0] == -32602
    assert (await refused(peer.call("session/set_mode", sessionId=session, modeId="auto")))[0] == -32602
    assert (await refused(prompt(peer, session, "/access root")))[0] == -32602


async def test_the_agent_can_be_chosen_before_the_first_prompt(folder: Path) -> None:
    config = folder.parent / "home/.config/ostler/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[profiles.careful]\nagent = "gemini"\nmodel = "m9"\naccess = "read"\n')
    async with peer_of(folder, "claude", "--access=full", initialize=HELLO) as peer:
        state = await peer.call("session/new", cwd=str(folder), mcpServers=[])
        session = state["sessionId"]
        options = {o["value"] for o in state["configOptions"][2]["options"]}
        assert {"claude", "codex", "careful"} <= options
        told = await peer.call("session/set_config_option", sessionId=session, configId="agent", value="careful")
        assert current(told["configOptions"]) == {"mode": "read", "model": "m9", "agent": "careful"}
        await prompt(peer, session, "[[echo:model]]")
        assert peer.said() == "m9"
        last = [u for u in peer.updates() if u["sessionUpdate"] == "config_option_update"][-1]
        assert [o["value"] for o in last["configOptions"][2]["options"]] == ["careful"]
        async with beside(folder) as o:
            row = o.find(session)
            assert (row.agent, row.profile, row.access) == ("gemini", "careful", "read")


# -- the end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hang up", "terminate"])
async def test_the_end_of_the_client_ends_everything(folder: Path, how: str) -> None:
    async with peer_of(folder, "claude", "--access=write", initialize=HELLO) as peer:
        session = await new(peer, folder)
        asking = await new(peer, folder)
        peer.answer = lambda frame: None
        peer.begin("session/prompt", sessionId=session, prompt=text("[[ignore:TERM]][[say:begun]][[run:sleep 66]]"))
        peer.begin("session/prompt", sessionId=asking, prompt=text(ASK))
        await peer.until(says("begun"))
        await peer.until(asks)
        if how == "terminate":
            peer.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(peer.process.wait(), 60) == 0
        else:
            assert await peer.close() == 0
    async with beside(folder) as o:
        for id in (session, asking):
            [turn] = o.store.turns(id)
            assert turn.envelope is not None and turn.envelope.outcome == "cancelled"
            assert tree.marked(id) == [] and tree.marked(turn.id) == []


@pytest.mark.long
async def test_a_slow_reader_costs_no_memory(folder: Path) -> None:
    """45 MB of updates that nobody reads: the turn goes on and ends; what was not read yet is in the journal."""
    scenario = folder.parent / "scenario.toml"
    steps = '{tool = {name = "t", output = "{big}"}}, ' * 400
    scenario.write_text(
        f'[[reply]]\nmatch = "(?P<big>x{{9,}})"\nsteps = [{steps}]\n[[reply]]\nsteps = [{{say = "hi"}}]\n'
    )
    async with peer_of(folder, initialize=HELLO, limit=1 << 20, OSTLER_SCENARIO=str(scenario)) as peer:
        session = await new(peer, folder)
        await prompt(peer, session, "warm up")
        peer.reads.clear()
        before = resident(peer.process.pid)
        running = peer.begin("session/prompt", sessionId=session, prompt=text("x" * 55_000))
        async with beside(folder) as o:
            await until(lambda: o.find(session).turns >= 2 and o.find(session).state == "idle")
        assert resident(peer.process.pid) - before < 45 << 20  # the newest events are kept at hand
        peer.reads.set()
        assert (await peer.finish(running))["result"]["stopReason"] == "end_turn"
        ended = [u for u in peer.updates(session) if u.get("status") == "completed"]
        assert len(ended) == 400 and sum(len(str(u)) for u in ended) > 40 << 20


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
