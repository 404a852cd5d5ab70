"""The program that runs the commands of a session's terminal: what a command leaves behind."""

import json
import subprocess
import sys
from pathlib import Path

from ostler.process import job_host

# Another user's process cannot be killed. To have one takes root, so that only the answer of the kernel is made up.
_REFUSED = """
import json, os, subprocess, sys
sys.path.append(sys.argv[1])
import job_host
refused, ours = subprocess.Popen(["sleep", "1234"]), subprocess.Popen(["sleep", "1234"])
kill = job_host.os.kill
def refuse(pid, number):
    if pid == refused.pid:
        raise PermissionError(1, "Operation not permitted")
    kill(pid, number)
job_host.os.kill = refuse
left = job_host._end_children()
print(json.dumps([left, job_host._children() == [refused.pid]]))
kill(refused.pid, 9)
"""


def test_what_may_not_be_killed_is_named_and_left() -> None:
    words = [sys.executable, "-IS", "-c", _REFUSED, str(Path(job_host.__file__).parent)]
    told = subprocess.run(words, capture_output=True, timeout=60, check=True).stdout
    assert json.loads(told) == [["sleep", "sleep"], True]
