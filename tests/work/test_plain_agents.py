"""`[agents.NAME]`: a real script as an agent, driven by every door and judged by its exit code or by a line."""

import json
import sys
from pathlib import Path

import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Envelope, Problem, Raw, Text
from ostler.settings import load_settings
from ostler.testing.launched import ScriptedAgent
from ostler.work import Ostler
from ostler.work.known_agents import agents_of
from work.scripted import Stable, collect

# Does what its prompt says, one word a line.
TOOL = """
import os, sys, time
for word in sys.stdin.read().split():
    name, _, value = word.partition("=")
    if name == "say": print(value, flush=True)
    if name == "log": print(value, file=sys.stderr, flush=True)
    if name == "env": print(os.environ.get(value), flush=True)
    if name == "args": print(sys.argv[1:], flush=True)
    if name == "write":
        try: open(value, "w").close()
        except OSError: pass
    if name == "exit": sys.exit(int(value))
    if name == "stay": time.sleep(600)
"""


class Unscripted(Stable):
    """The scripted agent does not stand in for the others."""

    @property
    def env(self) -> dict[str, str]:
        return {name: value for name, value in super().env.items() if name != "OSTLER_ONLY"}


@pytest.fixture
def stable(tmp_path: Path, scripted_agent: ScriptedAgent) -> Stable:
    return Unscripted(tmp_path, scripted_agent)


def furnish(stable: Stable, more: str = "", settings: str = "") -> None:
    """The tool as the agent `tool`, in the user's own file."""
    tool = stable.home / "tool.py"
    tool.write_text(TOOL)
    config = stable.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    command = json.dumps([sys.executable, str(tool), "--model={model}", "--in={folder}"])
    config.write_text(f"{settings}\n[agents.tool]\ncommand = {command}\n{more}\n")


async def run(stable: Stable, prompt: str, agent: str = "tool", **options: object) -> tuple[Envelope, list[AnyEvent]]:
    return await stable.turn(prompt, agent=agent, **{"access": "full", **options})


async def test_exit_code_0_is_the_proof(stable: Stable) -> None:
    furnish(stable, 'env = { GREETING = "hi" }\nenv_pass = ["PASSED"]')
    envelope, events = await run(stable, "say=hello log=busy env=GREETING args=", model="big")
    said = f"hello\nhi\n['--model=big', '--in={stable.folder}']\n"
    assert (envelope.status, envelope.outcome, envelope.text) == ("ok", "done", said)
    assert (envelope.evidence, envelope.agent, envelope.agent_session) == (("exit code 0",), "tool", None)
    assert [event.text for event in events if isinstance(event, Text)] == [said]
    assert [event.line for event in events if isinstance(event, Raw)] == ["busy"]


async def test_another_exit_code_is_a_failure(stable: Stable) -> None:
    furnish(stable)
    envelope, _ = await run(stable, "say=trying log=broken exit=1")
    assert (envelope.status, envelope.outcome, envelope.text) == ("error", "failed", "trying\n")
    assert envelope.error == Problem(kind="crashed", message="broken")


async def test_a_line_is_the_proof(stable: Stable) -> None:
    furnish(stable, 'proof = "pattern"\ndone_pattern = "^DONE$"')
    proven, _ = await run(stable, "say=DONE say=bye")
    assert (proven.outcome, proven.evidence, proven.text) == ("done", ("line: DONE",), "DONE\nbye\n")


async def test_exit_code_0_without_the_line_is_unproven(stable: Stable) -> None:
    furnish(stable, 'done_pattern = "^DONE$"')
    envelope, _ = await run(stable, "say=UNDONE")
    assert (envelope.status, envelope.outcome) == ("error", "unproven")
    assert envelope.error is not None and envelope.error.message == "tool printed no line that matches '^DONE$'"


async def test_a_program_that_stays_after_its_line_is_ended(stable: Stable) -> None:
    furnish(stable, 'done_pattern = "^DONE$"', settings="limits.linger = 0.1")
    envelope, _ = await run(stable, "say=DONE stay=")
    assert (envelope.outcome, envelope.evidence) == ("done", ("line: DONE", "lingered"))


async def test_the_pattern_of_a_profile_counts(stable: Stable) -> None:
    furnish(stable, '[profiles.shipper]\nagent = "tool"\naccess = "full"\ndone_pattern = "^SHIPPED"')
    shipped, _ = await run(stable, "say=SHIPPED", agent="shipper")
    not_yet, _ = await run(stable, "say=soon", agent="shipper")
    assert (shipped.outcome, not_yet.outcome) == ("done", "unproven")


async def test_the_pattern_of_a_profile_counts_for_agents_with_records_too(stable: Stable) -> None:
    furnish(stable, '[profiles.strict]\nagent = "script"\ndone_pattern = "^REVIEW COMPLETE$"')
    complete, _ = await stable.turn("[[say:fine\nREVIEW COMPLETE]]", agent="strict")
    other, _ = await stable.turn("[[say:fine]]", agent="strict")
    assert (complete.outcome, other.outcome) == ("done", "unproven")
    message = "script finished, but no line of its answer matches '^REVIEW COMPLETE$'"
    assert other.error == Problem(kind="unproven", message=message, hint="Check its answer, or change done_pattern")


async def test_each_turn_is_a_new_conversation(stable: Stable) -> None:
    furnish(stable)
    async with stable.ostler() as o:
        session = await o.session("tool", folder=str(stable.folder), access="full")
        for word in ("one", "two"):
            await collect(session, f"say={word}")
            assert session.last is not None and session.last.text == f"{word}\n"


async def test_without_a_wall_no_access_below_full_is_promised(stable: Stable) -> None:
    furnish(stable)
    with pytest.raises(OstlerError) as refused:
        await run(stable, "say=hello", access="read")
    assert refused.value.kind == "denied"
    assert refused.value.message.startswith("tool cannot promise --access read: ostler does not know what the program")


@needs("landlock")
async def test_behind_a_wall_it_has_every_access(stable: Stable) -> None:
    stable.script.env["OSTLER_WALLS"] = "auto"
    furnish(stable)
    inside, outside = stable.folder / "inside", stable.home / "outside"
    for access in ("read", "write"):
        envelope, _ = await run(stable, f"write={outside} write={inside} say=hello", access=access)
        assert (envelope.outcome, envelope.text) == ("done", "hello\n")
        assert inside.exists() is (access == "write") and not outside.exists()


async def test_where_accepted_it_has_any_access(stable: Stable) -> None:
    furnish(stable, settings='loose = ["tool"]')
    envelope, _ = await run(stable, "say=hello", access="read")
    assert (envelope.outcome, envelope.access) == ("done", "read")


async def test_a_program_that_is_not_there(stable: Stable) -> None:
    furnish(stable, '[agents.gone]\ncommand = "no-such-tool"')
    with pytest.raises(OstlerError) as refused:
        await run(stable, "say=hello", agent="gone")
    missing = refused.value
    assert (missing.kind, missing.message) == ("missing", "`no-such-tool` was not found or is not executable")
    assert missing.hint == "Fix agents.gone.command in your settings"


async def test_it_is_reported_without_being_run(stable: Stable) -> None:
    furnish(stable, 'title = "The tool"\ndescription = "Does what it is told"\n[agents.gone]\ncommand = "no-such-tool"')
    (stable.home / "tool.py").write_text("open('/proc/self/no-such/x')")
    async with stable.ostler() as o:
        tool, gone = await o.doctor(("tool", "gone"))
    assert (tool.title, tool.description, tool.installed, tool.login) == (
        "The tool",
        "Does what it is told",
        True,
        "unknown",
    )
    assert (tool.path, tool.version, tool.problem) == (sys.executable, "", "")
    assert (gone.installed, gone.problem) == (False, "`no-such-tool` is not on PATH")


def test_the_command_line_runs_lists_and_completes_it(stable: Stable) -> None:
    furnish(stable)
    out, err = stable.cli("run", "tool", "say=hello", "--access", "full", "--quiet").communicate()
    assert out == "hello\n", err
    out, _ = stable.cli("agents").communicate()
    assert "tool" in [line.split()[0] for line in out.splitlines() if line.strip()]
    complete = {"_OSTLER_COMPLETE": "bash_complete", "COMP_WORDS": "ostler doctor to", "COMP_CWORD": "2"}
    out, _ = stable.cli(**complete).communicate()
    assert out.split() == ["plain,tool"]


def test_a_projects_commands_count_once_it_is_trusted(stable: Stable) -> None:
    (stable.folder / "bin").mkdir()
    (stable.folder / "ostler.toml").write_text('[agents.tool]\ncommand = ["bin/tool"]')

    def tools(trusted: bool) -> tuple[object, tuple[str, ...]]:
        loaded = load_settings(folder=str(stable.folder), environ=stable.env, trust=lambda path, sha: trusted)
        return loaded.settings.agents.get("tool"), loaded.notices

    entry, notices = tools(False)
    assert entry is None
    assert "agents ignored" in notices[0]
    entry, notices = tools(True)
    assert (getattr(entry, "command", ()), notices) == ((str(stable.folder / "bin" / "tool"),), ())


async def test_http_lists_it(stable: Stable) -> None:
    from ostler.server.routes_agents import AgentReports

    furnish(stable)
    async with stable.ostler() as o:
        assert isinstance(o, Ostler) and "tool" in agents_of(o.settings)
        assert "tool" in [report.name for report in await AgentReports(o).get()]
