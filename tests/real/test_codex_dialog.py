"""codex's own ways in a dialog: patches, steering, and an access that holds against rules and answers."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from ostler.model import Answered, Asked, Attachment, Notice, ThoughtDelta, ToolEnded
from ostler.work.dialogs.asks import AskAnswer
from real.yard import Yard
from waiting import until

pytestmark = [pytest.mark.parametrize("agent", ["codex"]), pytest.mark.timeout(240)]

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["answer", "n"],
    "additionalProperties": False,
}
# One pixel.
IMAGE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100"
    "c9fe92ef0000000049454e44ae426082"
)


async def turn(o, live, prompt, option="allow", **options):
    """Runs a turn and answers whatever it asks of a person."""
    events = []
    async for event in live.run(prompt, transport="dialog", **options):
        events.append(event)
        if isinstance(event, Asked) and event.id in {ask.id for ask in o.open_asks(event.turn)}:
            await o.answer(live.id, AskAnswer(ask=event.id, option=option, by="a person"))
    return live.last, events


def patch(*lines: str) -> str:
    body = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    return f"[[tool:apply_patch:{body}]]"


def command(**arguments: object) -> str:
    return f"[[tool:exec_command:{json.dumps(arguments)}]]"


def asked(events):
    return [event for event in events if isinstance(event, Asked)]


async def test_a_patch_is_asked_for_with_its_diff(yard: Yard) -> None:
    edit = patch("*** Update File: README.md", "@@", "-# A project", "+# A stable", "*** Add File: hay.txt", "+dry")
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        envelope, events = await turn(o, live, edit, "deny")
        assert envelope.ok and envelope.files == ()
        assert [d.access for d in envelope.denied] == [None]  # by a person: no access would help
        ended = next(e for e in events if isinstance(e, ToolEnded))
        assert (ended.ok, ended.denied, ended.diff) == (False, True, "")
        envelope, events = await turn(o, live, edit)
        assert [(f.path.rsplit("/", 1)[-1], f.change) for f in asked(events)[0].files] == [
            ("README.md", "update"),
            ("hay.txt", "add"),
        ]
        for diff in (asked(events)[0].diff, next(e.diff for e in events if isinstance(e, ToolEnded))):
            assert "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-# A project\n+# A stable\n" in diff
            assert "--- /dev/null\n+++ b/hay.txt\n@@ -0,0 +1 @@\n+dry\n" in diff
        assert {c.path for c in envelope.files} == {"README.md", "hay.txt"}


async def test_always_lasts_for_the_session_and_writes_no_rules(yard: Yard) -> None:
    config = (yard.home / ".codex" / "config.toml").read_bytes()
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        for number in range(2):
            envelope, events = await turn(o, live, "[[shell:date >> log.txt]]", "always")
            assert envelope.ok
            assert [(a.option, a.by) for a in events if isinstance(a, Answered)] == (
                [("allow_always", "a person")] if number == 0 else []
            )
        _, events = await turn(o, live, "[[shell:date >> other.txt]]", "deny")
        assert len(asked(events)) == 1
    assert len((yard.folder / "log.txt").read_text().splitlines()) == 2
    assert not (yard.folder / "other.txt").exists()
    assert not list((yard.home / ".codex").rglob("*.rules"))
    assert (yard.home / ".codex" / "config.toml").read_bytes() == config


async def test_a_running_turn_is_told_more(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        running = asyncio.create_task(turn(o, live, "[[hold:gate]]"))
        await until(lambda: any(x.held for x in yard.model.requests))
        await o.steer(live.id, "and more oats")
        yard.model.release("gate")
        await running
        assert live.last.ok, live.last
        assert "and more oats" in yard.model.asked[-1].text


async def test_another_model_in_the_same_process(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        pids = set()
        for model in (None, "gpt-5.4", None):
            yard.model.requests.clear()
            envelope, _ = await turn(o, live, "hello", model=model)
            assert envelope.ok, envelope
            assert {x.body["model"] for x in yard.model.asked} == {model or ("gpt-5.5" if not pids else "gpt-5.4")}
            pids.add(o.dialogs._live[live.id].dialog.process.pid)
        assert len(pids) == 1


async def test_schema_system_prompt_image_thoughts_and_tokens(yard: Yard) -> None:
    (yard.folder / "dot.png").write_bytes(IMAGE)
    async with yard.ostler() as o:
        live = await yard.session(o, system="Answer like an ostler of the Golden Lion")
        envelope, events = await turn(o, live, "[[think:of hay]]")
        assert "".join(e.text for e in events if isinstance(e, ThoughtDelta)) == "of hay"
        assert all("an ostler of the Golden Lion" in x.text for x in yard.model.asked)
        assert (envelope.usage.input_tokens, envelope.usage.output_tokens) == (1234, 56)
        image = Attachment(path=str(yard.folder / "dot.png"), image=True)
        yard.model.scenario = "schema"
        envelope, _ = await turn(o, live, "by the schema", schema=SCHEMA, attachments=(image,))
        assert envelope.ok and set(envelope.structured) == {"answer", "n"}, envelope
        assert "input_image" in json.dumps(yard.model.asked[-1].body)
        assert (envelope.usage.input_tokens, envelope.usage.output_tokens) == (1234, 56)  # of this turn alone


async def test_a_fork_begins_as_a_copy(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        await turn(o, live, "remember the word palomino")
        fork = await live.fork()
        yard.model.requests.clear()
        envelope, _ = await turn(o, fork, "which word was it?")
        assert envelope.ok, envelope
        assert envelope.agent_session not in (None, live.last.agent_session)
    assert any("palomino" in x.text and "which word was it?" in x.text for x in yard.model.asked)


async def test_read_holds_where_the_users_rules_allow_all(yard: Yard, permissive: bool) -> None:
    before = listing(yard)
    async with yard.ostler() as o:
        live = await yard.session(o, access="read")
        for prompt in (
            "[[shell:touch app.py]]",
            f"[[shell:touch {yard.home}/app.py]]",
            command(cmd="touch app.py", sandbox_permissions="require_escalated", justification="please"),
            patch("*** Add File: app.py", "+x"),
        ):
            envelope, events = await turn(o, live, prompt)
            assert asked(events) == []
            assert [d.tool for d in envelope.denied] == ["file_change" if "Patch" in prompt else "command_execution"]
            assert [e.denied for e in events if isinstance(e, ToolEnded)] == [True]
    assert listing(yard) == before


async def test_write_stays_in_the_folder_whatever_rules_and_people_allow(yard: Yard, permissive: bool) -> None:
    outside = yard.home / "outside.txt"
    (yard.folder / "link").symlink_to(yard.home)
    session = ""
    for _ in range(2):  # a new thread, then one that is resumed in another process
        async with yard.ostler() as o:
            live = await (o.session(session=session) if session else yard.session(o, access="write"))
            session = live.id
            envelope, events = await turn(o, live, f"[[shell:touch {outside}]]")  # by a rule
            assert asked(events) == []
            await turn(o, live, f"[[shell:mkdir -p {outside}]]", "always")  # by a person
            through_a_link = patch("*** Add File: link/outside.txt", "+x")
            await turn(o, live, through_a_link, "always")
            shell = "apply_patch <<'EOF'\n" + through_a_link[len("[[tool:apply_patch:") : -2] + "\nEOF"
            await turn(o, live, command(cmd=shell, sandbox_permissions="require_escalated"), "always")
            for prompt in (
                command(cmd=f"mkdir {outside}", sandbox_permissions="require_escalated"),
                command(cmd=f"mkdir {outside}", sandbox_permissions="require_escalated", justification="please"),
                patch(f"*** Add File: {outside}", "+x"),
                patch("*** Add File: ../home/outside.txt", "+x"),
                patch("*** Add File: .git/hooks/post-commit", "+x"),
                patch("*** Update File: README.md", f"*** Move to: {outside}", "@@", "-# A project", "+# A stable"),
            ):
                envelope, events = await turn(o, live, prompt, "always")
                assert asked(events) == [], prompt
                assert [d.access for d in envelope.denied] == ["full"], (prompt, envelope)
                assert [e.code for e in events if isinstance(e, Notice) and e.code == "denied"] == ["denied"]
                assert [e.denied for e in events if isinstance(e, ToolEnded)] == [True]
            assert not outside.exists()
            assert not (yard.folder / ".git" / "hooks" / "post-commit").exists()
            envelope, events = await turn(o, live, "[[shell:mkdir -p made; echo x >> made/it.txt]]")
            assert len(asked(events)) == 1
    assert (yard.folder / "made" / "it.txt").read_text() == "x\nx\n"


async def test_an_interrupt_ends_a_command_in_the_sandbox(yard: Yard) -> None:
    mark = f"sleep 96{os.getpid()}"
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        async for event in live.run(f"[[shell:touch began; {mark}]]", transport="dialog"):
            if isinstance(event, Asked):
                await o.answer(live.id, AskAnswer(ask=event.id, option="allow"))
                await until((yard.folder / "began").exists)
                await o.cancel(live.id)
        assert live.last.outcome == "cancelled"
        await until(lambda: not running(mark))
        envelope, _ = await turn(o, live, "go on")
        assert envelope.ok, envelope


def listing(yard: Yard) -> dict[str, bytes]:
    places = [*yard.folder.rglob("*"), *(p for p in yard.home.iterdir() if p.name != ".codex")]
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(places) if ".git" not in p.parts}


def running(command: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if command in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"):
                return True
        except OSError:
            continue
    return False
