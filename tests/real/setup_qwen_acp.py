"""A user's set-up of `qwen --acp`, by the settings, that talks to the scripted model."""

from pathlib import Path

from real.settings_acp import named
from real.yard import setup_of

QUIRKS: dict[str, object] = {"server_error": setup_of("qwen").QUIRKS["server_error"]}


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    named(home, "qwen-acp", ["qwen", "--acp"], loose=True)
    env: dict[str, str] = setup_of("qwen").setup(home, folder, url, permissive)
    return {name: value for name, value in env.items() if name != "OSTLER_LOOSE"}
