"""The turn that comes of what was asked for: the turn's own options, then the session, its profile, the settings."""

import re
import uuid
from typing import Any

import pytest
from msgspec import structs

from ostler.errors import OstlerError
from ostler.model import Attachment, Limits, McpServer, Session, SystemMode, Turn, TurnDefaults, TurnOptions
from ostler.settings import McpEntry, Profile, Settings
from ostler.work.turns.options import (
    check_options,
    conversation_of,
    is_new_system,
    limits_of,
    merged,
    resolve_turn,
    taken_over,
)

ROW = Session(id="k3", agent="claude", folder="/w", created_at=1.0, used_at=1.0)
PROFILED = structs.replace(ROW, profile="reviewer")
PROFILE = Profile(
    agent="claude",
    system="be kind",
    limits=Limits(total=60.0),
    tools_allowed=("read",),
    tools_denied=("web", "shell"),
    fallback=("codex",),
    mcp=("db",),
)
SETTINGS = Settings(
    profiles={"reviewer": PROFILE, "bare": Profile()},
    limits=Limits(total=900.0),
    tools_allowed=("search",),
    tools_denied=("shell", "edit"),
    fallback=("gemini",),
    mcp={"db": McpEntry(command="db-server", args=("-x",))},
)


def made(options: TurnOptions, row: Session = ROW, settings: Settings = SETTINGS) -> Turn:
    """The turn without what is new each time: its own id, and that of a new conversation."""
    turn = resolve_turn("go", options, row, settings)
    assert re.fullmatch(r"k3-[0-9a-f]{10}", turn.id)
    if not turn.resume:
        assert uuid.UUID(turn.agent_session or "").version == 4
        turn = structs.replace(turn, agent_session=None)
    return structs.replace(turn, id="")


def plain(**changes: Any) -> Turn:
    whole = {"id": "", "session": "k3", "agent": "claude", "prompt": "go", "folder": "/w", "transport": "pipe"}
    return Turn(**{**whole, **changes})


def test_nothing_is_asked_for() -> None:
    assert made(TurnOptions(), settings=Settings()) == plain()
    assert made(TurnOptions()) == plain(
        limits=Limits(total=900.0), tools_allowed=("search",), tools_denied=("shell", "edit"), fallback=("gemini",)
    )


def test_a_profile_counts_before_the_settings_and_denials_add_up() -> None:
    assert made(TurnOptions(), PROFILED) == plain(
        profile="reviewer",
        system="be kind",
        limits=Limits(total=60.0),
        tools_allowed=("read",),
        tools_denied=("shell", "edit", "web"),
        fallback=("codex",),
        mcp=(McpServer(name="db", command="db-server", args=("-x",)),),
    )


@pytest.mark.parametrize("profile", ["bare", "gone", None])
def test_a_profile_that_is_empty_or_gone_changes_nothing(profile: str | None) -> None:
    turn = made(TurnOptions(), structs.replace(ROW, profile=profile))
    assert turn == structs.replace(made(TurnOptions()), profile=profile)


def test_what_the_turn_asks_for_counts_most() -> None:
    row = structs.replace(PROFILED, access="write", model="m-session", system="be brief")
    server = McpServer(name="mine", command="x")
    options = TurnOptions(
        access="full",
        model="m-turn",
        system="be bold",
        tools_allowed=("edit",),
        tools_denied=("fetch", "web"),
        attachments=("a.txt", Attachment(name="n", content="c")),
        schema={"type": "object"},
        env={"CI": "1"},
        limits=Limits(total=5.0),
        fallback=("qwen",),
        command=True,
        mode="plan",
        mcp=(server,),
        transport="dialog",
    )
    assert made(options, row) == plain(
        profile="reviewer",
        access="full",
        model="m-turn",
        system="be bold",
        tools_allowed=("edit",),
        tools_denied=("shell", "edit", "web", "fetch"),  # of settings and profile nothing is taken away
        attachments=(Attachment(path="a.txt"), Attachment(name="n", content="c")),
        schema={"type": "object"},
        env={"CI": "1"},
        limits=Limits(total=5.0),
        fallback=("qwen",),
        command=True,
        mode="plan",
        mcp=(server,),
        transport="dialog",
    )
    session = made(TurnOptions(), row)
    assert (session.access, session.model, session.system) == ("write", "m-session", "be brief")


def test_an_empty_list_is_a_wish_too() -> None:
    turn = made(TurnOptions(tools_allowed=(), fallback=(), mcp=()), PROFILED)
    assert (turn.tools_allowed, turn.fallback, turn.mcp) == ((), (), ())
    assert turn.tools_denied == ("shell", "edit", "web")


@pytest.mark.parametrize(
    ("turns", "allowed", "denied"), [(0, ("ls",), ("shell", "edit", "rm")), (1, ("edit",), ("shell", "edit", "web"))]
)
def test_lists_for_the_first_turn_alone(turns: int, allowed: tuple[str, ...], denied: tuple[str, ...]) -> None:
    options = TurnOptions(
        tools_allowed=("edit",), tools_denied=["web"], first_tools_allowed=["ls"], first_tools_denied=["rm"]
    )
    turn = made(options, structs.replace(ROW, turns=turns))
    assert (turn.tools_allowed, turn.tools_denied) == (allowed, denied)


def test_a_server_that_the_settings_do_not_have() -> None:
    with pytest.raises(OstlerError) as refused:
        resolve_turn("go", TurnOptions(), PROFILED, structs.replace(SETTINGS, mcp={}))
    assert (refused.value.kind, refused.value.message) == ("not_found", "the settings have no MCP server 'db'")


# -- conversations ----------------------------------------------------------------------------------


def test_a_conversation_is_resumed_copied_or_new() -> None:
    resumed = structs.replace(ROW, agent_session="A", fork_of="B")
    assert conversation_of(resumed) == {"agent_session": "A", "resume": True, "fork": False}
    copied = structs.replace(ROW, fork_of="B")
    assert conversation_of(copied) == {"agent_session": "B", "resume": True, "fork": True}
    new, other = conversation_of(ROW), conversation_of(ROW)
    assert new == {"agent_session": new["agent_session"], "resume": False, "fork": False}
    assert new["agent_session"] != other["agent_session"]


def test_who_takes_over_begins_anew_and_hears_the_system_prompt() -> None:
    later = plain(agent_session="A", resume=True, fork=True, first=False, model="opus", system="be kind")
    turn = taken_over(later, "codex", "gpt")
    assert turn.agent_session not in ("A", None)
    assert structs.replace(turn, agent_session=None) == plain(
        agent="codex", model="gpt", resume=False, fork=False, first=True, system="be kind"
    )
    assert taken_over(later, "codex", None).model is None


@pytest.mark.parametrize(
    ("row", "system", "mode", "tells"),
    [
        (ROW, None, "append", True),
        (structs.replace(ROW, turns=1), None, "append", False),
        (structs.replace(ROW, turns=1), "be kind", "append", True),  # another one than before
        (structs.replace(ROW, turns=1, system="be kind"), "be kind", "append", False),
        (structs.replace(ROW, turns=1, system="be kind"), "be kind", "replace", True),
        (structs.replace(ROW, turns=1, system="be kind"), None, "append", True),
        (structs.replace(PROFILED, turns=1), "be kind", "append", False),
        (structs.replace(PROFILED, turns=1, system="be brief"), "be kind", "append", True),
    ],
)
def test_a_system_prompt_is_told_once(row: Session, system: str | None, mode: SystemMode, tells: bool) -> None:
    assert is_new_system(row, system, mode, SETTINGS) is tells


KIND = structs.replace(ROW, system="be kind", system_mode="replace")
SHARP = Settings(profiles={"reviewer": Profile(system="be sharp", system_mode="replace")})


@pytest.mark.parametrize(
    ("options", "row", "system", "mode"),
    [
        ({}, ROW, None, "append"),
        ({"system": "be brief"}, ROW, "be brief", "append"),
        ({"system": "be brief", "system_mode": "replace"}, ROW, "be brief", "replace"),
        ({}, KIND, "be kind", "replace"),
        ({"system_mode": "append"}, KIND, "be kind", "append"),
        ({"system": "be brief"}, KIND, "be brief", "append"),  # a mode goes with its prompt
        ({}, PROFILED, "be sharp", "replace"),
        ({"system": "be brief"}, PROFILED, "be brief", "append"),
        ({}, structs.replace(PROFILED, system="be kind"), "be kind", "append"),
    ],
)
def test_the_mode_of_a_system_prompt(options: Any, row: Session, system: str | None, mode: SystemMode) -> None:
    turn = resolve_turn("go", TurnOptions(**options), row, SHARP)
    assert (turn.system, turn.system_mode) == (system, mode)


def test_nothing_cannot_replace_a_system_prompt() -> None:
    with pytest.raises(OstlerError, match="a system mode needs a system prompt") as caught:
        resolve_turn("go", TurnOptions(system_mode="replace"), ROW, SETTINGS)
    assert caught.value.kind == "bad_request"


def test_a_session_that_is_opened_again_says_prompt_and_mode() -> None:
    opened = TurnDefaults(system="be sharp", system_mode="replace")
    asked = merged(TurnOptions(), opened)
    assert (asked.system, asked.system_mode) == ("be sharp", "replace")
    asked = merged(TurnOptions(system="be brief"), opened)
    assert (asked.system, asked.system_mode) == ("be brief", None)
    asked = merged(TurnOptions(system_mode="append"), opened)
    assert (asked.system, asked.system_mode) == ("be sharp", "append")


def test_first_lists_and_variables_of_a_profile() -> None:
    profile = Profile(
        tools_allowed=("read",),
        tools_denied=("web",),
        first_tools_allowed=("search",),
        first_tools_denied=(),
        env={"A": "1", "B": "2"},
    )
    settings = Settings(profiles={"reviewer": profile}, tools_denied=("edit",))
    first = resolve_turn("go", TurnOptions(env={"B": "3"}), PROFILED, settings)
    assert (first.tools_allowed, first.tools_denied, first.env) == (("search",), ("edit",), {"A": "1", "B": "3"})
    later = resolve_turn("go", TurnOptions(), structs.replace(PROFILED, turns=1), settings)
    assert (later.tools_allowed, later.tools_denied) == (("read",), ("edit", "web"))
    own = resolve_turn("go", TurnOptions(tools_allowed=("shell",), tools_denied=("web",)), PROFILED, settings)
    assert (own.tools_allowed, own.tools_denied) == (("shell",), ("edit", "web"))


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"tools_denied": ("",)}, "bad_request", "tools_denied: '' is not a name"),
        ({"first_tools_allowed": ("a\nb",)}, "bad_request", "first_tools_allowed"),
        ({"env": {"1A": "x"}}, "bad_request", "'1A' cannot be the name of a variable"),
        ({"env": {"A=B": "x"}}, "bad_request", "cannot be the name of a variable"),
        ({"env": {"A": "x\0"}}, "bad_request", "the variable A"),
        ({"system": "x\0"}, "bad_request", "NUL"),
        ({"model": 5}, "bad_request", "model: Expected str"),
        ({"priority": "high"}, "bad_request", "priority: Expected int"),
        ({"hooks": "maybe"}, "bad_request", "hooks: "),
        ({"fallback": ("nobody",)}, "not_found", "nobody"),
    ],
)
def test_what_is_wrong_with_options_is_told_before_a_turn_begins(options: Any, kind: str, said: str) -> None:
    with pytest.raises(OstlerError, match=re.escape(said)) as caught:
        check_options(TurnOptions(**options), SETTINGS)
    assert caught.value.kind == kind


def test_a_turn_asks_for_a_transport() -> None:
    assert made(TurnOptions()).transport == "pipe"
    assert made(TurnOptions(transport="dialog")).transport == "dialog"


# -- options of a session ----------------------------------------------------------------------------


def test_options_of_a_session_stand_behind_those_of_the_turn() -> None:
    session = TurnDefaults(access="write", model="m", system="be kind", env={"A": "1"})
    assert merged(TurnOptions(), session) == TurnOptions(access="write", model="m", system="be kind", env={"A": "1"})
    own = TurnOptions(access="read", model="n", system="be bold", mode="plan", env={})
    assert merged(own, session) == own
    assert merged(own, TurnDefaults()) == own


def test_limits_are_those_of_the_profile_or_the_settings_with_changes() -> None:
    assert limits_of(ROW, SETTINGS) == Limits(total=900.0)
    assert limits_of(PROFILED, SETTINGS) == Limits(total=60.0)
    assert limits_of(PROFILED, SETTINGS, idle=5.0, total=None) == Limits(idle=5.0)
