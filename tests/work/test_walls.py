"""Which turns get a wall, and what holds behind one: commands, and the scripted agent in all its ways."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from needs import needs
from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import Enforcement, Turn, Wall
from ostler.process import Size, landlock
from ostler.settings import Settings
from ostler.work import walls
from ostler.work.turns.command import COMMAND
from ostler.work.turns.turn_walls import notices_without_wall, wall_of
from ostler.work.walls import Enclosure, git_folders, shadow_alone, wall_around
from work.scripted import Stable, collect

SCRIPT = AGENTS["script"]


def around(access: Any = "write", folder: str = "/w", agent: Any = SCRIPT, **settings: Any) -> Enclosure | None:
    environ = {"HOME": "/home/me"}
    return wall_around(Settings(**settings), agent, access, folder, state="/s", environ=environ)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the kernel have another version of Landlock."""
    return lambda version: monkeypatch.setattr(landlock, "abi", lambda: version)


# -- deciding


def test_what_a_wall_leaves_open(kernel: Any) -> None:
    kernel(7)
    walled = around(wall_paths=("~/cache", "/opt/x"))
    assert walled is not None and walled.scratch.startswith("/s/tmp/")
    state = "/home/me/.local/state/ostler-script"
    assert walled.wall == Wall(writable=("/w", walled.scratch, "/dev/shm", state, "/home/me/cache", "/opt/x"))
    caches = {"npm_config_cache": "npm", "UV_CACHE_DIR": "uv", "GOCACHE": "go-build"}
    assert walled.env == {"TMPDIR": walled.scratch, **{n: f"{walled.scratch}/{c}" for n, c in caches.items()}}
    opened = around(wall_paths=("~/.cache", "~/.npm"))
    assert opened is not None and [*opened.env] == ["TMPDIR"]  # what is opened is used
    reading = around("read")
    assert reading is not None and reading.wall.writable == (reading.scratch, "/dev/shm", state)
    command = around("read", agent=COMMAND, wall_sockets=("exec",))
    assert command is not None and command.wall == Wall(writable=(command.scratch, "/dev/shm"), sockets=True)


def test_where_there_is_none(kernel: Any) -> None:
    kernel(7)
    assert around("full") is None and around(walls="off") is None
    kernel(2)
    assert around() is None
    assert walls.why_no_walls() == "this kernel has Landlock version 2; walls need 3"
    kernel(0)
    with pytest.raises(OstlerError) as caught:
        around(walls="required")
    assert (caught.value.kind, caught.value.message) == (
        "denied",
        "walls are required, and this kernel has no Landlock",
    )
    assert around("full", walls="required") is None


def test_who_gets_a_wall_and_why_not(kernel: Any) -> None:
    kernel(7)
    codex, cursor, unknown = AGENTS["codex"], AGENTS["cursor"], structs.replace(COMMAND, name="mine")
    assert around(agent=codex) is around(agent=codex, walls="required") is around(agent=cursor) is None
    with pytest.raises(OstlerError) as caught:
        around(agent=cursor, walls="required")
    assert caught.value.message == "walls are required, and cursor has not been tried behind a wall"
    # Of an unknown one `loose` says that it needs more; what a known one needs stands in its adapter.
    assert around(agent=unknown) is not None and around(agent=unknown, loose=("mine",)) is None
    assert around(agent=unknown, loose=("mine",), walls="required") is not None
    assert around(agent=AGENTS["qwen"], loose=("qwen",)) is not None


# What of HOME each of them can change behind a wall, and what leads to its shadow.
STATES = {
    "gemini": ("GEMINI_CLI_HOME", "/home/me/.gemini", {".gemini/tmp", ".gemini/history"}),
    "qwen": ("QWEN_HOME", "/home/me/.qwen", {".qwen/projects", ".qwen/tmp"}),
    "copilot": ("COPILOT_HOME", "/home/me/.copilot", {".copilot/session-state"}),
}


@pytest.mark.parametrize("name", STATES)
def test_a_shadow_stands_in_for_an_agents_state(kernel: Any, name: str) -> None:
    kernel(7)
    variable, real, kept = STATES[name]
    walled = around("read", agent=AGENTS[name])
    assert walled is not None and walled.shadow is not None
    assert (walled.shadow.real, walled.env[variable]) == (real, f"{walled.scratch}/home")
    assert {*walled.wall.writable} == {walled.scratch, "/dev/shm", *(f"/home/me/{path}" for path in kept)}
    assert walled.wall.editable == ()
    inner = ".gemini" if name == "gemini" else ""
    assert walled.shadow.place == os.path.join(walled.scratch, "home", inner).rstrip("/")
    elsewhere = {"HOME": "/home/me", variable: "/else"}
    other = wall_around(Settings(), AGENTS[name], "read", "/w", state="/s", environ=elsewhere)
    assert other is not None and other.shadow is not None
    assert other.shadow.real == os.path.join("/else", inner).rstrip("/")
    assert all(path.startswith(("/else/", "/s/tmp/", "/dev/shm")) for path in other.wall.writable)


def test_a_shadow_without_a_wall_links_everything_and_keeps_what_is_new() -> None:
    alone = shadow_alone(AGENTS["gemini"], state="/s", environ={"HOME": "/home/me"})
    assert (alone.wall, alone.shape, alone.env) == (None, (), {"GEMINI_CLI_HOME": f"{alone.scratch}/home"})
    assert alone.folders == ("/home/me/.gemini/tmp", "/home/me/.gemini/history")
    assert alone.shadow is not None and alone.shadow.keeps_new
    assert (alone.shadow.real, alone.shadow.copied, alone.shadow.logins) == ("/home/me/.gemini", (), {})


def test_what_goes_with_the_turn(kernel: Any) -> None:
    kernel(7)
    kept = "/home/me/.claude/projects", "/home/me/.claude/tasks"
    own = "/home/me/.claude/session-env/an-id"
    named = wall_around(
        Settings(), AGENTS["claude"], "read", "/w", state="/s", environ={"HOME": "/home/me"}, session="an-id"
    )
    assert named is not None and (named.folders, named.fleeting) == (kept, (own,))
    assert {*named.wall.writable} == {named.scratch, "/dev/shm", *kept, own}
    unnamed = around("read", agent=AGENTS["claude"])
    assert unnamed is not None and unnamed.fleeting == ()


def test_opencodes_database_is_edited_and_its_login_where_it_is_renewed(kernel: Any, tmp_path: Path) -> None:
    kernel(7)
    data, environ = tmp_path / ".local/share/opencode", {"HOME": str(tmp_path)}
    data.mkdir(parents=True)
    database = tuple(f"{data}/opencode.db{end}" for end in ("", "-wal", "-shm"))
    for login, further in (('{"x": {"type": "api"}}', ()), ('{"x": {"type": "oauth"}}', (f"{data}/auth.json",))):
        (data / "auth.json").write_text(login)
        walled = wall_around(Settings(), AGENTS["opencode"], "read", "/w", state="/s", environ=environ)
        assert walled is not None and walled.shadow is None
        assert (walled.wall.editable, walled.files) == ((*database, *further), database)
        assert {*walled.folders} == {f"{data}/log", f"{tmp_path}/.local/state/opencode/locks"}


def test_what_the_doctor_says(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {}
    monkeypatch.setattr(walls, "_tried", lambda: "")
    for version in (0, 3, 7):
        kernel(version)
        said[version] = walls.described_walls()
    assert said == {
        0: (False, "none: this kernel has no Landlock"),
        3: (True, "Landlock version 3: files, unix sockets; not signals"),
        7: (True, "Landlock version 7: files, signals, unix sockets"),
    }


@needs("landlock")
def test_the_doctor_builds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walls._tried() == ""

    def refuse(*arguments: Any) -> int:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(landlock, "_call", refuse)
    monkeypatch.setattr(landlock, "abi", lambda: 7)
    assert walls.described_walls() == (False, "none: it could not be built: Operation not permitted")
    monkeypatch.setattr(landlock, "start_behind", lambda rules, start: start())
    assert walls._tried() == "it did not hold"


def test_a_folder_that_holds_the_home_is_refused_under_write(kernel: Any) -> None:
    kernel(7)
    for folder in ("/home/me", "/home", "/"):
        with pytest.raises(OstlerError) as caught:
            around(folder=folder)
        assert caught.value.kind == "denied" and "holds your home folder" in caught.value.message
    with pytest.raises(OstlerError, match="holds ostler's own state"):
        around(folder="/s")
    for folder in ("/home/me", "/home", "/"):
        assert around("read", folder=folder) is not None
    assert around(folder="/home/me/code") is not None and around(folder="/home/mel") is not None


def test_a_work_tree_needs_the_git_folder_that_knows_it(tmp_path: Path) -> None:
    main, tree, foe = tmp_path / "main", tmp_path / "tree", tmp_path / "foe"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(main)]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tree)], check=True)
    assert git_folders(str(tree)) == [str(main / ".git")]
    foe.mkdir()
    (foe / ".git").write_text((tree / ".git").read_text())  # it names a real one, which does not know it
    assert git_folders(str(foe)) == git_folders(str(main)) == git_folders(str(tmp_path)) == []
    for text in (f"gitdir: {Path.home()}\n", "gitdir: \0\n", "x", ""):
        (foe / ".git").write_text(text)
        assert git_folders(str(foe)) == []


# -- holding


@pytest.fixture
def walled(stable: Stable) -> Stable:
    stable.script.env["OSTLER_WALLS"] = "auto"
    return stable


@needs("landlock")
@pytest.mark.parametrize("tty", [None, Size(80, 24)], ids=["pipes", "terminal"])
async def test_a_command_is_kept_to_its_access(walled: Stable, tmp_path: Path, tty: Size | None) -> None:
    outside = tmp_path / "outside"
    line = (
        f'echo in > inside; echo out > {outside}; echo tmp > "$TMPDIR/t" && cat "$TMPDIR/t"; '
        "echo x > /dev/shm/o-$$ && rm /dev/shm/o-$$"
    )
    async with walled.ostler() as o:
        for access, inside in (("read", False), ("write", True)):
            envelope = await o.exec(["/bin/sh", "-c", line], folder=str(walled.folder), access=access, tty=tty)
            assert envelope.access == access
            assert (walled.folder / "inside").exists() is inside and not outside.exists()
            assert "tmp" in envelope.text
    assert list((o.store.folder / "tmp").iterdir()) == []


@needs("landlock")
async def test_without_a_wall_a_command_has_no_access_but_full(walled: Stable) -> None:
    walled.script.env["OSTLER_WALLS"] = "off"
    async with walled.ostler() as o:
        with pytest.raises(OstlerError) as caught:
            async for _ in o.exec(["touch", "made"], folder=str(walled.folder), access="write"):
                pass
    assert (caught.value.kind, caught.value.hint) == ("denied", "Use --access full")
    assert not (walled.folder / "made").exists()


@needs("landlock")
@pytest.mark.parametrize("transport", ["pipe", "dialog", "visible"])
async def test_the_scripted_agent_is_kept_to_its_access_and_remembers(
    walled: Stable, tmp_path: Path, transport: Any
) -> None:
    outside = tmp_path / "outside"
    walled.script.plays([{"run": f"echo in > inside; echo out > {outside}"}, {"history": True}])
    walled.script.home = tmp_path / "new" / "home"  # its state is not there yet
    walled.script.env["OSTLER_SCRIPT_HOME"] = str(walled.script.home)
    async with walled.ostler() as o:
        session = await o.session("script", folder=str(walled.folder), access="write")
        for expected in ("nothing", "first"):
            prompt = "first" if expected == "nothing" else "second"
            await collect(session, prompt, transport=transport)
            assert session.last is not None and session.last.ok and session.last.text == expected
        if transport == "visible":  # in the same terminal, whose wall it is
            assert len(o.terminals.list(session.id)) == 1
        if transport == "dialog":
            assert len({launch.pid for launch in walled.script.launches}) == 1
        await collect(session, "third", access="read", transport="pipe")
    assert (walled.folder / "inside").exists() and not outside.exists()
    assert list((o.store.folder / "tmp").iterdir()) == []


@needs("landlock")
async def test_a_commit_in_a_work_tree(walled: Stable, tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run([*git, "-C", str(main), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "-C", str(main), "worktree", "add", "-q", str(tree)], check=True)
    async with walled.ostler() as o:
        commit = [*git, "commit", "-q", "--allow-empty", "-m", "walled"]
        envelope = await o.exec(commit, folder=str(tree), access="write")
    assert envelope.ok, envelope
    log = subprocess.run(["git", "-C", str(tree), "log", "--format=%s"], check=True, capture_output=True, text=True)
    assert log.stdout.split() == ["walled", "x"]


@needs("landlock")
async def test_everyday_work_goes_on_behind_a_wall(walled: Stable) -> None:
    code = """
import concurrent.futures, multiprocessing, os, pty, socket, subprocess, tempfile
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "x"), "w") as file:
        file.write("x")
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        assert sorted(pool.map(abs, (-1, -2))) == [1, 2]
    multiprocessing.Lock()
    socket.socketpair()
    master, slave = pty.openpty()
    subprocess.run(["git", "init", "-q", "repository"], check=True)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
    print("all of it")
"""
    (walled.folder / "work.py").write_text(code)
    async with walled.ostler() as o:
        envelope = await o.exec([sys.executable, "work.py"], folder=str(walled.folder), access="write")
    assert envelope.ok and envelope.text == "all of it\n", envelope


@needs("landlock")
def test_at_the_command_line(walled: Stable) -> None:
    done = walled.cli("exec", "--access", "read", "--json", "--", "touch made")
    out, err = done.communicate()
    envelope = json.loads(out)
    assert (envelope["access"], envelope["status"]) == ("read", "error"), err
    assert not os.path.exists(walled.folder / "made")


async def test_what_an_unknown_launcher_starts_has_no_wall(walled: Stable, kernel: Any) -> None:
    """It runs programs from a cache that it has to write; what npx and uvx start is found without them."""
    kernel(7)
    config = walled.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[acp]\nmine = ["bunx", "x"]\nother = ["npx", "-y", "x"]\n[agents.tool]\ncommand = ["npx", "-c", "y"]\n'
    )
    async with walled.ostler() as o:
        setup = o.setup_in(str(walled.folder))
        why = {n: walls.why_no_wall(setup.settings, setup.agents[n], "write", ()) for n in ("mine", "other", "tool")}
        by = walls.kept(setup.settings, setup.agents["mine"], "write", ())
    assert why == {
        "mine": "bunx runs programs from a cache it has to write: install mine and point your settings at its program",
        "tool": "npx runs programs from a cache it has to write: install tool and point your settings at its program",
        "other": "",
    }
    assert by == Enforcement(by="denied", why=why["mine"])


def test_by_what_each_is_kept(kernel: Any) -> None:
    def by(name: str, access: Any, programs: tuple[str, ...] = (), **settings: Any) -> str:
        return walls.kept(Settings(**settings), AGENTS[name], access, programs).by

    kernel(7)
    assert [by("claude", a) for a in ("read", "write")] == ["wall", "wall"]
    assert [by("claude", a, ("bwrap", "socat")) for a in ("read", "write")] == ["wall", "sandbox"]
    assert [by("codex", "write"), by("cursor", "write"), by("qwen", "write")] == ["sandbox", "flags", "wall"]
    assert [by("gemini", "write", walls="off"), by("qwen", "write", walls="off")] == ["flags", "denied"]
    assert by("qwen", "write", walls="off", loose=("qwen",)) == "flags"
    kernel(0)
    assert walls.kept(Settings(), AGENTS["gemini"], "read", ()) == Enforcement(
        by="flags", why="this kernel has no Landlock"
    )
    assert by("gemini", "read", walls="required") == "denied"


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_on_a_kernel_without_walls_all_is_as_before_and_said(walled: Stable, kernel: Any, version: int) -> None:
    kernel(version)
    async with walled.ostler() as o:
        setup = o.setup_in(str(walled.folder))
        said = {}
        for name in ("gemini", "claude", "codex", "script"):
            turn = Turn(id="t", session="s", agent=name, prompt="x", folder=str(walled.folder), access="read")
            assert wall_of(setup, turn, AGENTS[name]) is None
            said[name] = notices_without_wall(setup, turn, AGENTS[name], None)
    assert said["codex"] == said["script"] == ()
    assert said["gemini"] == (
        f"there is no wall around gemini: {walls.why_no_walls()}. Its own flags keep it to --access read",
    )
    assert said["claude"][0].startswith("there is no wall around claude: this kernel has ")
