"""A user's set-up of copilot that talks to the scripted model."""

import json
import os
from pathlib import Path

QUIRKS = {"prompt_bytes": 1 << 20, "deltas": True, "schema": "extracted"}

COMMANDS = ["bash", "cat", "echo", "ls", "sh", "sleep", "touch"]


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    # It unpacks 235 MB of itself into each new home: once is enough.
    unpacked = Path(os.environ["OSTLER_TEST_CLIS"], "copilot-unpacked")
    unpacked.mkdir(exist_ok=True)
    (home / ".cache").mkdir()
    (home / ".cache" / "copilot").symlink_to(unpacked)
    if permissive:
        _allow_all(home / ".copilot", folder)
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "dummy-key-of-the-stable",
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "2000000",
        "COPILOT_MODEL": "fake-model",
        "COPILOT_OFFLINE": "true",
        "OSTLER_TUI_START": "180",  # it begins with an animation, which takes long where the machine is busy
        **({"COPILOT_ALLOW_ALL": "true"} if permissive else {}),
    }


def _allow_all(config: Path, folder: Path) -> None:
    approvals = [{"kind": "write"}, {"kind": "commands", "commandIdentifiers": COMMANDS}]
    saved = {"locations": {str(folder): {"tool_approvals": approvals, "allowed_directories": ["/"]}}}
    config.mkdir()
    (config / "permissions-config.json").write_text(json.dumps(saved))
    (config / "settings.json").write_text(json.dumps({"trustedFolders": ["/"], "defaultPermissionMode": "allow-all"}))
