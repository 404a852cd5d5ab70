"""A turn has the settings of its folder, whatever folder the server was started in; trusted ones or not."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ostler.model import Answered, Notice, Text
from ostler.settings import digest, record_trust, trust_file
from server.conftest import Yard, yard_at
from server.test_turns import ended

SECRET = "a secret thing that nobody guesses"
PROFILE = """
[profiles.reviewer]
agent = "claude"
model = "opus"
description = "Reads, and says what is wrong"
color = "magenta"
system = "Be strict."
access = "write"

[profiles.orphan]
agent = "nobody-has-this"
"""


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with yard_at(tmp_path, env={"MY_THING": SECRET}) as yard:
        yield yard


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Another one than that of the server."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    return path


def write(yard: Yard, folder: Path, settings: str, trusted: bool = False) -> None:
    path = folder / "ostler.toml"
    path.write_text(settings)
    if trusted:
        record_trust(trust_file(yard.ostler.setup.environ), str(path), digest(path.read_bytes()))


async def session_in(yard: Yard, folder: Path, agent: str = "claude", **fields: Any) -> dict[str, Any]:
    answer = await yard.client.post("/api/sessions", json={"agent": agent, "folder": str(folder), **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def turn_in(yard: Yard, session: str, prompt: str = "[[say:hello]]", **fields: Any) -> dict[str, Any]:
    """The envelope of a turn."""
    answer = await yard.client.post(f"/api/sessions/{session}/turns", json={"prompt": prompt, **fields})
    assert answer.status_code == 202, answer.text
    return await ended(yard, answer.json()["id"])


async def test_a_rule_for_asks_holds(yard: Yard, folder: Path) -> None:
    ask = {"tool": "shell", "input": {"command": "touch asked.txt"}, "then": [{"run": "touch asked.txt"}]}
    write(yard, folder, '[[asks]]\nanswer = "deny"\ntool = "shell"\n')
    session = (await session_in(yard, folder, access="full"))["id"]
    await turn_in(yard, session, f"[[ask:{json.dumps(ask)}]]", transport="dialog")
    [answered] = [event for event in yard.ostler.events(session) if isinstance(event, Answered)]
    assert answered.option == "reject_once" and not (folder / "asked.txt").exists()


async def test_tool_lists_hold_and_a_change_counts_from_the_next_turn_on(yard: Yard, folder: Path) -> None:
    session = (await session_in(yard, folder))["id"]
    for settings in ("", 'tools_denied = ["web"]\n', 'tools_denied = ["shell", "web"]\n'):
        write(yard, folder, settings)
        await turn_in(yard, session)
    write(yard, folder, 'tools_allowed = ["read"]\n', trusted=True)
    await turn_in(yard, session)
    (folder / "ostler.toml").unlink()
    await turn_in(yard, session)
    turns = [row.turn for row in yard.ostler.store.turns(session)]
    assert [turn.tools_denied for turn in turns] == [(), ("web",), ("shell", "web"), (), ()]
    assert [turn.tools_allowed for turn in turns] == [(), (), (), ("read",), ()]


async def test_limits_hold_also_beside_those_of_the_request(yard: Yard, folder: Path) -> None:
    write(yard, folder, "[limits]\ntotal = 0.3\n")
    session = (await session_in(yard, folder))["id"]
    assert (await turn_in(yard, session, "[[never_end]]"))["outcome"] == "timed_out"
    assert (await turn_in(yard, session, "[[never_end]]", limits={"idle": 100}))["outcome"] == "timed_out"


async def test_what_is_to_be_redacted_is(yard: Yard, folder: Path) -> None:
    said = f"[[say:it is {SECRET}]]"
    plain = (await session_in(yard, folder))["id"]
    await turn_in(yard, plain, said)
    write(yard, folder, 'redact = ["MY_THING"]\n')
    masked = (await session_in(yard, folder, name="masked"))["id"]
    await turn_in(yard, masked, said)
    texts = {
        session: [event.text for event in yard.ostler.events(session) if isinstance(event, Text)]
        for session in (plain, masked)
    }
    assert SECRET in texts[plain][0] and SECRET not in texts[masked][0]
    row = yard.ostler.store.turns(masked)[0]
    assert SECRET not in row.turn.prompt and SECRET not in str(row.envelope)


async def test_the_profiles_of_a_trusted_folder_are_offered_and_used(yard: Yard, folder: Path) -> None:
    write(yard, folder, 'default_agent = "reviewer"\n' + PROFILE, trusted=True)
    offered = (await yard.client.get("/api/agents", params={"folder": str(folder)})).json()
    assert (offered["default_agent"], offered["notices"]) == ("reviewer", [])
    assert offered["profiles"] == [
        {
            "name": "reviewer",
            "agent": "claude",
            "model": "opus",
            "description": "Reads, and says what is wrong",
            "color": "magenta",
            "access": "write",
        },
        {"name": "orphan", "agent": "", "model": None, "description": "", "color": "", "access": None},
    ]
    assert (await yard.client.get("/api/agents")).json()["profiles"] == []
    session = await session_in(yard, folder, "reviewer")
    assert (session["profile"], session["agent"], session["access"]) == ("reviewer", "claude", "write")
    await turn_in(yard, session["id"])
    [row] = yard.ostler.store.turns(session["id"])
    assert (row.turn.model, row.turn.system, row.turn.access) == ("opus", "Be strict.", "write")
    elsewhere = await yard.client.post("/api/sessions", json={"agent": "reviewer", "folder": str(yard.folder)})
    assert elsewhere.status_code == 404


async def test_what_needs_trust_does_not_count_and_the_turn_says_so(yard: Yard, folder: Path) -> None:
    write(yard, folder, 'access = "full"\ntools_denied = ["web"]\n' + PROFILE)
    offered = (await yard.client.get("/api/agents", params={"folder": str(folder)})).json()
    assert offered["profiles"] == []
    [told] = offered["notices"]
    assert "is not trusted" in told and "access" in told and "profiles.reviewer" in told
    refused = await yard.client.post("/api/sessions", json={"agent": "reviewer", "folder": str(folder)})
    assert refused.status_code == 404
    session = await session_in(yard, folder)
    assert session["access"] == "read"
    await turn_in(yard, session["id"])
    notices = [event for event in yard.ostler.events(session["id"]) if isinstance(event, Notice)]
    assert [(notice.code, notice.text, notice.quiet) for notice in notices] == [("settings", told, False)]
    assert yard.ostler.store.turns(session["id"])[0].turn.tools_denied == ("web",)


async def test_a_session_does_not_go_on_without_its_profile(yard: Yard, folder: Path) -> None:
    """It would have neither the limits nor the denied tools of it any more."""
    write(yard, folder, PROFILE, trusted=True)
    session = await session_in(yard, folder, "reviewer")
    write(yard, folder, "# changed\n" + PROFILE)
    answer = await yard.client.post(f"/api/sessions/{session['id']}/turns", json={"prompt": "[[say:hello]]"})
    assert (
        answer.status_code == 404 and "uses the profile 'reviewer'" in answer.text and "is not trusted" in answer.text
    )
    assert yard.ostler.store.turns(session["id"]) == []
    write(yard, folder, PROFILE, trusted=True)
    await turn_in(yard, session["id"])
    assert [row.turn.system for row in yard.ostler.store.turns(session["id"])] == ["Be strict."]


async def test_agents_of_a_trusted_folder_are_known_there_alone(yard: Yard, folder: Path) -> None:
    write(yard, folder, '[acp]\nmine = ["my-agent"]\n', trusted=True)
    there = (await yard.client.get("/api/agents", params={"folder": str(folder)})).json()["items"]
    here = (await yard.client.get("/api/agents", params={"folder": str(yard.folder)})).json()["items"]
    assert "mine" in {report["name"] for report in there} and "mine" not in {report["name"] for report in here}
    assert (await session_in(yard, folder, "mine"))["agent"] == "mine"
    refused = await yard.client.post("/api/sessions", json={"agent": "mine", "folder": str(yard.folder)})
    assert refused.status_code == 404


async def test_what_belongs_to_the_server_stays_its_own(yard: Yard, folder: Path) -> None:
    write(yard, folder, 'state = "project"\nport = 1\n', trusted=True)
    session = (await session_in(yard, folder))["id"]
    assert (await turn_in(yard, session))["outcome"] == "done"
    assert not (folder / ".ostler").exists()
    settings = yard.ostler.setup_in(str(folder)).settings
    assert (settings.home, settings.port) == (yard.ostler.settings.home, yard.ostler.settings.port)


async def test_a_broken_file_is_told_and_nothing_is_begun(yard: Yard, folder: Path) -> None:
    session = (await session_in(yard, folder))["id"]
    write(yard, folder, "tools_denied = [\n")
    answer = await yard.client.post(f"/api/sessions/{session}/turns", json={"prompt": "hello"})
    assert answer.status_code == 400 and f"{folder}/ostler.toml:" in answer.text
    assert yard.ostler.store.turns(session) == []
    answer = await yard.client.get("/api/agents", params={"folder": str(folder)})
    assert answer.status_code == 400


async def test_looking_at_a_folder_needs_the_right_to_type(yard: Yard, folder: Path) -> None:
    async with yard.as_("view") as viewer:
        assert (await viewer.get("/api/agents")).status_code == 200
        assert (await viewer.get("/api/agents", params={"folder": str(folder)})).status_code == 403
    for path, status in (("relative", 400), (str(folder / "gone"), 404)):
        assert (await yard.client.get("/api/agents", params={"folder": path})).status_code == status
