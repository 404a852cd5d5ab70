"""A user's set-up of opencode that talks to the scripted model."""

import json
from pathlib import Path

QUIRKS = {"prompt_bytes": 1 << 20, "deltas": False, "schema": "extracted", "sends_files": True}

SCHEMA = {"$schema": "https://opencode.ai/config.json"}  # opencode itself writes it into a file without
ALLOW_ALL = SCHEMA | {
    "permission": {"edit": "allow", "bash": {"*": "allow"}, "external_directory": "allow", "*": "allow"},
    "agent": {name: {"permission": {"*": "allow", "edit": "allow"}} for name in ("build", "plan", "general")},
}


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": "dummy-key-of-the-stable"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"fake-model": {"name": "Fake"}}}
    config = SCHEMA | {"provider": {"fake": provider}, "model": "fake/fake-model", "share": "disabled"}
    path = home / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(config | (ALLOW_ALL if permissive else {})))
    if permissive:
        (folder / "opencode.json").write_text(json.dumps(ALLOW_ALL))
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OSTLER_LOOSE": "opencode"}
