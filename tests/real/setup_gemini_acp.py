"""A user's set-up of `gemini --acp`, by the settings, that talks to the scripted model."""

from pathlib import Path

from real.settings_acp import named
from real.yard import setup_of

QUIRKS: dict[str, object] = {}


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    named(home, "gemini-acp", ["gemini", "--acp"])
    return setup_of("gemini").setup(home, folder, url, permissive)  # type: ignore[no-any-return]
