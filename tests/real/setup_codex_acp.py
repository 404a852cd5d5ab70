"""A user's set-up of codex-acp, by the settings, that talks to the scripted model."""

from pathlib import Path

from real.settings_acp import named
from real.yard import setup_of

# Within its sandbox it runs commands unasked: it asks to leave it.
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "it writes"}
QUIRKS = {"asks_with": ("exec_command", ESCALATED)}


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    named(home, "codex-acp", ["codex-acp"], loose=True)
    return setup_of("codex").setup(home, folder, url, permissive)  # type: ignore[no-any-return]
