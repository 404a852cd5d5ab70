"""The scripted agent from the outside: an environment that serves every agent by it, and its launches."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct


class ScriptLaunch(Struct, frozen=True, kw_only=True):
    """One start of the scripted agent for a turn (`--version` and `--help` do not count)."""

    pid: int
    argv: tuple[str, ...]
    folder: str
    session: str
    sha256: str  # of the prompt
    prompt: str  # its first 200 characters
    at: float


def launches(home: str | Path) -> list[ScriptLaunch]:
    """Every launch under this $OSTLER_SCRIPT_HOME, oldest first."""
    try:
        lines = (Path(home) / "launches.ndjson").read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=ScriptLaunch) for line in lines]


class ScriptedAgent:
    """The scripted agent in a home of its own: `env` serves every agent name by it, without delays."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {
            "OSTLER_ONLY": "script",
            "OSTLER_SCRIPT_HOME": str(home),
            "OSTLER_SCRIPT_SPEED": "0",
            "OSTLER_WALLS": "off",  # its steps may write wherever a test looks
        }

    def plays(self, *replies: dict[str, Any] | Sequence[dict[str, Any]], tui: dict[str, Any] | None = None) -> Path:
        """Writes a scenario and names it in `env`. A list of steps is a reply to every prompt; `tui` is its table."""
        whole = [reply if isinstance(reply, dict) else {"steps": list(reply)} for reply in replies]
        path = self.home / "scenario.json"
        path.write_text(json.dumps({"reply": whole, **({"tui": tui} if tui else {})}))
        self.env["OSTLER_SCENARIO"] = str(path)
        return path

    @property
    def launches(self) -> list[ScriptLaunch]:
        return launches(self.home)
