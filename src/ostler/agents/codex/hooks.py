"""Hooks of codex for one launch: named by `--config`, and trusted there and then.

codex runs no hook that nobody trusts. What is trusted is noted in its settings, by the place of the hook and a hash of
what it is; for hooks of the command line that note can stand on the command line, too. The user's own hooks, and what
the user trusts of them, are in other layers and stay.
"""

import hashlib
import json
import re
from typing import Any

from ostler.agents.codex.toml import toml
from ostler.agents.hooks import HookFace, hook_settings
from ostler.model import Host, Turn

HOOKS = HookFace(
    events=("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"),
    allows=lambda: None,  # it knows a no alone
    by="`--config=hooks=…`, with a note of trust for this launch alone, beside your own hooks",
)
_PLACE = "/<session-flags>/config.toml"  # what codex calls the command line


def hook_flags(turn: Turn, host: Host, files: dict[str, bytes]) -> list[str]:
    """The flag that names the hooks and says that they are trusted; none without a callback."""
    hooks = hook_settings(HOOKS, turn, host, files)
    if not hooks:
        return []
    notes = {f"{_PLACE}:{snake(event)}:0:0": {"trusted_hash": trusted_hash(event, hooks[event])} for event in hooks}
    return [f"--config=hooks={toml({**hooks, 'state': notes})}"]


def trusted_hash(event: str, groups: list[dict[str, Any]]) -> str:
    """As codex itself makes it: of the event's name and the hook with its defaults, as JSON with sorted keys."""
    ((group,), (hook,)) = groups, groups[0]["hooks"]
    matcher = {"matcher": group["matcher"]} if "matcher" in group else {}
    identity = {"event_name": snake(event), "hooks": [{"async": False, **hook}], **matcher}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def snake(event: str) -> str:
    """`PreToolUse` → `pre_tool_use`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
