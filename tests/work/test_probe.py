"""Finding and probing binaries: small real programs stand in for the CLIs."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.acp import acp_face
from ostler.agents.acp_words import Acp
from ostler.agents.adapter import Agent
from ostler.errors import OstlerError
from ostler.settings import Settings
from ostler.work import probe as probes
from ostler.work.probe import AgentReport, Probe, find, login, probe, report

CLAW: Agent = structs.replace(
    AGENTS["script"],
    name="claw",
    title="Claw",
    binaries=("claw", "claw-old"),
    install="npm i -g claw",
    needs=("--session-id", "-p"),
    help=(("--help",), ("run", "--help")),
    env=("CLAW_*",),
    keys=("CLAW_API_KEY",),
    login_files=(".claw/auth.json",),
    login_elsewhere=False,
)
TALK = """#!/bin/sh
echo "$*" >> "$(dirname "$0")/calls"
case "$*" in
  --version) echo "claw 1.2.3-beta (build 7)";;
  --help) printf 'usage: claw\\n  \\033[1m-p\\033[0m, --print\\n';;
  "run --help") echo "  --session-id=ID" >&2;;
esac
"""


class Notes:
    """A cache in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    async def put(self, key: str, value: Any) -> None:
        self.kept[key] = value


def program(path: Path, text: str = TALK) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def env() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin"}


# -- finding ----------------------------------------------------------------------------------------


def test_first_binary_on_path_wins(tmp_path: Path) -> None:
    old, new = program(tmp_path / "a/claw-old"), program(tmp_path / "b/claw")
    path = f"{tmp_path}/none:{tmp_path}/a:{tmp_path}/b"
    assert find(CLAW, path) == (new,)
    os.chmod(new, 0o644)
    assert find(CLAW, path) == (old,)
    os.unlink(old)
    (tmp_path / "a/claw-old").mkdir()
    assert find(CLAW, path) is None


def test_the_folder_of_a_turn_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "claw")
    monkeypatch.chdir(tmp_path)
    assert [find(CLAW, "."), find(CLAW, ""), find(CLAW, "", ["./claw"])] == [None, None, None]


def test_a_command_of_the_settings(tmp_path: Path) -> None:
    npx = program(tmp_path / "npx")
    assert find(CLAW, str(tmp_path), ["npx", "claw@1"]) == (npx, "claw@1")
    assert find(CLAW, "", [npx, "claw@1"]) == (npx, "claw@1")
    assert find(CLAW, str(tmp_path), ["nothing"]) is None


def test_scripted_agent_is_a_module_of_ours() -> None:
    assert find(AGENTS["script"], "") == (sys.executable, "-P", "-m", "ostler.testing.agent")


# -- probing ----------------------------------------------------------------------------------------


async def test_probe_asks_once_for_each_binary(tmp_path: Path) -> None:
    claw, notes = program(tmp_path / "claw"), Notes()
    expected = Probe(path=claw, version="1.2.3-beta", help="usage: claw\n  -p, --print\n\n  --session-id=ID\n")
    assert await probe(CLAW, (claw,), env(), notes) == expected
    assert await probe(CLAW, (claw,), env(), notes) == expected
    assert sorted((tmp_path / "calls").read_text().splitlines()) == ["--help", "--version", "run --help"]
    program(tmp_path / "claw", TALK.replace("1.2.3-beta", "2.0"))
    assert (await probe(CLAW, (claw,), env(), notes)).version == "2.0"


async def test_broken_cache_is_asked_anew(tmp_path: Path) -> None:
    claw, notes = program(tmp_path / "claw"), Notes()
    notes.kept[probes.cache_key(CLAW, (claw,))] = {"path": 5}
    assert (await probe(CLAW, (claw,), env(), notes)).version == "1.2.3-beta"


async def test_missing_flag_is_unsupported(tmp_path: Path) -> None:
    claw = program(tmp_path / "claw", TALK.replace("--session-id=ID", "--session-identity"))
    with pytest.raises(OstlerError) as caught:
        await probe(CLAW, (claw,), env(), Notes())
    error = caught.value
    assert (error.kind, error.message, error.hint) == (
        "unsupported",
        "claw 1.2.3-beta has no --session-id",
        "Update: npm i -g claw",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho 'node: not found' >&2\nexit 127\n", "node: not found"),
        ("#!/bin/sh\nexit 3\n", "--version ended with exit code 3"),
        ("#!/no/such/interpreter\n", "[Errno 2] No such file or directory: 'CLAW'"),
    ],
)
async def test_binary_that_does_not_work_is_missing_and_not_remembered(tmp_path: Path, text: str, said: str) -> None:
    claw, notes = program(tmp_path / "claw", text), Notes()
    with pytest.raises(OstlerError) as caught:
        await probe(CLAW, (claw,), env(), notes)
    error = caught.value
    assert (error.kind, error.message, error.hint) == (
        "missing",
        f"`{claw}` does not work: {said.replace('CLAW', claw)}",
        "Install: npm i -g claw",
    )
    assert notes.kept == {}


async def test_slow_binary_is_killed_with_its_children(tmp_path: Path) -> None:
    slow = program(tmp_path / "slow", f"#!/bin/sh\necho early\nsleep 1000 &\necho $! > {tmp_path}/pid\nexit 0\n")
    assert await probes.run([slow], env(), seconds=3.0) == (None, "early\n")
    assert ended((tmp_path / "pid").read_text().strip())


async def test_flood_is_cut() -> None:
    flood = "import sys; sys.stdout.write('x' * 3_000_000)"
    code, output = await probes.run([sys.executable, "-c", flood], env())
    assert (code, len(output)) == (0, probes.MAX_OUTPUT)


async def test_nothing_to_read_on_stdin() -> None:
    code, output = await probes.run([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"], env())
    assert (code, output) == (0, "''\n")


def ended(pid: str) -> bool:
    """Gone, or a zombie that nobody has waited for."""
    state = Path(f"/proc/{pid}/stat")
    until = time.monotonic() + 10
    while state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


# -- reports ----------------------------------------------------------------------------------------


async def test_report_of_an_installed_agent(tmp_path: Path) -> None:
    claw = program(tmp_path / "bin/claw")
    environ = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "CLAW_API_KEY": "value",
        "GITHUB_TOKEN": "value",
    }
    assert await report(CLAW, environ, Settings(), Notes()) == AgentReport(
        name="claw",
        title="Claw",
        installed=True,
        login="yes",
        install="npm i -g claw",
        path=claw,
        version="1.2.3-beta",
        keys_set=("CLAW_API_KEY",),
        withheld=("GITHUB_TOKEN",),
        abilities=probes.abilities(CLAW),
        dialog=True,
        steer=True,
    )


async def test_report_of_an_agent_that_is_not_there(tmp_path: Path) -> None:
    done = await report(CLAW, {"PATH": str(tmp_path), "HOME": str(tmp_path)}, Settings(), Notes())
    assert (done.installed, done.path, done.login, done.problem) == (False, None, "no", "`claw` is not on PATH")


async def test_report_of_an_agent_that_is_too_old(tmp_path: Path) -> None:
    claw = program(tmp_path / "old", TALK.replace("--session-id", "--sid"))
    settings = Settings(commands={"claw": (claw,)})
    done = await report(CLAW, {"PATH": "/usr/bin:/bin"}, settings, Notes())
    assert (done.installed, done.path, done.problem) == (True, claw, "claw 1.2.3-beta has no --session-id")


def test_login_by_key_by_file_or_elsewhere(tmp_path: Path) -> None:
    elsewhere = structs.replace(CLAW, login_elsewhere=True)
    home = str(tmp_path)
    assert [
        login(CLAW, {}, home),
        login(CLAW, {"CLAW_API_KEY": ""}, home),
        login(CLAW, {"CLAW_API_KEY": "k"}, home),
        login(elsewhere, {}, home),
        login(AGENTS["script"], {}, home),
    ] == ["no", "no", "yes", "unknown", "yes"]
    (tmp_path / ".claw").mkdir()
    (tmp_path / ".claw/auth.json").touch()
    assert login(CLAW, {}, home) == "yes"


# -- tables -----------------------------------------------------------------------------------------


def test_tables() -> None:
    one = structs.replace(
        CLAW, resumes=True, forks=False, chooses_id=True, schema="native", system="flag", tool_lists=False,
        images="no", deltas=True, tokens=True, cost=False, dialog=acp_face(Acp(), CLAW.launch),
        access={"read": "`-r | -x`"}, unconfined={"read": "the\nnet"},
    )  # fmt: skip
    assert probes.abilities_table([one]) == (
        "| agent | resume | fork | own id | schema | system prompt | tool lists | images | live text "
        "| tokens | cost | dialog | steer |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| `claw` | yes | – | yes | native | flag | – | – | yes | yes | – | acp | – |\n"
    )
    assert probes.access_table([one]) == (
        "| agent | access | enforced by | not confined |\n"
        "| --- | --- | --- | --- |\n"
        "| `claw` | `read` | `-r \\| -x` | the net |\n"
        "| `claw` | `write` | not offered | – |\n"
        "| `claw` | `full` | not offered | – |\n"
    )


def test_every_agent_has_a_row() -> None:
    agents = list(AGENTS.values())
    assert probes.abilities_table(agents).count("\n") == len(agents) + 2
    assert probes.access_table(agents).count("\n") == 3 * len(agents) + 2
