"""A user's set-up of copilot that talks to the scripted model."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

QUIRKS = {"prompt_bytes": 1 << 20, "deltas": True, "schema": "extracted"}

COMMANDS = ["bash", "cat", "echo", "ls", "sh", "sleep", "touch"]


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    # A folder of its own: what an attacker plants in one home must not stand in the next one.
    shutil.copytree(unpacked(), home / ".cache" / "copilot", symlinks=True, copy_function=link_or_copy)
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


def unpacked() -> Path:
    """The 235 MB of itself that it unpacks into each new home: once is enough."""
    clis = Path(os.environ["OSTLER_TEST_CLIS"])
    kept = clis / "copilot-cache"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=clis) as home:
            env = {"HOME": home, "PATH": f"{os.environ['OSTLER_TEST_NODE']}:/usr/bin:/bin"}
            command = [clis / "node_modules" / ".bin" / "copilot", "--version"]
            subprocess.run(command, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
            with contextlib.suppress(OSError):  # another worker was faster
                Path(home, ".cache", "copilot").rename(kept)
    return kept


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another disk
        shutil.copy2(source, target)


def _allow_all(config: Path, folder: Path) -> None:
    approvals = [{"kind": "write"}, {"kind": "commands", "commandIdentifiers": COMMANDS}]
    saved = {"locations": {str(folder): {"tool_approvals": approvals, "allowed_directories": ["/"]}}}
    config.mkdir()
    (config / "permissions-config.json").write_text(json.dumps(saved))
    (config / "settings.json").write_text(json.dumps({"trustedFolders": ["/"], "defaultPermissionMode": "allow-all"}))
