"""A user's set-up of claude-agent-acp, by the settings, that talks to the scripted model."""

import os
from pathlib import Path

from real.settings_acp import named
from real.yard import setup_of

QUIRKS: dict[str, object] = {}


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    named(home, "claude-agent-acp", ["claude-agent-acp"])
    claude = Path(os.environ["OSTLER_TEST_CLIS"]) / "node_modules" / ".bin" / "claude"
    return {**setup_of("claude").setup(home, folder, url, permissive), "CLAUDE_CODE_EXECUTABLE": str(claude)}
