"""How long `ostler --help` takes, beside a bare Python start and an import of all that a turn needs."""

import os
import statistics
import subprocess
import sys
import time

ROUNDS = int(os.environ.get("ROUNDS", "15"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "ostler --help": [sys.executable, "-m", "ostler", "--help"],
    "import ostler.work": [sys.executable, "-c", "import ostler.work"],
}


def main() -> None:
    rows: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            rows[name].append((time.perf_counter() - began) * 1000)
    bare = statistics.median(rows["python -c pass"])
    for name, values in rows.items():
        ms = statistics.median(values)
        print(f"{name:24} {ms:7.1f} ms   {ms / bare:5.1f}× a bare start")


if __name__ == "__main__":
    main()
