"""Dialogs with any ACP agent: the scripted one, named in the settings by its command line."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from needs import needs
from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import (
    Answered,
    Asked,
    Attachment,
    Limits,
    Notice,
    Plan,
    Text,
    TextDelta,
    Thought,
    ToolEnded,
    Usage,
)
from ostler.process import tree
from ostler.testing import Clock
from ostler.work.dialogs.asks import AskAnswer
from waiting import until
from work.acp_yard import SCRIPTED, AcpYard, pid_of, turn
from work.full_disk import full_for_a_moment
from work.scripted import turn_until


@pytest.fixture
def yard(tmp_path: Path) -> AcpYard:
    return AcpYard(tmp_path)


async def test_turns_share_a_process_without_being_told_to(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        pids = set()
        for prompt, said in (
            ("[[say:one]]", "one"),
            ("[[stream:two three]]", "two three"),
            ("[[history]]", "[[say:one]]"),
        ):
            envelope, _ = await turn(o, live, prompt)
            assert (envelope.outcome, envelope.error) == ("done", None)
            assert envelope.text.startswith(said) and envelope.evidence == ("stop reason end_turn",)
            pids.add(pid_of(o, live))
        assert len(pids) == 1
        assert o.store.turns(live.id)[-1].turn.transport == "dialog"
    assert not any(map(tree.identity, pids))


async def test_what_it_tells_becomes_events(yard: AcpYard) -> None:
    plan = '[[plan:[{"text": "look", "status": "done"}, "write"]]]'
    usage = '[[usage:{"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.5}]]'
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, f"[[think:hm so]]{plan}[[run:echo hi; exit 3]]{usage}[[stream:a b]]")
        assert [e.text for e in events if isinstance(e, Thought)] == ["hm so"]
        assert [(s.text, s.status) for e in events if isinstance(e, Plan) for s in e.steps] == [
            ("look", "done"),
            ("write", "pending"),
        ]
        (ended,) = [e for e in events if isinstance(e, ToolEnded)]
        assert (ended.ok, ended.exit_code, ended.output) == (False, 3, "hi\n")
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "a b"
        assert [e.text for e in events if isinstance(e, Text)] == ["a b"]
        assert (envelope.usage, envelope.cost_usd) == (Usage(input_tokens=7, output_tokens=3), 0.5)
        # It tells the cost of the session: the next turn gets its own part.
        envelope, _ = await turn(o, live, '[[usage:{"input_tokens": 1, "cost_usd": 0.75}]][[say:x]]')
        assert (envelope.usage, envelope.cost_usd) == (Usage(input_tokens=1, output_tokens=0), 0.25)


@pytest.mark.parametrize(("option", "kind", "made"), [("allow", "allow_once", True), ("deny", "reject_once", False)])
async def test_an_ask_is_answered_by_kind(yard: AcpYard, option: str, kind: str, made: bool) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, "[[run:touch made.txt]][[say:so]]", option)
        (asked,) = [e for e in events if isinstance(e, Asked)]
        assert (asked.tool, asked.title, asked.input) == ("shell", "touch made.txt", {"command": "touch made.txt"})
        assert [o.kind for o in asked.options] == ["allow_once", "allow_always", "reject_once"]
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [(kind, "a person")]
        assert (yard.folder / "made.txt").exists() is made
        assert [d.target for d in envelope.denied] == ([] if made else ["touch made.txt"])
        assert [e.ok for e in events if isinstance(e, ToolEnded)] == [made]
        assert envelope.text == "so"


async def test_always_is_for_the_same_thing_in_this_session(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        by = []
        for prompt in ("[[run:true]]", "[[run:true]]", "[[run:true\ntouch x]]", "[[write:a.txt]]", "[[write:a.txt]]"):
            _, events = await turn(o, live, f"{prompt}[[say:x]]", "always")
            by += [e.by for e in events if isinstance(e, Answered)]
        assert by == ["a person", "an earlier answer", "a person", "a person", "an earlier answer"]


async def test_files_go_through_ostler_and_stay_in_the_folder(yard: AcpYard) -> None:
    outside = yard.base / "outside.txt"
    outside.write_text("secret")
    (yard.folder / "link").symlink_to(outside)
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, '[[write:{"path": "sub/a.txt", "content": "A\\n"}]][[read:sub/a.txt]]')
        assert (envelope.text, (yard.folder / "sub/a.txt").read_text()) == ("A\n", "A\n")
        assert [(f.path, f.change) for f in envelope.files] == [("sub/a.txt", "add")]
        for path in (outside, "link", "../outside.txt"):
            _, events = await turn(o, live, f"[[read:{path}]][[write:{path}]][[say:x]]")
            assert [e.ok for e in events if isinstance(e, ToolEnded)] == [False, False]
        assert outside.read_text() == "secret"


@pytest.mark.parametrize(
    ("access", "prompt", "needs"),
    [
        ("read", "[[run:touch made.txt]]", "full"),
        ("read", "[[write:made.txt]]", "write"),
        ("write", "[[run:touch made.txt]]", "full"),
        ("write", "[[write:../made.txt]]", "full"),
    ],
)
async def test_no_answer_widens_the_access(yard: AcpYard, access: str, prompt: str, needs: str) -> None:
    async with yard.ostler(asks=[{"answer": "allow"}]) as o:
        live = await yard.session(o, access=access)
        envelope, events = await turn(o, live, f"{prompt}[[say:x]]", "allow")
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("reject_once", f"access {access}")]
        assert [d.access for d in envelope.denied] == [needs]
    assert not (yard.folder / "made.txt").exists() and not (yard.base / "made.txt").exists()


async def test_an_access_that_nobody_can_promise_is_denied(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path, loose=False)
    async with yard.ostler(walls="off") as o:
        live = await yard.session(o, access="read")
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "hello")
        assert refused.value.kind == "denied" and "loose" in refused.value.hint


@needs("landlock")
async def test_behind_a_wall_any_agent_has_every_access(tmp_path: Path) -> None:
    """It runs what it likes, unasked or allowed, and cannot leave the folder; `wall_paths` opens what it keeps."""
    yard = AcpYard(tmp_path, loose=False)
    steps = f"[[run:echo x > inside.txt; echo x > {tmp_path}/outside.txt]][[say:hello]]"
    async with yard.ostler(wall_paths=[str(tmp_path / "script")]) as o:
        (tmp_path / "script").mkdir()
        for access in ("read", "write"):
            live = await yard.session(o, access=access)
            envelope, _ = await turn(o, live, steps)
            assert envelope.ok, envelope
            assert (yard.folder / "inside.txt").exists() is (access == "write")
    assert not (tmp_path / "outside.txt").exists()


@pytest.mark.parametrize("step", ["[[run:tail -f /dev/null]]", "[[never_end]]", "[[ask:{}]]"])
async def test_an_interrupt_ends_the_turn_alone(yard: AcpYard, step: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        busy = asyncio.create_task(turn(o, live, f"[[say:begun]]{step}", "" if "ask" in step else "allow"))
        await until(lambda: any(isinstance(e, TextDelta) for e in o.events(live.id)))
        if "tail" in step:
            await until(lambda: _runs("tail -f /dev/null"))
        if "ask" in step:
            await until(lambda: o.store.session(live.id).state == "asking")
        pid = pid_of(o, live)
        await live.cancel()
        envelope, _ = await busy
        assert (envelope.outcome, envelope.error and envelope.error.kind) == ("cancelled", "cancelled")
        await until(lambda: not _runs("tail -f /dev/null"))
        envelope, _ = await turn(o, live, "[[say:again]]")
        assert (envelope.outcome, envelope.text, pid_of(o, live)) == ("done", "again", pid)


def _runs(command: str) -> bool:
    """By the agent itself, or in a terminal that ostler runs for it."""
    return any(command in tree.command(pid) for pid in tree.below([os.getpid()]))


async def test_a_process_that_dies_is_replaced_and_resumes(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        assert (await turn(o, live, "[[say:one]]"))[0].ok
        first = pid_of(o, live)
        running = asyncio.create_task(turn(o, live, "[[say:two]][[never_end]]"))
        await until(lambda: [e.text for e in o.events(live.id) if isinstance(e, TextDelta)] == ["one", "two"])
        os.kill(first, signal.SIGKILL)
        envelope, _ = await running
        assert (envelope.outcome, envelope.error.kind) == ("crashed", "crashed")
        envelope, events = await turn(o, live, "[[history]]")
        assert envelope.text.splitlines() == ["[[say:one]]", "[[say:two]][[never_end]]"]
        assert [e.text for e in events if isinstance(e, Text)] == [envelope.text]
        assert pid_of(o, live) != first


@pytest.mark.parametrize("unwritten", [TextDelta, Answered])
async def test_what_cannot_be_written_ends_the_turn_and_the_next_one_is_none_the_worse(
    yard: AcpYard, monkeypatch: pytest.MonkeyPatch, unwritten: type
) -> None:
    """The disk is full for a moment. An answer was lost, and its agent waited for ever; later turns failed, too."""
    full_for_a_moment(monkeypatch, unwritten)
    async with yard.ostler() as o:
        live = await yard.session(o)
        answers: list[asyncio.Task[object]] = []
        async for event in live.run("[[ask:{}]][[say:one]]"):
            if isinstance(event, Asked):
                answers.append(asyncio.ensure_future(o.answer(live.id, AskAnswer(ask=event.id, option="allow"))))
        (answered,) = await asyncio.gather(*answers, return_exceptions=True)
        assert isinstance(answered, OstlerError) is (unwritten is Answered)
        assert live.last is not None and live.last.error is not None and live.last.error.kind == "store"
        assert not tree.marked(live.id)
        envelope, _ = await turn(o, live, "[[say:two]]")
        assert (envelope.outcome, envelope.text) == ("done", "two")


async def test_a_conversation_that_is_gone(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        await turn(o, live, "[[say:one]]")
        await o.dialogs.close()
        live.row = await o.store.change_session(live.id, agent_session="gone")
        envelope, _ = await turn(o, live, "[[say:two]]")
        assert (envelope.error.kind, envelope.error.hint) == ("not_found", "Start a new session")


async def test_models_are_chosen_among_those_there_are(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, _ = await turn(o, live, "[[echo:model]]", model="scripted-fast")
        assert envelope.text == "scripted-fast"
        pid = pid_of(o, live)
        envelope, _ = await turn(o, live, "[[echo:model]]", model="scripted")
        assert (envelope.text, pid_of(o, live)) == ("scripted", pid)
        envelope, _ = await turn(o, live, "[[echo:model]]", model="nonesuch")
        assert (envelope.error.kind, envelope.error.hint) == ("bad_request", "It has: scripted, scripted-fast")
        assert (await turn(o, live, "[[say:still here]]"))[0].ok


async def test_a_model_for_one_turn_is_not_that_of_the_next(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        for model, used in ((None, "scripted"), ("scripted-fast", "scripted-fast"), (None, "scripted")):
            assert (await turn(o, live, "[[echo:model]]", model=model))[0].text == used


async def test_what_goes_with_a_prompt(yard: AcpYard) -> None:
    (yard.folder / "a.txt").write_text("A")
    async with yard.ostler() as o:
        live = await yard.session(o, system="Be a horse.")
        notes = Attachment(name="notes.txt", content="N")
        envelope, events = await turn(o, live, "/slash [[echo:prompt]]", attachments=(notes, "a.txt"))
        link = f"file://{yard.folder}/a.txt"
        assert envelope.text == f"Be a horse.\n\n/slash [[echo:prompt]]\nN\n{link}"
        assert "the system prompt was put before the first prompt" in [e.text for e in events if isinstance(e, Notice)]
        envelope, _ = await turn(o, live, "/slash [[echo:prompt]]")
        assert envelope.text == "\u200b/slash [[echo:prompt]]"
        envelope, _ = await turn(o, live, "/slash [[echo:prompt]]", command=True)
        assert envelope.text == "/slash [[echo:prompt]]"


async def test_an_answer_by_a_schema(yard: AcpYard) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, _ = await turn(o, live, '[[say: {"n": 7}]]', schema=schema)
        assert (envelope.outcome, envelope.structured) == ("done", {"n": 7})
        envelope, events = await turn(o, live, "[[say:none]]", schema=schema)
        assert envelope.error is not None and envelope.error.kind == "invalid_output"
        assert "repair" in [e.code for e in events if isinstance(e, Notice)]


@pytest.mark.parametrize(
    ("step", "outcome", "kind"),
    [
        ("[[fail:unauthenticated]]", "failed", "unauthenticated"),
        ("[[fail:denied]]", "failed", "denied"),
        ("[[fail:limited]]", "crashed", "crashed"),
        ("[[exit:0]]", "crashed", "crashed"),
        ("[[say:hi]][[exit:3]]", "crashed", "crashed"),
        ("[[notice:nothing was said]]", "unproven", "unproven"),
    ],
)
async def test_how_turns_fail(yard: AcpYard, step: str, outcome: str, kind: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, _ = await turn(o, live, step)
        assert (envelope.status, envelope.outcome, envelope.error.kind) == ("error", outcome, kind)
        assert (await turn(o, live, "[[say:again]]"))[0].ok


async def test_an_idle_dialog_is_closed_and_comes_back(yard: AcpYard) -> None:
    async with yard.ostler(dialog_idle=0.05) as o:
        live = await yard.session(o)
        assert (await turn(o, live, "[[say:one]]"))[0].ok
        await until(lambda: not o.dialogs._live)
        assert (await turn(o, live, "[[history]]"))[0].text == "[[say:one]]"


async def test_another_agent_takes_a_turn_whose_dialog_did_not_open(yard: AcpYard) -> None:
    broken = yard.base / "broken"
    broken.write_text("#!/bin/sh\necho 'please log in' >&2; exit 1\n")
    broken.chmod(0o755)
    async with yard.ostler(acp={"mine": [str(broken)], "other": list(SCRIPTED)}, loose=["mine", "other"]) as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, "[[say:hi]]", fallback=["other"])
        assert (envelope.outcome, envelope.text, envelope.served_by) == ("done", "hi", "other")
        assert "fallback" in [e.code for e in events if isinstance(e, Notice)]


async def test_a_name_that_is_taken(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path)
    with pytest.raises(OstlerError) as refused:
        async with yard.ostler(acp={"claude": list(SCRIPTED)}):
            pass
    assert refused.value.kind == "exists"
    assert AGENTS["claude"].one_shot


async def test_a_late_answer_and_one_of_another_turn(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, "[[ask:{}]][[say:x]]", "deny")
        asked = next(e for e in events if isinstance(e, Asked))
        for key in (envelope.turn, live.id):
            with pytest.raises(OstlerError) as refused:
                await o.answer(key, AskAnswer(ask=asked.id, option="allow"))
            assert refused.value.kind == "not_found"


async def test_limits_hold_in_a_dialog(yard: AcpYard, clock: Clock) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        begun = yard.folder / "begun"
        prompt = f"[[double_fork:{begun}]][[never_end]]"
        running = asyncio.create_task(turn(o, live, prompt, limits=Limits(idle=300)))
        await until(begun.exists)  # it has read the prompt
        envelope, _ = await turn_until(clock, 301, running)
        assert envelope.outcome == "timed_out"
        assert (await turn(o, live, "[[say:again]]"))[0].ok


async def test_a_daemon_of_a_turn_is_found_named_and_ended_with_the_turn(yard: AcpYard) -> None:
    """It once outlived the turn unseen: the dialog's process goes on, so nobody looked."""
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, _ = await turn(o, live, "[[say:hello]]")
        assert envelope.leaked == ()
        agent = pid_of(o, live)
        for name in ("one", "two"):
            envelope, _ = await turn(o, live, f"[[double_fork:{yard.folder / name}]] [[say:left something]]")
            daemon = int((yard.folder / name).read_text())
            assert envelope.ok and [int(each.split()[0]) for each in envelope.leaked] == [daemon]
            assert tree.identity(daemon) is None
        envelope, _ = await turn(o, live, "[[say:go on]]")
        assert (envelope.ok, envelope.leaked, pid_of(o, live)) == (True, (), agent)
    assert tree.marked(live.id) == []


@pytest.mark.parametrize("end", ["cancel", "crash"])
async def test_a_daemon_of_a_turn_that_does_not_end_well_is_named_too(yard: AcpYard, end: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        pid_file = yard.folder / "pid"
        after = "[[crash:KILL]]" if end == "crash" else f"[[wait_for:{yard.folder / 'never'}]]"
        running = asyncio.create_task(turn(o, live, f"[[double_fork:{pid_file}]] {after}"))
        await until(pid_file.exists)
        if end == "cancel":
            warden = await o.warden.get()  # which inherits it a moment after it has told its pid
            await until(lambda: int(pid_file.read_text()) in tree.children(warden.pid or 0))
            await live.cancel()
        envelope, _ = await running
        assert envelope.outcome == ("cancelled" if end == "cancel" else "crashed")
        daemon = int(pid_file.read_text())
        assert [int(each.split()[0]) for each in envelope.leaked] == [daemon]
        assert tree.identity(daemon) is None
        envelope, _ = await turn(o, live, "[[say:go on]]")
        assert (envelope.ok, envelope.leaked) == (True, ())


# The scripted agent behind a process that starts a server of its own, in a session of its own, with the first prompt.
KEEPER = """
import subprocess, sys, threading
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
server = None
for line in sys.stdin.buffer:
    if b"session/prompt" in line and server is None:
        server = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
        with open(sys.argv[1], "w") as file:
            file.write(str(server.pid))
    agent.stdin.write(line)
    agent.stdin.flush()
agent.stdin.close()
agent.wait()
"""


async def test_what_the_agent_keeps_lives_until_its_dialog_ends(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    yard = AcpYard(tmp_path, (sys.executable, "-c", KEEPER, str(kept), *SCRIPTED))
    async with yard.ostler() as o:
        live = await yard.session(o)
        for said in ("started", "still there"):
            envelope, _ = await turn(o, live, f"[[say:{said}]]")
            server = int(kept.read_text())
            assert (envelope.ok, envelope.leaked) == (True, ()) and tree.identity(server)
        await o.dialogs.close(live.id)
        assert tree.identity(server) is None


async def test_a_closed_session_keeps_no_process_in_whichever_ostler_it_was(yard: AcpYard) -> None:
    async with yard.ostler() as o, yard.ostler() as other:
        live = await yard.session(o)
        await turn(o, live, "[[say:one]]")
        pid = pid_of(o, live)
        assert tree.identity(pid) is not None
        closed = await other.close_session(live.id)
        assert closed.state == "closed" and tree.identity(pid) is None
        assert [row.state for row in o.store.turns(live.id)] == ["ended"]
        with pytest.raises(OstlerError, match="is closed"):
            await turn(o, live, "[[say:two]]")


async def test_a_removed_session_keeps_no_process_either(yard: AcpYard) -> None:
    async with yard.ostler() as o, yard.ostler() as other:
        live = await yard.session(o)
        await turn(o, live, "[[say:one]]")
        pid = pid_of(o, live)
        await other.remove(live.id)
        assert tree.identity(pid) is None and o.sessions() == []
