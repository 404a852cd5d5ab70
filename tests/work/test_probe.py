"""Finding and probing binaries: small real programs stand in for the CLIs."""

import asyncio
import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.acp.face import acp_face
from ostler.agents.acp.protocol import Acp
from ostler.agents.adapter import Agent, OwnSandbox, State
from ostler.errors import OstlerError
from ostler.settings import Settings
from ostler.testing import agent as scripted_agent
from ostler.work import probe as probes
from ostler.work.probe import AgentReport, Probe, find, login, probe, report
from ostler.work.transports.choose import transports_of
from ostler.work.walls import kept
from waiting import ends

CLAW: Agent = structs.replace(
    AGENTS["script"],
    module="",
    monogram="",
    hue=None,
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


def test_scripted_agent_is_a_file_of_ours() -> None:
    assert find(AGENTS["script"], "") == (sys.executable, "-IS", scripted_agent.__file__)


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
    slow = program(tmp_path / "slow", f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/pid\necho early\nexit 0\n")
    for seconds in (0.5, 4.0, 32.0):  # a busy machine may need longer to start it
        code, output = await probes.run([slow], env(), seconds=seconds)
        assert code is None
        if output:
            break
    assert output == "early\n"
    assert ends((tmp_path / "pid").read_text().strip())


async def test_flood_is_cut() -> None:
    flood = "import sys; sys.stdout.write('x' * 3_000_000)"
    code, output = await probes.run([sys.executable, "-c", flood], env())
    assert (code, len(output)) == (0, probes.MAX_OUTPUT)


async def test_nothing_to_read_on_stdin() -> None:
    code, output = await probes.run([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"], env())
    assert (code, output) == (0, "''\n")


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
        monogram="cl",
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
        transports=transports_of(CLAW),
        kept={access: kept(Settings(), CLAW, access, ()) for access in ("read", "write")},
    )


async def test_report_where_the_machine_has_no_room_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One agent that cannot be asked does not make the whole doctor fail."""

    async def full(*argv: str, **options: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    claw = program(tmp_path / "bin/claw")
    monkeypatch.setattr(asyncio, "create_subprocess_exec", full)
    told = await report(CLAW, {"PATH": f"{tmp_path}/bin"}, Settings(), Notes())
    assert (told.installed, told.problem) == (True, f"{claw} could not be started: [Errno 24] Too many open files")
    with pytest.raises(OstlerError) as caught:
        await probe(CLAW, (claw,), env(), Notes())
    assert caught.value.kind == "too_many"


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
        access={"read": "`-r | -x`"}, unconfined={"read": "the\nnet"}, state=None,
    )  # fmt: skip
    assert probes.abilities_table([one]) == (
        "| agent | resume | fork | own id | schema | system prompt | tool lists | images | live text "
        "| tokens | cost | dialog | steer | own screen |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| `claw` | yes | – | yes | native | flag, replace | – | – | yes | yes | – | acp | – | yes |\n"
    )
    assert probes.access_table([one]) == (
        "| agent | access | kept by | its flags | not confined | not confined without a wall |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| `claw` | `read` | its flags alone | `-r \\| -x` | the net | – |\n"
        "| `claw` | `write` | its flags alone | not offered | – | – |\n"
        "| `claw` | `full` | nothing | not offered | – | – |\n"
    )
    state = State(kept=(".claw/talks",), oauth=(".claw/login",))
    sandbox = OwnSandbox(check=(), programs=("bwrap",), keeps=("write",))
    walled = structs.replace(one, state=state, sandbox=sandbox, unpromised={"read": "it writes"})
    opened = "`~/.claw/talks`, `~/.claw/login` where it holds a login that is renewed"
    assert probes.access_table([walled]).splitlines()[2:] == [
        f"| `claw` | `read` | a wall | `-r \\| -x` | {opened} |"
        " `denied` unless accepted (`loose`): it writes. the net |",
        "| `claw` | `write` | its own sandbox; a wall where bwrap is missing or does not work | not offered |"
        f" nothing. Behind a wall: {opened} | – |",
        "| `claw` | `full` | nothing | not offered | – | – |",
    ]


def test_every_agent_has_a_row() -> None:
    agents = list(AGENTS.values())
    assert probes.abilities_table(agents).count("\n") == len(agents) + 2
    assert probes.access_table(agents).count("\n") == 3 * len(agents) + 2


# -- versions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "said"),
    [
        *((version, "") for version in ("1.2.3", "1.10.0", "1.9", "1.10.0-beta.3", "1.2.3+build", "")),
        ("1.2.2", "1.2.2 is older than what ostler is tested with: 1.2.3 to 1.10.0"),
        ("1.1", "1.1 is older than what ostler is tested with: 1.2.3 to 1.10.0"),
        ("1.10.1", "1.10.1 is newer than what ostler is tested with: 1.2.3 to 1.10.0"),
        ("2.0.0-rc1", "2.0.0-rc1 is newer than what ostler is tested with: 1.2.3 to 1.10.0"),
        ("nightly", ""),
    ],
)
def test_versions_that_ostler_is_tested_with(version: str, said: str) -> None:
    assert probes.untested(version, ("1.2.3", "1.10.0")) == said
    assert probes.untested(version, None) == ""


@pytest.mark.parametrize(("at", "folder"), [(0, "clis-older"), (1, "clis")])
def test_the_tested_versions_are_those_that_are_pinned(at: int, folder: str) -> None:
    pinned = json.loads((Path(__file__).parents[1] / "real" / folder / "package.json").read_text())["dependencies"]
    tested = {agent.install.rpartition(" ")[2]: agent.tested[at] for agent in AGENTS.values() if agent.tested}
    assert len(tested) == 6 and tested == {name: pinned[name] for name in tested}
    lock = (Path(__file__).parents[1] / "real" / folder / "package-lock.json").read_text()
    assert '"resolved"' not in lock, "a lock that names a registry is of no use elsewhere"


async def test_a_report_says_that_a_version_is_not_tested(tmp_path: Path) -> None:
    path = Path(program(tmp_path / "bin" / "claw")).parent
    old = structs.replace(CLAW, tested=("2.0.0", "3.0.0"))
    said = await report(old, {"PATH": f"{path}:/usr/bin:/bin", "HOME": str(tmp_path)}, Settings(), Notes())
    assert said.version == "1.2.3-beta" and said.untested.startswith("1.2.3-beta is older than")
