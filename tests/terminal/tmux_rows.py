"""The rows that a real tmux shows after the bytes of a file, for tests that compare."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from waiting import PATIENCE, wait_until

MARK = "ostler-test-end"
# In raw mode the bytes reach tmux as they are, and the replies it types go nowhere. The title is the last thing sent.
PANE = f"stty raw -echo -opost; cat \"$1\"; printf '\\030\\033]2;{MARK}\\033\\\\'; exec sleep 60"
CONFIG = "set -g status off\nset -g allow-rename off\nset -g remain-on-exit on\n"


def tmux_rows(file: Path, cols: int, rows: int, folder: Path) -> list[str]:
    """Starts a private tmux server, shows the file in it, takes the rows, and ends the server."""
    config = folder / "tmux.conf"
    config.write_text(CONFIG)
    tmux = ["tmux", "-S", str(folder / "tmux.sock"), "-f", str(config), "-u"]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}

    def run(*args: str) -> str:
        return subprocess.run(
            [*tmux, *args], env=env, check=True, capture_output=True, text=True, timeout=PATIENCE
        ).stdout

    size = ("-x", str(cols), "-y", str(rows))
    begin(lambda: run("new-session", "-d", *size, "sh", "-c", PANE, "sh", str(file)))
    try:
        wait_until(lambda: run("display-message", "-p", "#{pane_title}").strip() == MARK)
        return [row.rstrip() for row in run("capture-pane", "-p").split("\n")[:rows]]
    finally:
        run("kill-server")


def begin(start: Callable[[], str], tries: int = 3) -> None:
    """On a busy machine tmux now and then loses the server that it has just started."""
    for left in reversed(range(tries)):
        try:
            start()
            return
        except subprocess.CalledProcessError as error:
            if not left:
                raise AssertionError(error.stderr) from error
            time.sleep(0.2)
