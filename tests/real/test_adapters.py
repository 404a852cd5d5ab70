"""claude-agent-acp and codex-acp, agents of the settings: their access, their terminals, and what they are not."""

import pytest

from ostler.errors import OstlerError
from ostler.model import Answered, Asked, TerminalClosed, TerminalOpened, ToolEnded
from real.settings_acp import named
from real.test_dialog_access import turn
from real.yard import Yard

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("agent", ["claude-agent-acp", "codex-acp"])
CLAUDE = pytest.mark.parametrize("agent", ["claude-agent-acp"])
CODEX = pytest.mark.parametrize("agent", ["codex-acp"])
PATCH = "[[tool:apply_patch:*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch]]"


@BOTH
async def test_a_command_shows_as_a_terminal(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        _, events = await turn(o, live, yard.asking("echo one; echo two; exit 3"))
        (opened,) = [e for e in events if isinstance(e, TerminalOpened)]
        (closed,) = [e for e in events if isinstance(e, TerminalClosed)]
        assert (closed.terminal, closed.exit_code) == (opened.terminal, 3)
        (ended,) = [e for e in events if isinstance(e, ToolEnded)]
        assert (opened.tool, ended.ok, ended.exit_code) == (ended.id, False, 3)
        row = o.terminals.get(opened.terminal)
        assert (row.source, row.typing, row.state) == ("acp", False, "ended")
        assert "one\ntwo" in await o.terminals.text(row.id)


@CLAUDE
async def test_a_system_prompt_can_stand_for_its_own(yard: Yard) -> None:
    own, given = "authorized security testing", "Answer like an ostler of the Golden Lion"
    async with yard.ostler() as o:
        live = await yard.session(o, access="read", system=given, system_mode="replace")
        assert (await turn(o, live, "hello"))[0].ok
        await o.dialogs.close(live.id)
        assert (await turn(o, live, "go on"))[0].ok  # by another process, in the same conversation
    for prompt in ("hello", "go on"):
        # It also asks for a title, with a system prompt that is nobody's business.
        told = [x.system for x in yard.model.asked if prompt in x.user and given in x.system]
        assert told and not any(own in system for system in told)


@CODEX
async def test_codex_acp_keeps_its_own_system_prompt(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full", system="Be brief.", system_mode="replace")
        with pytest.raises(OstlerError, match="cannot be replaced"):
            await turn(o, live, "hello")


@CLAUDE
async def test_read_holds_where_the_users_settings_allow_all(yard: Yard, permissive: bool) -> None:
    outside = yard.home / "outside.txt"
    async with yard.ostler() as o:
        live = await yard.session(o, access="read")
        for prompt in (
            "[[write:app.py]]",
            "[[shell:touch app.py]]",
            f"[[write:{outside}]]",
            f"[[shell:touch {outside}]]",
        ):
            envelope, events = await turn(o, live, prompt)
            assert envelope.outcome in ("done", "failed"), envelope
            assert [e for e in events if isinstance(e, Answered) and e.by == "a person"] == []
    assert not (yard.folder / "app.py").exists() and not outside.exists()
    assert len(yard.model.asked) >= 4


@CLAUDE
async def test_write_asks_for_edits_and_keeps_commands_in_the_folder(yard: Yard) -> None:
    """As claude itself: its sandbox runs commands unasked."""
    outside = yard.home / "outside.txt"
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        envelope, events = await turn(o, live, "[[write:app.py]]")
        assert envelope.ok and [(c.path, c.change) for c in envelope.files] == [("app.py", "add")]
        (asked,) = [e for e in events if isinstance(e, Asked)]
        assert asked.tool == "Write" and asked.diff.endswith("+written by the scripted model\n")
        for prompt in (f"[[shell:touch {outside}]]", f"[[write:{outside}]]"):
            _, events = await turn(o, live, prompt)
            assert [e for e in events if isinstance(e, Answered) and e.by == "a person"] == []
    assert not outside.exists()


@CODEX
async def test_codex_acp_promises_no_access_below_full(yard: Yard) -> None:
    """`allow` rules leave its sandbox."""
    named(yard.home, "codex-acp", ["codex-acp"])
    async with yard.ostler() as o:
        for access in ("read", "write"):
            live = await yard.session(o, access=access)
            with pytest.raises(OstlerError) as refused:
                await turn(o, live, "hello")
            assert refused.value.kind == "denied" and "sandbox" in refused.value.message
    assert yard.model.asked == []


@CODEX
async def test_codex_acp_keeps_to_the_folder_where_it_is_accepted(yard: Yard) -> None:
    outside = yard.home / "outside.txt"
    async with yard.ostler() as o:
        live = await yard.session(o, access="read")
        for prompt in ("[[shell:touch app.py]]", yard.asking("touch app.py"), PATCH.format("app.py")):
            envelope, events = await turn(o, live, prompt)
            assert [e.by for e in events if isinstance(e, Answered)] in ([], ["access read"])
        assert (envelope.outcome, envelope.error and envelope.error.kind) == ("failed", "denied")
        assert [d.access for d in envelope.denied] == ["write"]
        assert not (yard.folder / "app.py").exists()
        live = await yard.session(o, access="write")
        for prompt in (f"[[shell:touch {outside}]]", yard.asking(f"touch {outside}"), PATCH.format(outside)):
            _, events = await turn(o, live, prompt)
            assert [e.by for e in events if isinstance(e, Answered)] in ([], ["access write"])
        assert not outside.exists()
        assert (await turn(o, live, PATCH.format("app.py")))[0].files != ()


@CLAUDE
async def test_a_program_of_a_known_name_that_is_another(yard: Yard) -> None:
    program = yard.folder.parent / "codex-acp"
    program.symlink_to(yard.env["PATH"].split(":")[0] + "/claude-agent-acp")
    named(yard.home, "claude-agent-acp", [str(program)])
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        envelope, _ = await turn(o, live, "hello")
        assert envelope.error is not None and envelope.error.kind == "denied"
        assert "claude-agent-acp" in envelope.error.message and "codex-acp" in envelope.error.message
    assert yard.model.asked == []


@CODEX
async def test_another_mode_of_codex_acp_within_the_access(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        await turn(o, live, "[[shell:touch one.txt]]")
        await turn(o, live, "[[shell:touch two.txt]]", mode="workspace-write")
        assert [(yard.folder / name).exists() for name in ("one.txt", "two.txt")] == [False, True]
        live = await yard.session(o, access="read")
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "[[shell:touch three.txt]]", mode="workspace-write")
        assert refused.value.kind == "denied" and not (yard.folder / "three.txt").exists()
