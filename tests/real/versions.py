"""Runs what every agent must do with an older and with the newest version of its CLI, and prints a table.

    python tests/real/versions.py OLDER NEWEST [AGENT…]

OLDER and NEWEST are folders with CLIs (see the Makefile). What was found is kept in versions.json, of which
docs/tables.py makes the table of docs/agents.md.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

from ostler.agents import AGENTS
from ostler.work.probe import table

HERE = Path(__file__).parent
KEPT = HERE / "versions.json"
FILES = ("test_agents.py", "test_dialogs.py", "test_late_errors.py")


def main() -> None:
    older, newest, *names = sys.argv[1:]
    failed = False
    for name in names or [agent.name for agent in AGENTS.values() if agent.tested]:
        tested = AGENTS[name].tested
        assert tested is not None, f"{name} has no versions to be tested with"
        results = {version: run(name, folder) for version, folder in zip(tested, (older, newest), strict=True)}
        kept = json.loads(KEPT.read_text()) | {name: {version: said for version, (said, _) in results.items()}}
        KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")
        failed = failed or any(names for _, names in results.values())
    rows = [[name, *map(": ".join, row.items())] for name, row in json.loads(KEPT.read_text()).items()]
    print(table(["agent", "oldest", "newest"], rows))
    sys.exit(failed)


def run(agent: str, folder: str) -> tuple[str, list[str]]:
    """How many tests passed with the CLI of that folder, and the names of those that failed."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += ["-k", f"{agent} and not acp", *(str(HERE / name) for name in FILES)]
        began = time.monotonic()
        subprocess.run(command, env={**os.environ, "OSTLER_TEST_CLIS": folder}, cwd=HERE.parent.parent, check=False)
        said, failed = counted(xml.etree.ElementTree.parse(report).getroot())
    print(f"{agent} of {folder}: {said} in {time.monotonic() - began:.0f} s")
    return said, failed


def counted(report: xml.etree.ElementTree.Element) -> tuple[str, list[str]]:
    """What a JUnit report says: what was skipped did not pass. And the names of what failed."""
    cases = [*report.iter("testcase")]
    skipped = [case for case in cases if case.find("skipped") is not None]
    failed = [
        str(case.get("name")) for case in cases if any(case.find(way) is not None for way in ("failure", "error"))
    ]
    said = f"{len(cases) - len(failed) - len(skipped)} of {len(cases)} passed"
    notes = [f"{len(skipped)} skipped"] * bool(skipped) + [f"not {', '.join(failed)}"] * bool(failed)
    return said + (f" ({'; '.join(notes)})" if notes else ""), failed


if __name__ == "__main__":
    main()
