"""What a tool is to a client: its kind, and the files it is about. Pure."""

import os
import re
from collections.abc import Sequence
from typing import Any

from ostler.agents.tool_input import paths_in
from ostler.model import FileChange

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
# ostler's words for tools, as the adapters have them.
_WORDS = {
    **{"shell": "execute", "read": "read", "write": "edit", "edit": "edit", "search": "search", "web": "fetch"},
    **{"plan": "think", "agent": "think", "mcp": "other"},
}
# What most agents call theirs; the first that fits.
_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        ("execute", r"shell|bash|exec|command|terminal"),
        ("delete", r"delete|remove"),
        ("move", r"move|rename"),
        ("edit", r"edit|write|patch|replace|create_file|file_change|insert"),
        ("search", r"grep|glob|search|find|list|^ls$"),
        ("fetch", r"fetch|web|http|browse"),
        ("read", r"read|view|open|cat"),
        ("think", r"think|todo|plan|task|agent"),
    )
)


def kind_of(name: str, category: str) -> str:
    """By ostler's word for the tool, else by how it is called."""
    if name in KINDS:
        return name
    if category in _WORDS:
        return _WORDS[category]
    return next((kind for kind, pattern in _NAMES if pattern.search(name)), "other")


def locations_of(input: Any, files: Sequence[FileChange], folder: str) -> list[dict[str, Any]]:
    """Absolute paths, each once."""
    found = [*(change.path for change in files), *paths_in(input)]
    return [{"path": path} for path in dict.fromkeys(os.path.join(folder, path) for path in found if path)]
