"""No secret gets into a log, wherever it comes from: the environment, settings, prompts, arguments, what agents say."""

import json
import sys
from pathlib import Path

from cli.conftest import Shell, shell
from server.served import Served
from waiting import until

__all__ = ["shell"]

OF_ENVIRONMENT = "canary-environment-8f2d6b1e"
OF_NAMED = "canary-named-by-redact-9a7c4d5f"
OF_SETTINGS = "canary-settings-env-1b2c3d4e"
OF_TURN = "canary-turn-variable-5f6a7b8c"
OF_MCP = "canary-mcp-header-9d0e1f2a"
BY_SHAPE = "ghp_" + "a1B2c3D4e5F6" * 3
CANARIES = (OF_ENVIRONMENT, OF_NAMED, OF_SETTINGS, OF_TURN, OF_MCP, BY_SHAPE)
ALL = " ".join(CANARIES)
PROMPT = f"tell nobody about {ALL}"
ENVIRON = {"MY_TOKEN": OF_ENVIRONMENT, "PLAIN": OF_NAMED, "OSTLER_LOG": "debug"}
SETTINGS = f"""
redact = ["PLAIN"]
[[asks]]
answer = "deny"
[env]
OTHER_API_KEY = "{OF_SETTINGS}"
[mcp.wiki]
url = "https://wiki.example/mcp"
headers = {{ Authorization = "Bearer {OF_MCP}" }}
"""


def canaries_in(text: str) -> list[str]:
    return [canary for canary in CANARIES if canary in text]


def test_of_the_command_line(shell: Shell) -> None:
    log = shell.home / "ostler.log"
    shell.toml(SETTINGS)
    shell.environ |= {**ENVIRON, "OSTLER_LOG": f"debug:{log}"}
    turn = (f"--env=TURN_TOKEN={OF_TURN}", f"--model=m-{OF_ENVIRONMENT}", f"--system=be {ALL}", "--quiet")
    said = json.dumps(ALL)
    shell("run", "script", f"[[say:{ALL}]] {PROMPT}", *turn)
    shell("run", "script", f"[[stderr:{ALL}]][[exit:3]] {PROMPT}", *turn)
    shell("run", "script", f'[[fail:{{"kind": "crashed", "message": {said}}}]]', *turn)
    shell("run", "script", f'[[ask:{{"tool": "shell", "input": {said}}}]]', "--dialog", *turn)
    shell("exec", "--", "sh", "-c", f"echo {OF_ENVIRONMENT} {BY_SHAPE} >&2; exit 3")
    shell("exec", "--", f"no-such-program-{OF_ENVIRONMENT}")
    shell("run", f"agent-{OF_ENVIRONMENT}", "x")
    logged = log.read_text()
    assert logged.count("launching") == 5 and "holds a dialog" in logged and "ask " in logged
    assert "[redacted]" in logged
    assert canaries_in(logged) == [] and "tell nobody" not in logged


async def test_of_the_server(tmp_path: Path) -> None:
    class WithSecrets(Served):
        @property
        def env(self) -> dict[str, str]:
            return {**super().env, **ENVIRON}

    served = WithSecrets(tmp_path)
    config = served.home / ".config/ostler/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(SETTINGS)
    await served.start()
    try:
        session = await served.session()
        body = {"prompt": f"[[stderr:{ALL}]][[exit:3]] {PROMPT}", "env": {"TURN_TOKEN": OF_TURN}, "system": ALL}
        begun = await served.http.post(f"/api/sessions/{session}/turns", json=body)
        assert begun.status_code in (201, 202), begun.text
        turn = begun.json()["id"]
        await until(lambda: "exit code 3" in served.log.read_text())
        await served.open(session, [sys.executable, "-c", f"print({ALL!r})", ALL])
        for path in (f"/api/sessions/{OF_ENVIRONMENT}", f"/api/turns/{BY_SHAPE}", f"/api/x?token={OF_NAMED}"):
            assert (await served.http.get(path)).status_code == 404
        refused = await served.http.get("/api/me", headers={"Authorization": f"Bearer {OF_ENVIRONMENT}"})
        assert refused.status_code == 401
        await until(lambda: f"turn {turn}: " in served.log.read_text() and " has ended" in served.log.read_text())
    finally:
        await served.stop()
        await served.http.aclose()
    log = served.log.read_text()
    assert "launching" in log and "was refused" in log and "serving" in log
    assert canaries_in(log) == []
    assert served.token not in log and "tell nobody" not in log
