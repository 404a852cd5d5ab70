"""`--mcp` of `ostler run` and `ostler chat`: by the settings' names, or by a file."""

import json
import sys
from pathlib import Path

import pytest

from cli.conftest import Shell
from work.acp_yard import frames, overheard

SECRET = "a-secret-of-the-file-0123456789"


@pytest.fixture
def log(shell: Shell, tmp_path: Path) -> Path:
    log = tmp_path / "frames"
    shell.environ |= {"OSTLER_ONLY": "", "OSTLER_LOOSE": "mine"}
    shell.toml(
        f'[acp]\nmine = {json.dumps(overheard(log))}\n[mcp.db]\ncommand = "{sys.executable}"\nargs = ["-c", ""]\n'
    )
    file = {"mcpServers": {"own": {"command": sys.executable, "env": {"OWN_TOKEN": SECRET}}}}
    (shell.folder / "servers.json").write_text(json.dumps(file))
    return log


def names(log: Path) -> list[list[str]]:
    told = [frame["params"] for frame in frames(f"{log}.client") if "mcpServers" in frame.get("params", {})]
    return [[server["name"] for server in params["mcpServers"]] for params in told]


def test_run(shell: Shell, log: Path) -> None:
    flags = ("--access=full", "--mcp=db", "--mcp=servers.json", "--quiet")
    done = shell("run", "mine", f"[[say:it is {SECRET}]]", *flags)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it is [redacted]\n", "")
    assert names(log) == [["db", "own"]]
    state = shell.home / ".local" / "state" / "ostler"
    assert not [path for path in state.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_chat(shell: Shell, log: Path) -> None:
    done = shell("chat", "mine", "--access=full", "--mcp=db", stdin=b"[[say:one]]\n[[say:two]]\n")
    assert done.returncode == 0 and "one" in done.stdout and "two" in done.stdout
    assert names(log) == [["db"]]


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--mcp=db",), 1, "MCP servers need access full"),
        (("--mcp=dbb", "--access=full"), 2, "the settings have no MCP server 'dbb'. Did you mean db?"),
        (("--mcp=no.json", "--access=full"), 2, "cannot read the MCP servers in no.json"),
        (("--mcp=./broken", "--access=full"), 2, "./broken does not define any MCP servers"),
        (("--mcp=db", "--mcp=db", "--access=full"), 2, "there are two of this name"),
    ],
)
def test_what_cannot_be(shell: Shell, log: Path, flags: tuple[str, ...], code: int, said: str) -> None:
    (shell.folder / "broken").write_text("{}")
    done = shell("run", "mine", "hi", *flags)
    assert said in done.stderr and done.stdout == ""
    assert done.returncode == code
