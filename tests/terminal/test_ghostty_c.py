"""The compiled declarations of libghostty-vt are those of the pyghostty that is installed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_they_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_ghostty_c", ROOT / "tools" / "ghostty_c.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.TARGET.read_text() == made.generated(), "run `make bindings`"


def test_nothing_is_parsed_when_a_screen_process_starts() -> None:
    wanted = "import sys, ostler.terminal.screen.process; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", wanted], capture_output=True, text=True, check=True).stdout.split()
    assert "ostler.terminal.ghostty_c" in out
    assert not {"pyghostty", "cffi", "pycparser"} & set(out)
