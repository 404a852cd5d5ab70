"""Asks over HTTP: seen in the lists, answered once, refused when it is too late; steering; turns in dialogs."""

import json
from pathlib import Path
from typing import Any

import httpx

from ostler.agents import AGENTS
from ostler.model import Answered, Asked, Notice, Problem, Text, Turn, TurnRow
from ostler.testing import Clock
from ostler.work.turns.envelope import unwatched_envelope
from server.conftest import Yard, yard_at
from server.test_sessions import make
from server.test_turns import ended, start
from waiting import until

ASK = {
    "tool": "shell",
    "input": {"command": "touch asked.txt"},
    "options": ["allow_once", "allow_always", "reject_once"],
    "reason": "The file is needed.",
    "then": [{"run": "touch asked.txt"}],
}


def asking(**more: Any) -> str:
    return f"[[ask:{json.dumps({**ASK, **more})}]] [[say:done]]"


async def begun(yard: Yard, prompt: str | None = None, **fields: Any) -> tuple[str, str]:
    """A turn in a dialog that asks: its session, its id."""
    session = (await make(yard, access="write"))["id"]
    answer = await start(yard, session, prompt=prompt or asking(), transport="dialog", **fields)
    assert answer.status_code == 202, answer.text
    turn = str(answer.json()["id"])
    await until(lambda: yard.ostler.open_asks(turn))
    return session, turn


async def open_ask(yard: Yard, turn: str) -> dict[str, Any]:
    items = (await yard.client.get(f"/api/turns/{turn}/asks")).json()["items"]
    assert len(items) == 1
    return dict(items[0])


def answers_in(yard: Yard, session: str) -> list[Answered]:
    return [event for event in yard.ostler.events(session) if isinstance(event, Answered)]


async def say(yard: Yard, turn: str, **fields: Any) -> httpx.Response:
    return await yard.client.post(f"/api/turns/{turn}/answer", json=fields)


async def test_an_ask_is_seen_and_allowed_once(yard: Yard) -> None:
    session, turn = await begun(yard)
    ask = await open_ask(yard, turn)
    assert (ask["tool"], ask["reason"], ask["input"]) == ("shell", ASK["reason"], ASK["input"])
    view = (await yard.client.get(f"/api/sessions/{session}")).json()
    assert (view["state"], view["asks"]) == ("asking", 1)
    assert (view["turn"]["state"], view["turn"]["transport"]) == ("asking", "dialog")
    assert view["ask"] == {
        "id": ask["id"],
        "turn": turn,
        "tool": "shell",
        "category": "shell",
        "title": "touch asked.txt",
        "options": ASK["options"],
        "expires_at": ask["expires_at"],
        "whole": True,
    }
    assert not (yard.folder / "asked.txt").exists()
    answer = await say(yard, turn, ask=ask["id"], option="allow")
    assert (answer.status_code, answer.content) == (204, b"")
    found = await ended(yard, turn)
    assert found["outcome"] == "done" and (yard.folder / "asked.txt").exists()
    assert [(said.option, said.by) for said in answers_in(yard, session)] == [("allow_once", "tester")]
    late = await say(yard, turn, ask=ask["id"], option="allow")
    assert (late.status_code, late.json()["kind"]) == (404, "not_found")
    assert (await yard.client.get(f"/api/turns/{turn}/asks")).json() == {"items": []}
    view = (await yard.client.get(f"/api/sessions/{session}")).json()
    assert (view["state"], view["ask"], view["asks"]) == ("idle", None, 0)


async def test_a_denied_tool_does_not_run(yard: Yard) -> None:
    session, turn = await begun(yard)
    ask = await open_ask(yard, turn)
    assert (await say(yard, turn, ask=ask["id"], option="deny", message="not today")).status_code == 204
    assert [(said.option, said.message) for said in answers_in(yard, session)] == [("reject_once", "not today")]
    await ended(yard, turn)
    assert not (yard.folder / "asked.txt").exists()
    envelope = (await yard.client.get(f"/api/turns/{turn}/envelope")).json()
    assert [denial["tool"] for denial in envelope["denied"]] == ["shell"]


async def test_the_second_answer_comes_too_late(yard: Yard) -> None:
    session, turn = await begun(yard, asking(then=[{"never_end": True}]))
    ask = (await open_ask(yard, turn))["id"]
    answers = [(await say(yard, turn, ask=ask, option=option)).status_code for option in ("always", "deny")]
    assert answers == [204, 404]
    assert [said.option for said in answers_in(yard, session)] == ["allow_always"]
    assert (await yard.client.post(f"/api/turns/{turn}/cancel")).status_code == 202
    assert (await ended(yard, turn))["outcome"] == "cancelled"


async def test_what_is_no_answer(yard: Yard) -> None:
    _, turn = await begun(yard)
    _, other = await begun(yard, asking(tool="write"))
    ask, foreign = (await open_ask(yard, turn))["id"], "nothing"
    bad: list[tuple[dict[str, Any], int]] = [
        ({"ask": foreign, "option": "allow"}, 404),
        ({"ask": ask, "option": "perhaps"}, 400),
        ({"ask": ask, "option": "never"}, 400),
        ({"ask": "", "option": "allow"}, 400),
        ({"ask": ask}, 400),
        ({"ask": ask, "option": "allow", "by": "somebody else"}, 400),
        ({"ask": ask, "option": "allow", "message": "x" * 10_001}, 400),
    ]
    for fields, status in bad:
        answer = await say(yard, turn, **fields)
        assert (answer.status_code, bool(answer.json()["detail"])) == (status, True), fields
    assert (await say(yard, "nobody", ask=ask, option="allow")).status_code == 404
    async with yard.as_("view") as viewer:
        answer = await viewer.post(f"/api/turns/{turn}/answer", json={"ask": ask, "option": "allow"})
        assert answer.status_code == 403
        assert (await viewer.get(f"/api/turns/{turn}/asks")).status_code == 200
    for each in (turn, other):
        assert len(yard.ostler.open_asks(each)) == 1, "nothing of this has answered it"


async def test_an_ask_of_another_session_is_not_found(yard: Yard) -> None:
    sessions = [await begun(yard, asking()), await begun(yard, "[[say:hi]] " + asking())]
    asks = [(await open_ask(yard, turn))["id"] for _, turn in sessions]
    assert asks[0] != asks[1]
    for (session, turn), foreign in zip(sessions, reversed(asks), strict=True):
        refused = await say(yard, turn, ask=foreign, option="allow")
        assert (refused.status_code, refused.json()["kind"]) == (404, "not_found")
        assert answers_in(yard, session) == []
    assert [(await open_ask(yard, turn))["id"] for _, turn in sessions] == asks
    assert not (yard.folder / "asked.txt").exists()
    for (session, turn), ask in zip(sessions, asks, strict=True):
        assert (await say(yard, turn, ask=ask, option="deny")).status_code == 204
        assert (await ended(yard, turn))["outcome"] == "done"
        assert [said.option for said in answers_in(yard, session)] == ["reject_once"]


async def test_asks_of_the_same_name_are_told_apart_by_their_turns(yard: Yard) -> None:
    (one, first), (other, second) = await begun(yard), await begun(yard)
    ask = (await open_ask(yard, first))["id"]
    assert (await open_ask(yard, second))["id"] == ask
    assert (await say(yard, second, ask=ask, option="deny")).status_code == 204
    await ended(yard, second)
    assert (answers_in(yard, one), len(answers_in(yard, other))) == ([], 1)
    assert (await open_ask(yard, first))["id"] == ask


async def test_an_ask_that_is_unknown_or_answered_or_over(clock: Clock, tmp_path: Path) -> None:
    async with yard_at(tmp_path, env={"OSTLER_ASK_LIMIT": "600"}) as yard:
        gate = yard.folder / "gate"
        session, turn = await begun(yard, asking(then=[]) + f"[[wait_for:{gate}]]" + asking(then=[]) + "[[never_end]]")
        first = (await open_ask(yard, turn))["id"]

        async def refused(ask: str) -> tuple[int, str, bool]:
            answer = await say(yard, turn, ask=ask, option="allow")
            return answer.status_code, answer.json()["kind"], ask in answer.json()["detail"]

        assert await refused("q99") == (404, "not_found", True)
        assert (await say(yard, turn, ask=first, option="allow")).status_code == 204
        assert await refused(first) == (404, "not_found", True)
        gate.touch()
        late = (await until(lambda: yard.ostler.open_asks(turn)))[0].id
        await clock.turn(601)
        await until(lambda: len(answers_in(yard, session)) == 2)
        assert await refused(late) == (404, "not_found", True)
        said = [(each.id, each.option, each.by) for each in answers_in(yard, session)]
        assert said == [(first, "allow_once", "tester"), (late, "reject_once", "time limit")]
        await until(lambda: yard.ostler.find_turn(turn).state == "running")


async def test_a_cancelled_turn_asks_no_longer(yard: Yard) -> None:
    session, turn = await begun(yard)
    ask = (await open_ask(yard, turn))["id"]
    assert (await yard.client.post(f"/api/turns/{turn}/cancel")).status_code == 202
    assert (await ended(yard, turn))["outcome"] == "cancelled"
    assert (await say(yard, turn, ask=ask, option="allow")).status_code == 404
    assert (await yard.client.get(f"/api/sessions/{session}")).json()["ask"] is None
    assert not (yard.folder / "asked.txt").exists()


async def test_a_running_turn_is_told_more(yard: Yard) -> None:
    session, turn = await begun(yard, asking() + "[[hear]]")
    answer = await yard.client.post(f"/api/turns/{turn}/steer", json={"text": "and tea"})
    assert (answer.status_code, answer.content) == (204, b"")
    async with yard.as_("view") as viewer:
        assert (await viewer.post(f"/api/turns/{turn}/steer", json={"text": "or not"})).status_code == 403
    assert len(yard.ostler.open_asks(turn)) == 1, "a word on the way is no answer"
    assert (await say(yard, turn, ask=(await open_ask(yard, turn))["id"], option="deny")).status_code == 204
    assert (await ended(yard, turn))["outcome"] == "done"
    assert (await yard.client.get(f"/api/turns/{turn}/envelope")).json()["text"] == "and tea"
    told = [event.text for event in yard.ostler.events(session) if isinstance(event, Notice)]
    assert told == ["steered by tester: and tea"]


async def test_steering_where_it_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "deaf.toml").write_text("steers = false\n")
    async with yard_at(tmp_path, env={"OSTLER_SCENARIO": str(tmp_path / "deaf.toml")}) as yard:
        await refuse_steering(yard)


async def refuse_steering(yard: Yard) -> None:
    _, turn = await begun(yard)
    refused = await yard.client.post(f"/api/turns/{turn}/steer", json={"text": "and tea"})
    assert (refused.status_code, refused.json()["kind"]) == (422, "unsupported")
    session = (await make(yard))["id"]
    piped = (await start(yard, session, prompt="[[never_end]]")).json()
    assert piped["transport"] == "pipe"
    refused = await yard.client.post(f"/api/turns/{piped['id']}/steer", json={"text": "and tea"})
    assert (refused.status_code, refused.json()["kind"]) == (422, "unsupported")
    for body in ({}, {"text": ""}, {"text": 1}, {"text": "a", "more": 1}):
        assert (await yard.client.post(f"/api/turns/{turn}/steer", json=body)).status_code == 400
    assert (await yard.client.post("/api/turns/nobody/steer", json={"text": "a"})).status_code == 404
    await yard.client.post(f"/api/turns/{piped['id']}/cancel")
    await ended(yard, piped["id"])
    late = await yard.client.post(f"/api/turns/{piped['id']}/steer", json={"text": "a"})
    assert (late.status_code, late.json()["kind"]) == (404, "not_found")


async def test_which_agents_hold_dialogs(yard: Yard) -> None:
    reports = {each["name"]: each for each in (await yard.client.get("/api/agents")).json()["items"]}
    assert {name for name, each in reports.items() if each["dialog"]} == {
        name for name, agent in AGENTS.items() if agent.dialog
    }
    assert reports["claude"]["dialog"] and reports["script"]["dialog"]
    assert [name for name, each in reports.items() if each["steer"]] == ["codex", "script"]
    session = (await make(yard))["id"]
    assert (await start(yard, session, transport="telegraph")).status_code == 400
    assert (await start(yard, session, transport="auto")).json()["transport"] == "dialog"


async def test_the_page_is_told_of_each_ask(yard: Yard) -> None:
    """Two asks, one after the other: the state does not change between them, the ask does."""
    edit = asking(input={"path": "/tmp/x"}, title="Edit x", diff="+1")
    session, turn = await begun(yard, asking(title="first") + edit)
    async with yard.client.stream("GET", "/api/live") as live:
        lines = live.aiter_lines()

        async def told(title: str | None) -> dict[str, Any]:
            async for line in lines:
                row = json.loads(line[6:]) if line.startswith("data: ") else {}
                if row.get("id") == session and (row["ask"] and row["ask"]["title"]) == title:
                    return dict(row)
            raise AssertionError("the stream ended")

        first = (await told("touch asked.txt"))["ask"]
        assert (await say(yard, turn, ask=first["id"], option="allow")).status_code == 204
        second = (await told("Edit x"))["ask"]
        assert second["id"] != first["id"] and second["whole"] is False
        assert (await say(yard, turn, ask=second["id"], option="deny")).status_code == 204
        assert (await told(None))["asks"] == 0


async def test_an_ask_stays_on_its_tile_however_much_is_said_after_it(yard: Yard) -> None:
    """It once was sought among the last 2,000 events."""
    session, store = (await make(yard))["id"], yard.ostler.store
    turn = Turn(id="t1", session=session, agent="script", prompt="go", folder="/", transport="dialog")
    row = TurnRow(id="t1", session=session, state="starting", turn=turn, created_at=1.0, owner=yard.ostler.desk.id)
    await store.begin_turn(row)
    await store.change_turn("t1", "asking")
    ask = Asked(seq=1, at=1.0, turn="t1", id="a1", tool="shell", input={"command": "ls"})
    await store.append(session, [ask, *(Text(seq=seq, turn="t1", text="x") for seq in range(2, 2_502))])
    view = (await yard.client.get(f"/api/sessions/{session}")).json()
    assert (view["asks"], view["ask"] and view["ask"]["title"]) == (1, "ls")
    assert (await open_ask(yard, "t1"))["id"] == "a1"
    gone = Problem(kind="crashed", message="gone")
    await store.end_turn("t1", last=[], envelope=unwatched_envelope(row, "crashed", gone, None))
    view = (await yard.client.get(f"/api/sessions/{session}")).json()
    assert (view["asks"], view["ask"], yard.ostler.open_asks("t1")) == (0, None, [])
