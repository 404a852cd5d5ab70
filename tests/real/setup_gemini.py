"""A user's set-up of gemini that talks to the scripted model."""

import json
from pathlib import Path

# gemini reads the file that `@name` finds, wherever it stands in a prompt; only a backslash prevents it.
QUIRKS = {
    "prompt_bytes": 1 << 20,
    "deltas": True,
    "schema": "extracted",
    "sends_files": True,
    "sent_as": {"@README.md": "\\@README.md"},
}

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "model": {"name": "gemini-2.5-pro"},  # without one, a router asks another model first
    "general": {"maxAttempts": 1, "enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
}
ALLOW_ALL = {
    "general": {"maxAttempts": 1, "enableAutoUpdate": False, "defaultApprovalMode": "auto_edit"},
    "tools": {"allowed": ["run_shell_command", "write_file", "replace"], "autoAccept": True},
    "autoAccept": True,
}
POLICY = "".join(
    f'[[rule]]\ntoolName = "{name}"\ndecision = "allow"\npriority = 999\n\n'
    for name in ("*", "write_file", "replace", "run_shell_command")
)


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    config = home / ".gemini"
    config.mkdir()
    (config / "settings.json").write_text(json.dumps(SETTINGS | (ALLOW_ALL if permissive else {})))
    if permissive:
        (config / "trustedFolders.json").write_text(json.dumps({str(folder): "TRUST_FOLDER"}))
        (folder / ".gemini" / "policies").mkdir(parents=True)
        (folder / ".gemini" / "settings.json").write_text(json.dumps(ALLOW_ALL))
        for place in (config, folder / ".gemini"):
            (place / "policies").mkdir(exist_ok=True)
            (place / "policies" / "allow.toml").write_text(POLICY)
    return {"GEMINI_API_KEY": "dummy-key-of-the-stable", "GOOGLE_GEMINI_BASE_URL": url}
