"""`ostler hand`: another agent goes on, in a session that is linked with the old one."""

import json

from cli.conftest import Shell
from cli.in_pty import InPty


def test_a_session_is_handed_over_with_what_was_done(shell: Shell) -> None:
    prompt = '[[plan:["read", "write"]]] [[write:notes.txt]] [[say:half done]]'
    assert shell("run", "claude", prompt, "--name", "old", "--access", "write", "-q").returncode == 0
    told = shell("hand", "old", "codex", "--dry-run").stdout
    for part in ("another agent (claude)", "half done", "- [", "+++ b/notes.txt"):
        assert part in told, part
    handed = shell("hand", "old", "codex", "[[say:finished]]", "--name", "new", "--json")
    envelope = json.loads(handed.stdout)
    assert (handed.returncode, envelope["agent"], envelope["text"]) == (0, "codex", "finished")
    rows = {row["name"]: row for row in json.loads(shell("sessions", "--json").stdout)}
    assert rows["new"]["handed_from"] == rows["old"]["id"] and rows["new"]["access"] == "write"


def test_what_the_other_agent_asks_is_answered_here(shell: Shell) -> None:
    shell.toml('[profiles.talker]\nagent = "codex"\ntransport = "dialog"\n')
    assert shell("run", "claude", "[[say:half done]]", "--name", "old", "--access", "write", "-q").returncode == 0
    ask = (
        '[[ask:{"tool": "shell", "input": {"command": "touch made"},'
        ' "options": ["allow_once", "reject_once"], "then": [{"run": "touch made"}]}]] [[say:so it is]]'
    )
    pty = InPty(["hand", "old", "talker", ask], cwd=shell.folder, env=shell.environ, cols=200)
    try:
        pty.until(b"[a]llow  [d]eny  [v]iew ?")
        pty.type(b"a\r")
        assert pty.end() == 0 and (shell.folder / "made").exists()
    finally:
        pty.close()


def test_what_has_no_turns_cannot_be_handed_over(shell: Shell) -> None:
    refused = shell("hand", "nobody", "codex")
    assert refused.returncode == 2 and "no session is called 'nobody'" in refused.stderr
