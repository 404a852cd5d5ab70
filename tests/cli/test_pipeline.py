"""`ostler pipeline`: what it says of runs that were ended before their time."""

import json
import signal

import pytest

from cli.conftest import Shell

FLOW = '[nodes.one]\nagent = "claude"\nprompt = "[[wait:60]]"\n'


def test_a_pipeline_of_one_node(shell: Shell) -> None:
    (shell.folder / "flow.toml").write_text(FLOW)
    assert shell("pipeline", "check", "flow.toml").stdout == "flow: 1 node\n"


@pytest.mark.parametrize(
    ("sent", "state", "hint"),
    [(signal.SIGINT, "cancelled", ""), (signal.SIGKILL, "interrupted", "Resume it: ostler pipeline resume ")],
)
def test_a_run_that_is_ended_while_it_starts(shell: Shell, sent: signal.Signals, state: str, hint: str) -> None:
    """What runs it takes long to import: Ctrl-C in that time left a run that was called running for ever."""
    (shell.folder / "flow.toml").write_text(FLOW)
    going = shell.start("pipeline", "run", "flow.toml")
    assert going.stdout
    run = going.stdout.readline().decode().split(" · ")[1]
    going.send_signal(sent)
    going.communicate()
    assert going.returncode == (130 if sent is signal.SIGINT else -sent)
    _, row = shell("pipeline", "list").stdout.splitlines()
    (told,) = json.loads(shell("pipeline", "list", "--json").stdout)
    assert (told["id"], told["pipeline"], told["state"], told["machine"]) == (run, "flow", state, "")
    assert row.split()[:3] == [run, "flow", state]  # the runner may have taken the signal, and ended the node
    shown = shell("pipeline", "show", run).stdout
    assert shown.startswith(f"flow · {run} · {state}\n")
    assert shown.endswith(f"{hint}{run}\n") if hint else "resume" not in shown
