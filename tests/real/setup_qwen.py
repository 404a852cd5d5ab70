"""A user's set-up of qwen that talks to the scripted model."""

import json
from pathlib import Path

# qwen counts a token for every four bytes and refuses what its model's window does not hold. It reads the
# file that `@name` finds; only a backslash prevents it. It retries a 500 for 80 s, however short the
# server asks it to wait; a 503 as it is told.
QUIRKS = {
    "prompt_bytes": 400_000,
    "deltas": True,
    "schema": "native",
    "shell_tool": "run_shell_command",
    "write_tool": "write_file",
    "sent_as": {"@README.md": "\\@README.md"},
    "server_error": 503,
}


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    # With its version: qwen rewrites settings of an older one.
    settings = {"$version": 4, "model": {"generationConfig": {"maxRetries": 0}}, "telemetry": {"enabled": False}}
    if permissive:
        settings |= _allow_all()
        (folder / ".qwen").mkdir()
        (folder / ".qwen" / "settings.json").write_text(json.dumps(settings, indent=2))
    (home / ".qwen").mkdir()
    (home / ".qwen" / "settings.json").write_text(json.dumps(settings, indent=2))
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "dummy-key-of-the-stable",
        "OPENAI_MODEL": "fake-model",
        "OSTLER_LOOSE": "qwen",
    }


def _allow_all() -> dict[str, dict[str, object]]:
    tools = ["run_shell_command", "write_file", "edit", "notebook_edit", "monitor", "agent", "Bash", "Write", "Edit"]
    allow = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}})
    hook = {"matcher": "*", "hooks": [{"type": "command", "command": f"echo '{allow}'"}]}
    return {
        "tools": {"approvalMode": "yolo", "allowed": tools, "core": tools, "autoAccept": True},
        "permissions": {"allow": tools},
        "security": {"folderTrust": {"enabled": False}},
        "hooks": {"PreToolUse": [hook]},
    }
