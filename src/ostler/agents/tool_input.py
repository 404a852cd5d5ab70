"""What a tool call is about, out of its input: a command, or files. Every agent has its own names for them.

The page has these names from here: `make tables`.
"""

from typing import Any

from ostler.model import Asked

PATH_NAMES = ("file_path", "filePath", "filepath", "path", "absolute_path", "notebook_path", "fileName")
COMMAND_NAMES = ("command", "cmd")
SEARCH_NAMES = ("pattern", "query", "url")
OLD_TEXT_NAMES = ("old_string", "oldString", "old_str")  # what an edit replaces
NEW_TEXT_NAMES = ("new_string", "newString", "new_str")
CONTENT_NAMES = ("content", "file_text", "fileText")  # all of a file that is written
PATCH_NAMES = ("patch",)


def command_of(input: Any) -> str:
    """The command that a tool call is about."""
    if not isinstance(input, dict):
        return ""
    found = next((value for name in COMMAND_NAMES if (value := input.get(name))), "")
    if isinstance(found, list):
        return " ".join(str(part) for part in found)
    return found if isinstance(found, str) else ""


def paths_in(input: Any) -> list[str]:
    """The files that a tool call is about."""
    if not isinstance(input, dict):
        return []
    return [value for name in PATH_NAMES if isinstance(value := input.get(name), str) and value]


def paths_of(asked: Asked) -> list[str]:
    """The files that an ask is about, those that it would change first."""
    return [*(change.path for change in asked.files), *paths_in(asked.input)]


def title_of(name: str, input: Any) -> str:
    """One line for people: the command, path or pattern that a tool call is about."""
    if isinstance(input, dict):
        for key in (*COMMAND_NAMES, *PATH_NAMES, *SEARCH_NAMES):
            value = input.get(key)
            if isinstance(value, list):
                value = " ".join(str(part) for part in value)
            if isinstance(value, str) and value.strip():
                return value.strip().splitlines()[0][:200]
        for key in ("description", "prompt", "title"):
            if isinstance(value := input.get(key), str) and value.strip():
                return value.strip().splitlines()[0][:200]
    return ""
