"""`ostler pipeline`: what it says of runs that were ended before their time."""

import json
import signal

import pytest

from cli.conftest import Shell
from ostler.pipelines.runs import Runs
from ostler.store import Store
from waiting import wait_until

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


GATED = """
[nodes.ask]
gate = "Go on?"
[nodes.next]
command = ["echo", "went on"]
needs = ["ask"]
"""


def waits_at_gate(shell: Shell) -> str:
    """The run, once its node `ask` waits for a person."""
    (shell.folder / "flow.toml").write_text(GATED)
    going = shell.start("pipeline", "run", "flow.toml")
    assert going.stdout
    run = going.stdout.readline().decode().split(" · ")[1]
    with Store.open(shell.home / ".local/state/ostler") as store:
        wait_until(lambda: Runs(store).node(run, "ask").state == "gate")
    going.kill()
    going.communicate()
    return run


def test_an_answer_lets_an_interrupted_run_go_on(shell: Shell) -> None:
    run = waits_at_gate(shell)
    approved = shell("pipeline", "approve", run, "ask")
    assert approved.returncode == 0, approved.stderr
    assert approved.stdout.startswith("ask is approved\nflow · ") and "✓ next · done" in approved.stdout
    assert json.loads(shell("pipeline", "show", run, "--json").stdout)["run"]["state"] == "done"


def test_a_run_that_was_cancelled_has_no_gate_to_answer(shell: Shell) -> None:
    run = waits_at_gate(shell)
    assert shell("pipeline", "cancel", run).returncode == 0
    refused = shell("pipeline", "approve", run, "ask")
    assert refused.returncode == 2 and f"{run} is cancelled: there is nothing to answer" in refused.stderr
