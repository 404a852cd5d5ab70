"""What keeps a dialog of codex to its access, whatever the user's config.toml, rules and answers say.

`codex exec` has `--ignore-rules` and never asks. `codex app-server` loads the `.rules` files of the user and the
folder, and asks: an `allow` rule, or a yes to a command that wants to leave the sandbox, runs it outside.
"""

import json
import posixpath
from typing import Any

from ostler.access import Access
from ostler.agents.paths import is_inside, relative_to
from ostler.agents.values import Record, items, table, text
from ostler.errors import quoted
from ostler.model import Turn

# `untrusted` asks before each command and patch; `on-request` only when the model wants to leave the sandbox.
POLICY: dict[Access, str] = {"read": "never", "write": "untrusted", "full": "untrusted"}
PROFILES: dict[Access, str] = {"read": ":read-only", "write": ":workspace"}
SANDBOXES = ("readOnly", "workspaceWrite", "dangerFullAccess")
WIDEST: dict[Access, int] = {"read": 0, "write": 1, "full": 2}
# Nothing is there. But what a profile forbids to read is kept from commands by the sandbox alone, so codex runs
# none outside of it because of an `allow` rule, nor a second time after the sandbox stopped it.
UNREADABLE = "/nonexistent/ostler"
PROFILE = "ostler-"  # how the names of ostler's permission profiles begin
KEPT = (".git", ".agents", ".codex")  # in the folder, and yet not writable


def profile_name(turn: Turn) -> str:
    """A name that no config of the user or a folder can know, and so none can add to."""
    return f"{PROFILE}{turn.id}"


def confinement(turn: Turn, profile: str) -> Record:
    """Parameters of `thread/start` and its kin. `profile`: its `profile_name`."""
    common = {"approvalPolicy": POLICY[turn.access], "approvalsReviewer": "user"}  # else a model gives the answers
    if turn.access == "full":
        return {**common, "sandbox": "danger-full-access"}
    rules = {"extends": PROFILES[turn.access], "filesystem": {UNREADABLE: "deny"}, "network": {"enabled": False}}
    return {
        **common,
        "permissions": profile,
        "config": {"permissions": {profile: rules}},
        "runtimeWorkspaceRoots": [turn.folder],
    }


def wider(turn: Turn, profile: str, begun: Record) -> str:
    """How the thread that codex began is wider than its access; "" where it is not."""
    sandbox, access = table(begun.get("sandbox")), turn.access
    kind = text(sandbox.get("type"))
    if kind not in SANDBOXES or SANDBOXES.index(kind) > WIDEST[access]:
        return f"its sandbox is {kind or 'unknown'}"
    if access != "full" and (sandbox.get("networkAccess") or sandbox.get("writableRoots")):
        return "its sandbox has network access or further folders"
    if access != "full" and table(begun.get("activePermissionProfile")).get("id") != profile:
        return "it took other permissions than those asked for"
    if begun.get("cwd") != turn.folder:
        return f"it works in {begun.get('cwd')}"
    if access != "full" and items(begun.get("runtimeWorkspaceRoots")) != [turn.folder]:
        return "it works in other folders too"
    if begun.get("approvalPolicy") != POLICY[access]:
        return f"its approval policy is {quoted(begun.get('approvalPolicy'))}"
    return "" if begun.get("approvalsReviewer") == "user" else "a model would answer what it asks"


def writable(path: str, folder: str) -> bool:
    """Whether a patch may go there. A link on the way is the sandbox's business, and it sees to it."""
    whole = posixpath.normpath(posixpath.join(folder, path))
    if whole.startswith("/tmp/"):
        return True
    root = posixpath.normpath(folder)
    return is_inside(whole, root) and relative_to(whole, root).split("/")[0] not in KEPT


def escalates(arguments: str) -> bool:
    """Whether a call of the model wants its command to run without, or with a wider, sandbox."""
    try:
        call: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return True
    if not isinstance(call, dict):
        return True
    return call.get("sandbox_permissions", "use_default") not in ("use_default", None) or any(
        call.get(name) for name in ("additional_permissions", "with_escalated_permissions")
    )
