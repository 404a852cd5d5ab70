"""`ostler doctor`: keys, logins, sandboxes, and what an agent itself answers."""

import json
import os
import sys

from cli.conftest import Shell
from ostler.agents import AGENTS

SECRET = "sk-ant-0123456789abcdefghij"


def program(shell: Shell, name: str, text: str = "") -> None:
    path = shell.home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_keys_the_way_to_log_in_and_no_tick_for_what_is_unknown(shell: Shell) -> None:
    program(shell, "claude", f"[ $1 = --version ] && echo 2.1.320 || echo '{' '.join(AGENTS['claude'].needs)}'")
    for name in ("bwrap", "socat"):
        program(shell, name)
    path = f"{shell.home}/bin:{shell.environ['PATH']}"

    def said(**env: str) -> list[str]:
        return shell("doctor", "claude", env={"PATH": path, **env}).stdout.splitlines()

    unknown = said()
    assert unknown[0] == "? claude · Claude Code"
    asking = "no key is set and no login was found. Check with: ostler doctor claude --online"
    assert f"    logged in  unknown: {asking}" in unknown and "    log in     claude auth login" in unknown
    assert "    keys set   none" in unknown and "    sandbox    works" in unknown
    known = said(ANTHROPIC_API_KEY=SECRET)
    assert known[0] == "✓ claude · Claude Code" and SECRET not in "".join(known)
    assert "    logged in  yes" in known and "    keys set   ANTHROPIC_API_KEY" in known
    assert "    not set    ANTHROPIC_AUTH_TOKEN, CLAUDE_CODE_OAUTH_TOKEN" in known
    assert not any(line.startswith("    log in ") for line in known)
    for name in ("bwrap", "socat"):
        (shell.home / "bin" / name).unlink()
    alone = said(PATH=f"{shell.home}/bin:{os.path.dirname(sys.executable)}", ANTHROPIC_API_KEY=SECRET)
    assert alone[0] == "! claude · Claude Code"
    (sandbox,) = [line for line in alone if line.startswith("    sandbox")]
    assert sandbox.startswith("    sandbox    does not work: bwrap and socat are not on PATH. It needs bwrap and socat")


def test_no_tick_for_a_sandbox_that_cannot_be_tried(shell: Shell) -> None:
    program(
        shell, "cursor-agent", f"[ $1 = --version ] && echo 2026.07.01 || echo '{' '.join(AGENTS['cursor'].needs)}'"
    )
    env = {"PATH": f"{shell.home}/bin:{shell.environ['PATH']}", "CURSOR_API_KEY": SECRET}
    said = shell("doctor", "cursor", env=env).stdout.splitlines()
    assert said[0] == "? cursor · Cursor CLI" and "    logged in  yes" in said
    assert "    sandbox    unknown: Cursor CLI cannot check it" in said


def test_what_has_no_version_says_nothing_of_it(shell: Shell) -> None:
    program(shell, "mine")
    shell.toml(f'[acp]\nmine = ["{shell.home}/bin/mine"]\n')
    said = shell("doctor", "mine").stdout.splitlines()
    assert said[0] == "? mine · mine (ACP)" and f"    installed  {shell.home}/bin/mine" in said


def test_online(shell: Shell) -> None:
    well = shell("doctor", "script", "--online")
    assert well.returncode == 0 and "\n    online     answered in " in well.stdout
    failing = {"reply": [{"steps": [{"fail": {"kind": "unauthenticated", "message": "void"}}]}]}
    (shell.folder / "void.json").write_text(json.dumps(failing))
    void = shell("doctor", "script", "--online", env={"OSTLER_SCENARIO": "void.json"})
    assert void.returncode == 1 and void.stdout.startswith("! script") and "unauthenticated: void" in void.stdout
    assert json.loads(shell("sessions", "--all", "--json").stdout) == []
