"""A user's set-up of codex that talks to the scripted model."""

from pathlib import Path

QUIRKS = {"prompt_bytes": 1 << 20, "deltas": False, "schema": "native"}

# Off: plugins and analytics, each of which lets codex end 5 s late where there is no network.
CONFIG = """
model = "gpt-5.5"
model_provider = "fake"
{top}
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 1

[features]
plugins = false

[analytics]
enabled = false
{tables}
"""

ALLOW_ALL = """
sandbox_mode = "danger-full-access"
approval_policy = "on-request"
approvals_reviewer = "auto_review"
default_permissions = ":danger-full-access"
"""

ROOTS = """
[sandbox_workspace_write]
writable_roots = ["{home}"]
network_access = true
"""

RULES = "\n".join(
    f'prefix_rule(pattern=["{word}"], decision="allow")' for word in ("bash", "sh", "echo", "touch", "cat", "tee")
)


def setup(home: Path, folder: Path, url: str, permissive: bool) -> dict[str, str]:
    config = home / ".codex"
    config.mkdir()
    tables = ROOTS.format(home=home) + f'[projects."{folder}"]\ntrust_level = "trusted"\n'
    (config / "config.toml").write_text(
        CONFIG.format(url=url, top=ALLOW_ALL if permissive else "", tables=tables if permissive else "")
    )
    if permissive:
        (config / "rules").mkdir()
        (config / "rules" / "default.rules").write_text(RULES + "\n")
        (folder / ".codex").mkdir()
        (folder / ".codex" / "config.toml").write_text(ALLOW_ALL + ROOTS.format(home=home))
    return {"OPENAI_API_KEY": "dummy-key-of-the-stable"}
