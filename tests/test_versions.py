"""What docs/agents.md says of versions is what was run: what was skipped did not pass, and every test counts."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from ostler.agents import AGENTS
from real.versions import FILES, HERE, KEPT, counted


@pytest.mark.parametrize(
    ("cases", "said", "failed"),
    [
        ({"a": "", "b": ""}, "2 of 2 passed", []),
        ({"a": "", "b": "<skipped/>"}, "1 of 2 passed (1 skipped)", []),
        ({"a": "<failure/>", "b": "<error/>", "c": "<skipped/>"}, "0 of 3 passed (1 skipped; not a, b)", ["a", "b"]),
    ],
)
def test_what_a_report_says(cases: dict[str, str], said: str, failed: list[str]) -> None:
    inner = "".join(f'<testcase name="{name}">{how}</testcase>' for name, how in cases.items())
    assert counted(xml.etree.ElementTree.fromstring(f"<r>{inner}</r>")) == (said, failed)


def test_as_many_tests_were_run_as_there_are() -> None:
    """A test that was added since has to be run with each version: `make test-versions`."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(str(HERE / name) for name in FILES)],
        capture_output=True,
        text=True,
        check=True,
        cwd=HERE.parents[1],
    )
    tests = re.findall(r"::\w+\[(.+)\]$", done.stdout, re.M)
    agents = {agent.name: agent.tested for agent in AGENTS.values() if agent.tested}
    there = {name: sum(name in re.split(r"-", each) and "acp" not in each for each in tests) for name in agents}
    kept = json.loads(KEPT.read_text())
    assert {name: tuple(results) for name, results in kept.items()} == agents
    run = {name: {int(said.split(" of ")[1].split()[0]) for said in kept[name].values()} for name in agents}
    assert run == {name: {count} for name, count in there.items()}
