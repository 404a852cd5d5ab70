"""What `read_secrets = false` hides: the list, the rules, and that it holds."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from ostler.agents import AGENTS
from ostler.work.secret_files import SECRETS, all_but, hidden_paths
from ostler.work.turns.command import COMMAND
from work.scripted import Stable

OTHERS = {
    "claude": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "gemini": ".gemini/oauth_creds.json",
    "qwen": ".qwen/oauth_creds.json",
    "opencode": ".local/share/opencode/auth.json",
    "copilot": ".copilot/config.json",
}


def is_hidden(path: str, agent: Any, environ: dict[str, str] | None = None) -> bool:
    hidden = hidden_paths(agent, "/home/me", environ or {})
    return any(Path("/home/me", path).is_relative_to(each) for each in hidden)


def test_an_agent_has_its_own_login_and_no_other() -> None:
    for name in OTHERS:
        assert [other for other, path in OTHERS.items() if not is_hidden(path, AGENTS[name])] == [name]
    assert all(is_hidden(path, COMMAND) for path in OTHERS.values())
    assert all(is_hidden(path, COMMAND) for path in SECRETS)
    assert not is_hidden(".gitconfig", COMMAND) and not is_hidden(".local/share/fonts", COMMAND)
    assert hidden_paths(COMMAND, "/home/me", {"CODEX_HOME": "/else"}).count("/else") == 1


def test_rules_for_all_but_what_is_hidden(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/b/c", "a/d", "e/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    hidden = [str(tmp_path / "a/b/secret"), str(tmp_path / "none")]
    found = {os.path.relpath(path, tmp_path) for path in all_but(hidden, str(tmp_path))}
    assert found == {"a/b/c", "a/d", "e"}
    by_link = all_but([str(tmp_path / "link/b/secret")], str(tmp_path))
    assert sorted(by_link) == sorted(all_but(hidden, str(tmp_path)))


@needs("landlock")
@pytest.mark.parametrize("read", [True, False])
async def test_they_cannot_be_read_behind_a_wall(stable: Stable, read: bool) -> None:
    stable.script.env |= {"OSTLER_WALLS": "required", "OSTLER_READ_SECRETS": str(int(read)), "HOME": str(stable.home)}
    for path in (*SECRETS, *OTHERS.values()):
        target = stable.home / path / ("x" if Path(path).suffix in ("", ".d") and "history" not in path else "")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("secret")
    (stable.home / "way").symlink_to(stable.home / ".ssh")
    (stable.home / ".gitconfig").write_text("[user]\n")
    code = (
        "import json, os, sys\nfound = []\n"
        "for path in sys.argv[1:]:\n"
        "    for each in (path, path + '/x'):\n"
        "        try: found += [path] if open(each).read() == 'secret' else []\n"
        "        except OSError: pass\n"
        "open('made', 'w').close(); open(os.path.expanduser('~/.gitconfig')).close(); print(json.dumps(found))"
    )
    paths = [str(stable.home / path) for path in (*SECRETS, *OTHERS.values(), "way")]
    async with stable.ostler() as o:
        argv = ["python3", "-c", code, *paths]
        envelope = await o.exec(argv, folder=str(stable.folder), access="write")
    assert envelope.ok, envelope
    assert set(json.loads(envelope.text)) == ({*paths} if read else set())


async def test_without_a_wall_a_notice_says_so(stable: Stable) -> None:
    stable.script.env |= {"OSTLER_WALLS": "off", "OSTLER_READ_SECRETS": "0"}
    _, events = await stable.turn("hello", access="read")
    said = [getattr(event, "text", "") for event in events if getattr(event, "code", "") == "launch"]
    (notice,) = said
    assert notice.startswith("read_secrets is false, but ")
    assert notice.endswith(' runs without a wall and can read your keys and logins: walls are "off" in your settings')
