"""The whole of ostler at a glance: the server, sessions of the scripted agent at work in it, and its link.

    make run                          until Ctrl-C
    python examples/serve.py --once   until the agent's turn has ended

Everything lives in a scratch folder that is removed at the end. No credentials and no agent CLI are needed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
OSTLER = [sys.executable, "-m", "ostler"]
PROMPT = "Give webhook deliveries a retry budget per endpoint, with a check"
DISPATCH = """\
LIMIT = 5


def retry(delivery) -> str:
    \"\"\"What becomes of a delivery that failed.\"\"\"
    return "give up" if delivery.attempts >= LIMIT else "retry"
"""


def main() -> int:
    # `make` is ended by SIGTERM where it runs unattended: the clean-up is the same as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ostler-demo-") as scratch:
        project = Path(scratch, "paddock")
        prepare(project)
        env = {**os.environ, "OSTLER_HOME": f"{scratch}/state", "OSTLER_SCENARIO": str(HERE / "demo.toml")}
        server = json.loads(ostler(["up", "--detach", "--json"], project, env))
        try:
            show(server, project, env)
        except KeyboardInterrupt:
            print("\nstopping …", flush=True)
        finally:
            ostler(["down"], project, env)
    return 0


def prepare(project: Path) -> None:
    project.mkdir()
    (project / "dispatch.py").write_text(DISPATCH)
    subprocess.run(["git", "init", "-q", str(project)], check=True)


def show(server: dict[str, object], project: Path, env: dict[str, str]) -> None:
    """A turn that ended, one that works, a terminal, an agent in its own screen; by several of ostler's doors."""
    url, token = str(server["url"]), ostler(["link", "--bearer"], project, env).strip()
    ostler(["run", "script", "Explain this folder", "--quiet"], project, env)
    turn = subprocess.Popen(
        [*OSTLER, "run", "script", PROMPT, "--access", "write", "--name", "retry-budget", "--quiet"],
        cwd=project,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        open_terminal(url, token, project, env)
        show_agent(url, token, project)
        print(f"\n  ostler is up, and the scripted agent is at work.\n\n  open   {server['link']}\n")
        print("  The session `visible` is an agent in its own screen: take it over, or move it.")
        print("  In another shell (what it does appears in the page):")
        print(f"    export OSTLER_HOME={env['OSTLER_HOME']} OSTLER_SCENARIO={env['OSTLER_SCENARIO']}")
        print(f'    {" ".join(OSTLER)} run script "hello" --folder {project}')
        print("\n  Ctrl-C stops it and removes all of it.", flush=True)
        turn.wait()
        if "--once" not in sys.argv:
            signal.pause()
    finally:
        turn.terminate()
        turn.wait()


def open_terminal(url: str, token: str, project: Path, env: dict[str, str]) -> None:
    """A shell in the session at work, asked for over HTTP as any program may."""
    while not (found := [row for row in sessions(project, env) if row["name"] == "retry-budget"]):
        time.sleep(0.1)
    body = {"session": found[0]["id"], "argv": ["bash", "--norc"], "name": "bash", "cols": 100, "rows": 30}
    post(f"{url}/api/terminals", token, body)


def show_agent(url: str, token: str, project: Path) -> None:
    """An agent in its own screen, which the page shows: take it over, hand it back, move it to another transport."""
    wanted = {"agent": "script", "folder": str(project), "name": "visible", "transport": "pty"}
    session = post(f"{url}/api/sessions", token, wanted)
    post(f"{url}/api/sessions/{session['id']}/turns", token, {"prompt": "Explain what a visible agent is"})


def post(url: str, token: str, body: dict[str, object]) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        told: dict[str, object] = json.load(answer)
    return told


def sessions(project: Path, env: dict[str, str]) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = json.loads(ostler(["sessions", "--json"], project, env))
    return listed


def ostler(args: list[str], project: Path, env: dict[str, str]) -> str:
    done = subprocess.run([*OSTLER, *args], cwd=project, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
