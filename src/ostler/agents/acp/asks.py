"""Permission requests of ACP agents: as asks, and what no answer may allow."""

from msgspec.json import encode

from ostler.access import Access
from ostler.agents.acp.protocol import OPTIONS, TOOLS, Acp
from ostler.agents.paths import may_be_inside, relative_to
from ostler.agents.proposals import unified
from ostler.agents.tool_input import paths_in, title_of
from ostler.agents.values import Record, tables, text
from ostler.model import Asked, AskOption, FileChange


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
        category=TOOLS.get(text(call.get("kind")), ""),
        title=(title_of(name, input) or text(call.get("title")))[:200],
        input=input,
        diff="".join(diff for _, diff in diffs),
        files=_changes_of(call),
        options=tuple(AskOption(id=kind, name=said, kind=kind) for kind, said in OPTIONS.items() if kind in offered),
    )


def malformed(request: Record) -> str:
    """What is wrong with a permission request that nobody could answer; "" if nothing is."""
    options = request.get("options")
    if not isinstance(request.get("toolCall"), dict):
        return "toolCall is not an object"
    if not isinstance(options, list):
        return "options is not a list"
    for option in options:
        if not (isinstance(option, dict) and isinstance(option.get("optionId"), str)):
            return "an option is not an object with an optionId"
        if not isinstance(option.get("kind"), str):
            return "an option has no kind"
    return ""


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
    if paths := edited_paths(call):
        return name, "\n".join(sorted({*paths}))
    return name, encode([input, call.get("title")]).decode("utf-8", "replace")


def needed(call: Record, folder: str, walled: bool = False) -> Access:
    """The access without which nobody may allow this call, whatever the agent thinks.

    Behind a wall a command can do no more than the access allows.
    """
    kind = text(call.get("kind"))
    if kind in ("read", "search", "fetch", "think"):
        return "read"
    if kind == "execute" and walled:
        return "write"
    if TOOLS.get(kind) != "edit":
        return "full"  # a command, another mode, a tool that says nothing of itself
    paths = edited_paths(call)
    inside = all(may_be_inside(path, folder) for path in paths)
    return "write" if paths and inside else "full"  # an edit that names no file may be of any


def edited_paths(call: Record) -> list[str]:
    """The files that an edit is about."""
    if TOOLS.get(text(call.get("kind"))) != "edit":
        return []
    named = [text(each.get("path")) for each in (*tables(call.get("locations")), *tables(call.get("content")))]
    return [path for path in (*named, *paths_in(call.get("rawInput"))) if path]


def _changes_of(call: Record) -> tuple[FileChange, ...]:
    """The files that an edit is about; one whose diff has no text before is new."""
    diffs = [each for each in tables(call.get("content")) if each.get("type") == "diff"]
    new = {text(each.get("path")) for each in diffs if not each.get("oldText")}
    paths = dict.fromkeys(edited_paths(call))
    return tuple(FileChange(path=path, change="add" if path in new else "update") for path in paths)


def diffs_of(call: Record, folder: str) -> list[tuple[str, str]]:
    """(path, unified diff) of each diff in the call's content."""
    found = []
    for content in tables(call.get("content")):
        if content.get("type") == "diff" and isinstance(new := content.get("newText"), str):
            path, old = text(content.get("path")), content.get("oldText")
            found.append((path, unified(relative_to(path, folder), text(old) or None, new)))
    return found
