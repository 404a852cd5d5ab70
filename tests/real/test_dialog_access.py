"""What dialogs of agents that speak ACP or stream-json keep to, each by its real CLI against the scripted model."""

import base64

import pytest

from needs import is_met
from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Asked, Attachment, Ended, Envelope, Text, ToolEnded, ToolStarted
from ostler.testing.answers import FINAL
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from real.yard import PIXEL, Yard

AGENTS = ("gemini", "qwen", "opencode", "copilot", "gemini-acp", "qwen-acp")
pytestmark = [pytest.mark.parametrize("agent", AGENTS), pytest.mark.timeout(240)]


async def turn(
    o: Ostler, live: LiveSession, prompt: str, option: str = "allow", **more: object
) -> tuple[Envelope, list[AnyEvent]]:
    """One turn in a dialog; what it asks is answered so."""
    events: list[AnyEvent] = []
    async for event in live.run(prompt, transport="dialog", **more):  # type: ignore[arg-type]
        events.append(event)
        if isinstance(event, Asked) and event.id in {ask.id for ask in o.open_asks(event.turn)}:
            await o.answer(live.id, AskAnswer(ask=event.id, option=option, by="a person"))
    assert live.last is not None and [type(e) for e in events].count(Ended) == 1
    return live.last, events


async def test_read_holds_where_the_users_settings_allow_all(yard: Yard, permissive: bool) -> None:
    outside = yard.home / "outside.txt"
    async with yard.ostler() as o:
        live = await yard.session(o, access="read")
        for prompt in ("[[write:app.py]]", "[[shell:echo x > app.py]]", f"[[write:{outside}]]"):
            envelope, events = await turn(o, live, prompt)
            assert envelope.outcome in ("done", "failed"), envelope
            assert [e.by for e in events if isinstance(e, Answered) and e.by == "a person"] == []
    assert not (yard.folder / "app.py").exists() and not outside.exists()
    assert len(yard.model.asked) >= 3


async def test_write_asks_for_an_edit_and_keeps_to_the_folder(yard: Yard) -> None:
    outside = yard.home / "outside.txt"
    (yard.folder / "link").symlink_to(yard.home)
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        envelope, events = await turn(o, live, "[[write:app.py]]")
        assert envelope.ok and [(c.path, c.change) for c in envelope.files] == [("app.py", "add")]
        asked = next(e for e in events if isinstance(e, Asked))
        assert asked.diff.endswith("+written by the scripted model\n")
        assert [file.path for file in asked.files] == [str(yard.folder / "app.py")]
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("allow_once", "a person")]
        assert [e.ok for e in events if isinstance(e, ToolEnded)] == [True]
        envelope, events = await turn(o, live, f"[[write:{outside}]]")
        assert [e.by for e in events if isinstance(e, Answered) and e.by == "a person"] == [], events
        # Without a wall it has no shell; behind one a person may say yes, and the kernel still says no.
        envelope, events = await turn(o, live, "[[shell:echo x > shell.txt; echo x > link/outside.txt]]")
        by = {e.by for e in events if isinstance(e, Answered)}
        assert by == {"a person"} if is_met("landlock") else "a person" not in by, events
        await turn(o, live, f"[[write:{yard.folder}/link/outside.txt]]", "always")
    assert (yard.folder / "shell.txt").exists() is is_met("landlock") and not outside.exists()


async def test_always_lasts_for_the_session_and_a_no_is_told(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        before = settings_of(yard)
        for number in range(2):
            envelope, events = await turn(o, live, "[[shell:echo again >> seen.txt]]", "always")
            assert envelope.ok
            by = "an earlier answer" if number else "a person"
            assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("allow_always", by)]
            tool = next(e for e in events if isinstance(e, ToolStarted))
            assert tool.title == "echo again >> seen.txt"
        assert (yard.folder / "seen.txt").read_text() == "again\n" * 2
        envelope, events = await turn(o, live, "[[shell:echo no >> seen.txt]]", "deny")
        assert [d.target for d in envelope.denied] == ["echo no >> seen.txt"]
        assert [e.ok for e in events if isinstance(e, ToolEnded)] == [False]
        assert settings_of(yard) == before
    assert (yard.folder / "seen.txt").read_text() == "again\n" * 2


async def test_what_goes_with_a_prompt(yard: Yard) -> None:
    """Literal slashes, a system prompt, attachments, an image, another model; tokens are those of the turn."""
    (yard.folder / "pixel.png").write_bytes(PIXEL)
    async with yard.ostler() as o:
        live = await yard.session(o, system="You are a zebra.")
        for number, prompt in enumerate(("/compact", "/help me", " /model x")):
            seen = len(yard.model.asked)
            envelope, events = await turn(o, live, prompt)
            assert envelope.ok and [e.text for e in events if isinstance(e, Text)][-1] == FINAL
            asked = [x for x in yard.model.asked[seen:] if prompt.strip() in x.user]
            assert asked, [x.user for x in yard.model.asked[seen:]]
            assert number or any("You are a zebra." in x.text for x in asked)
            if envelope.usage is not None and yard.agent != "qwen":  # qwen thinks on after its answer
                assert envelope.usage.input_tokens == 1234
        notes = Attachment(name="notes.txt", content="the word is palomino")
        image = Attachment(path="pixel.png")
        envelope, events = await turn(o, live, "look", attachments=(notes, image))
        assert envelope.ok, envelope
        body = yard.model.asked[-1].text
        assert "the word is palomino" in body
        if yard.agent in ("gemini", "copilot"):  # the scripted model of opencode takes no images, qwen reads the file
            assert base64.b64encode(PIXEL).decode()[:40] in body.replace("\\/", "/")
        pid = o.dialogs._live[live.id].dialog.process.pid
        if yard.agent in ("gemini", "qwen"):
            envelope, _ = await turn(o, live, "go on", model="gemini-2.5-flash")
            assert envelope.ok and o.dialogs._live[live.id].dialog.process.pid == pid
            said = yard.model.asked[-1]
            assert "gemini-2.5-flash" in f"{said.path} {said.body.get('model')}"
        if yard.agent == "opencode":
            envelope, _ = await turn(o, live, "go on", model="fake/nonesuch")
            assert envelope.error is not None and envelope.error.kind == "bad_request"
            assert "fake/fake-model" in envelope.error.hint


async def test_a_conversation_that_is_gone(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, _ = await turn(o, live, "one")
        gone = {"opencode": "ses_e1e940d51ffebPiRcunhmBVqZi"}.get(yard.agent, "deadbeef-1c9e-4cd9-b548-7cd4c6ce4c5e")
        await o.dialogs.close(live.id)
        live.row = await o.store.change_session(live.id, agent_session=gone)
        try:
            envelope, events = await turn(o, live, "two")
        except OstlerError as error:
            assert error.kind == "not_found"
        else:
            assert envelope.error is not None and envelope.error.kind == "not_found", envelope
            assert not any(isinstance(e, Text) for e in events)


def settings_of(yard: Yard) -> dict[str, bytes]:
    """The files of the user's that an agent might write an allowance into."""
    names = ("settings*.json", "permissions-config.json", "opencode.json", "*.toml")
    found = [path for name in names for place in (yard.home, yard.folder) for path in place.rglob(name)]
    return {str(path): path.read_bytes() for path in found if not {"node_modules", "tmp"} & {*path.parts}}
