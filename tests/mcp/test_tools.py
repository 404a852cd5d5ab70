"""The tools of `ostler mcp`, called as the server calls them; the scripted agent behind them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ostler.access import Access
from ostler.errors import OstlerError
from ostler.mcp.parent_turns import parent_turns
from ostler.mcp.tools import Tools
from ostler.model import Limits
from waiting import until
from work.scripted import Stable


@asynccontextmanager
async def tools_of(stable: Stable, mark: str = "", most: Access = "full") -> AsyncIterator[Tools]:
    async with stable.ostler("mcp", **({"OSTLER_TURN": mark} if mark else {})) as o:
        yield Tools(o, (mark,) if mark else (), most, str(stable.folder))


async def asking(stable: Stable, mark: str = "", **options: Any) -> str:
    """A turn, begun by the agent of another one if a mark is given; its id."""
    async with stable.ostler(**({"OSTLER_TURN": mark} if mark else {})) as o:
        live = await o.session("script", folder=str(stable.folder))
        return (await live.run("go", **{"access": "full", **options})).turn


async def refused(tools: Tools, name: str, **arguments: Any) -> str:
    with pytest.raises(OstlerError) as told:
        await tools.call(name, arguments)
    return told.value.kind


async def test_a_turn_is_started_waited_for_and_read(stable: Stable) -> None:
    async with tools_of(stable) as tools:
        begun = await tools.call("start_turn", {"agent": "script", "prompt": "[[say:done by another]]"})
        ended = await tools.call("wait_turn", {"turn": begun["turn"]})
        assert (ended["state"], ended["envelope"]["status"]) == ("ended", "ok")
        assert "done by another" in ended["envelope"]["text"]
        assert await tools.call("read_turn", {"turn": begun["turn"]}) == ended
        (row,) = (await tools.call("list_sessions", {}))["sessions"]
        assert (row["id"], row["agent"], row["state"]) == (begun["session"], "script", "idle")
        again = await tools.call("start_turn", {"session": row["id"], "prompt": "[[say:more]]", "seconds": 60})
        assert (again["session"], again["envelope"]["text"]) == (row["id"], "more")


async def test_a_turn_that_takes_long_is_told_as_it_is_and_can_be_cancelled(stable: Stable) -> None:
    async with tools_of(stable) as tools:
        begun = await tools.call("start_turn", {"agent": "script", "prompt": "[[never_end]]"})
        told = await tools.call("wait_turn", {"turn": begun["turn"], "seconds": 0.05})
        assert told["state"] in ("starting", "running") and "envelope" not in told
        await tools.call("cancel_turn", {"turn": begun["turn"]})
        ended = await tools.call("wait_turn", {"turn": begun["turn"]})
        assert ended["envelope"]["outcome"] == "cancelled"


async def test_what_is_called_stands_in_the_log_without_its_arguments(
    stable: Stable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "ostler.mcp")
    async with tools_of(stable) as tools:
        begun = await tools.call("start_turn", {"agent": "script", "prompt": "[[say:hello]] privately", "seconds": 60})
    assert [record.getMessage() for record in caplog.records if record.name.startswith("ostler.mcp")] == [
        "the client calls start_turn",
        f"turn {begun['turn']}: delegated to script, access read",
    ]


async def test_agents_are_listed(stable: Stable) -> None:
    async with tools_of(stable, most="write") as tools:
        told = await tools.call("list_agents", {})
        assert {"name": "script", "title": "Scripted agent", "ready": True, "why": ""} in told["agents"]
        assert (told["most_access"], told["may_start"]) == ("write", True)


async def test_what_is_wrong_is_said(stable: Stable) -> None:
    async with tools_of(stable) as tools:
        assert await refused(tools, "start_turn", agent="script") == "bad_request"  # no prompt
        assert await refused(tools, "start_turn", agent="script", prompt="x", env={"A": "b"}) == "bad_request"
        assert await refused(tools, "wait_turn", turn="unknown") == "not_found"
        assert await refused(tools, "sing") == "not_found"


async def test_access_and_folder_are_those_of_the_turn_that_asks_at_most(stable: Stable) -> None:
    (stable.folder / "below").mkdir()
    asker = await asking(stable, access="write")
    async with tools_of(stable, asker) as tools:
        assert await refused(tools, "start_turn", agent="script", prompt="x", access="full") == "denied"
        assert await refused(tools, "start_turn", agent="script", prompt="x", folder="..") == "denied"
        assert await refused(tools, "start_turn", agent="script", prompt="x", folder="/tmp") == "denied"
        fields = {"agent": "script", "prompt": "[[say:x]]", "access": "write", "folder": "below"}
        begun = await tools.call("start_turn", fields)
        assert (await tools.call("wait_turn", {"turn": begun["turn"]}))["access"] == "write"


async def test_a_session_with_more_access_is_narrowed(stable: Stable) -> None:
    async with stable.ostler() as o:
        wide = await o.session("script", folder=str(stable.folder), access="full")
        await wide.run("[[say:x]]")
    asker = await asking(stable, access="read")
    async with tools_of(stable, asker) as tools:
        begun = await tools.call("start_turn", {"session": wide.id, "prompt": "[[say:x]]"})
        assert begun["access"] == "read"
        await tools.call("wait_turn", {"turn": begun["turn"]})


async def test_what_lies_elsewhere_is_not_shown(stable: Stable) -> None:
    elsewhere = stable.folder.parent / "elsewhere"
    elsewhere.mkdir()
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(elsewhere))
        other = (await live.run("[[say:x]]")).turn
    async with tools_of(stable, most="write") as tools:
        assert (await tools.call("list_sessions", {}))["sessions"] == []
        assert await refused(tools, "read_turn", turn=other) == "denied"
        assert await refused(tools, "start_turn", session=live.id, prompt="x") == "denied"


async def test_turns_are_nested_only_so_deep(stable: Stable) -> None:
    first = await asking(stable)
    second = await asking(stable, first)
    third = await asking(stable, second)
    async with tools_of(stable, second) as tools:
        begun = await tools.call("start_turn", {"agent": "script", "prompt": "[[say:x]]"})
        await tools.call("wait_turn", {"turn": begun["turn"]})
        (row,) = [each for each in tools._ostler.store.turns_asked_by(second) if each.id != third]
        assert (row.id, row.turn.depth) == (begun["turn"], 2)
    async with tools_of(stable, third) as tools:
        assert await refused(tools, "start_turn", agent="script", prompt="x") == "denied"
        assert not (await tools.call("list_agents", {}))["may_start"]


async def test_a_dialog_asks_by_the_mark_of_its_session(stable: Stable) -> None:
    first = await asking(stable)
    async with tools_of(stable, first) as tools:
        store = tools._ostler.store
        session = store.turn(first).session  # type: ignore[union-attr]
        assert [row.id for row in parent_turns(store, (session, f"pane-{session}"))] == [first, first]
        with pytest.raises(OstlerError, match="OSTLER_HOME as ostler sets them"):
            parent_turns(store, ("forged",))
        assert await refused(tools, "start_turn", session=session, prompt="x") == "bad_request"


async def test_what_is_delegated_is_paid_from_the_limit_of_the_turn_that_asks(stable: Stable) -> None:
    asker = await asking(stable, limits=Limits(cost_usd=3.0))
    async with tools_of(stable, asker) as tools:
        spends = '[[usage:{"cost_usd": 2.0}]][[say:x]]'
        begun = await tools.call("start_turn", {"agent": "script", "prompt": spends, "max_cost_usd": 9.0})
        store = tools._ostler.store
        assert store.turn(begun["turn"]).turn.limits.cost_usd == 3.0  # type: ignore[union-attr]
        assert await refused(tools, "start_turn", agent="script", prompt=spends) == "over_budget"  # all is taken
        await tools.call("wait_turn", {"turn": begun["turn"]})
        begun = await tools.call("start_turn", {"agent": "script", "prompt": spends})
        assert store.turn(begun["turn"]).turn.limits.cost_usd == 1.0  # type: ignore[union-attr]


async def test_spending_of_the_day_holds(stable: Stable) -> None:
    (stable.home / ".config" / "ostler").mkdir(parents=True)
    (stable.home / ".config" / "ostler" / "config.toml").write_text("[spending]\nday = 1.0\n")
    async with tools_of(stable) as tools:
        begun = await tools.call("start_turn", {"agent": "script", "prompt": '[[usage:{"cost_usd": 2.0}]][[say:x]]'})
        await tools.call("wait_turn", {"turn": begun["turn"]})
        assert await refused(tools, "start_turn", agent="script", prompt="x") == "over_budget"


async def test_what_was_started_ends_with_the_server(stable: Stable) -> None:
    async with tools_of(stable) as tools:
        begun = await tools.call("start_turn", {"agent": "script", "prompt": "[[never_end]]"})
        await until(lambda: tools._ostler.find_turn(begun["turn"]).state == "running")
    async with stable.ostler() as o:
        assert o.find_turn(begun["turn"]).state == "ended"
