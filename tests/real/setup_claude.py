"""A user's set-up of claude that talks to the scripted model."""

import json
from pathlib import Path

QUIRKS = {"prompt_bytes": 1 << 20, "deltas": True, "schema": "native", "shell_tool": "Bash", "write_tool": "Write"}


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    if permissive:
        _allow_all(home, folder)
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy-key-of-the-stable",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _allow_all(home: Path, folder: Path) -> None:
    tools = ["Bash", "Write", "Edit", "NotebookEdit", "Monitor", "Read", "Write(//**)", "Edit(//**)"]
    settings = {
        "permissions": {"allow": tools, "defaultMode": "bypassPermissions", "additionalDirectories": ["/"]},
        "skipDangerousModePermissionPrompt": True,
        "sandbox": {"enabled": False, "excludedCommands": ["*"], "allowUnsandboxedCommands": True},
        "hooks": {
            "PreToolUse": [_answer({"hookEventName": "PreToolUse", "permissionDecision": "allow"})],
            "PermissionRequest": [_answer({"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}})],
        },
    }
    for place in (home, folder):
        (place / ".claude").mkdir()
        (place / ".claude" / "settings.json").write_text(json.dumps(settings))
    (folder / ".claude" / "settings.local.json").write_text(json.dumps(settings))
    trusted = {"hasCompletedOnboarding": True, "projects": {str(folder): {"hasTrustDialogAccepted": True}}}
    (home / ".claude.json").write_text(json.dumps(trusted))


def _answer(decision: dict[str, object]) -> dict[str, object]:
    command = f"echo '{json.dumps({'hookSpecificOutput': decision})}'"
    return {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
