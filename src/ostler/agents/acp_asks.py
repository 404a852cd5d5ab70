"""Permission requests of ACP agents: as asks, and what no answer may allow."""

from collections.abc import Iterable

from msgspec.json import encode

from ostler.agents.acp_words import OPTIONS, TOOLS, Acp
from ostler.agents.adapter import Record, title_of
from ostler.agents.proposals import unified
from ostler.agents.values import table, tables, text
from ostler.words import Access, Asked, AskOption, FileChange

_LEVELS: tuple[Access, ...] = ("read", "write", "full")
_PATHS = ("path", "filepath", "filePath", "file_path", "fileName", "absolute_path")


def asked_of(ask: str, call: Record, request: Record, acp: Acp, folder: str) -> Asked:
    """The ask of a permission request; `call` is the tool call as all its updates make it."""
    name, input = acp.tool(call)
    diffs = diffs_of(call, folder)
    offered = {text(option.get("kind")) for option in tables(request.get("options"))}
    if "allow_once" in offered:
        offered.add("allow_always")  # ours, see `AcpDialog.answer`
    return Asked(
        id=ask,
        tool=name,
        title=(title_of(name, input) or text(call.get("title")))[:200],
        input=input,
        diff="".join(diff for _, diff in diffs),
        files=tuple(FileChange(path=path) for path in dict.fromkeys(paths_of(call))),
        options=tuple(AskOption(id=kind, name=said, kind=kind) for kind, said in OPTIONS.items() if kind in offered),
    )


def option_of(request: Record, kind: str) -> str | None:
    """The id of the option of this kind; options are never chosen by position or id."""
    options = tables(request.get("options"))
    found = [text(option.get("optionId")) for option in options if option.get("kind") == kind]
    if not found and kind == "reject_once":
        found = [text(option.get("optionId")) for option in options if option.get("kind") == "reject_always"]
    return next(filter(None, found), None)


def key_of(call: Record, acp: Acp) -> tuple[str, str]:
    """What an answer for the session covers: edits of the same files, or the very same call."""
    name, input = acp.tool(call)
    if paths := paths_of(call):
        return name, "\n".join(sorted({*paths}))
    return name, encode([input, call.get("title")]).decode("utf-8", "replace")


def needed(call: Record, folder: str) -> Access:
    """The access without which nobody may allow this call, whatever the agent thinks."""
    kind = text(call.get("kind"))
    if kind in ("read", "search", "fetch", "think"):
        return "read"
    if TOOLS.get(kind) != "edit":
        return "full"  # a command, another mode, a tool that says nothing of itself
    root = folder.rstrip("/") + "/"
    inside = all(_inside(path, root) for path in paths_of(call))
    return "write" if inside else "full"


def widest(needs: Iterable[Access]) -> Access:
    return max(needs, key=_LEVELS.index, default="full")


def suffices(access: Access, for_: Access) -> bool:
    return _LEVELS.index(access) >= _LEVELS.index(for_)


def _inside(path: str, root: str) -> bool:
    return ".." not in path.split("/") and (not path.startswith("/") or path.startswith(root))


def paths_of(call: Record) -> list[str]:
    """The files that an edit is about."""
    if TOOLS.get(text(call.get("kind"))) != "edit":
        return []
    input = table(call.get("rawInput"))
    named = [text(each.get("path")) for each in (*tables(call.get("locations")), *tables(call.get("content")))]
    return [path for path in (*named, *(text(input.get(name)) for name in _PATHS)) if path]


def diffs_of(call: Record, folder: str) -> list[tuple[str, str]]:
    """(path, unified diff) of each diff in the call's content."""
    root = folder.rstrip("/") + "/"
    found = []
    for content in tables(call.get("content")):
        if content.get("type") == "diff" and isinstance(new := content.get("newText"), str):
            path, old = text(content.get("path")), content.get("oldText")
            found.append((path, unified(path.removeprefix(root), text(old) or None, new)))
    return found
