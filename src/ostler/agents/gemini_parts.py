"""The parts of gemini's records and messages: errors, usage, and the conversations it keeps."""

import json
import re
from collections.abc import Sequence

from ostler.agents.adapter import Conversation, Record
from ostler.agents.values import UUID, number, table, tables, text
from ostler.errors import ErrorKind
from ostler.words import Usage

ANSI = re.compile(r"\x1b\[[0-9;]*m")
NOISE = re.compile(
    r"\s*$|    at |Warning: True color|YOLO mode is enabled|Ripgrep is not|\[STARTUP\]|Approval mode overridden"
    r"|Warning: --allowed-tools"
)
RETRY = re.compile(r"Attempt (\d+) failed(?: with status (\d+))?.*?Retrying(?: after (\d+)ms)?")
EXITS: dict[int | None, tuple[ErrorKind | None, str]] = {
    41: ("unauthenticated", "Log in: run gemini once, or set GEMINI_API_KEY"),
    42: ("bad_request", ""),
    44: ("bad_request", ""),
    52: ("bad_request", "Mend ~/.gemini/settings.json"),
    55: ("denied", "The folder has a .env file: run gemini there once and trust the folder"),
    130: ("cancelled", ""),
}
FATAL: dict[str, ErrorKind] = {
    "FatalAuthenticationError": "unauthenticated",
    "FatalInputError": "bad_request",
    "FatalConfigError": "bad_request",
    "FatalUntrustedWorkspaceError": "denied",
    "FatalCancellationError": "cancelled",
}


def api_error(message: str) -> tuple[int | None, str]:
    """`[API Error: {"error":{"code":…,"message":…}}]` as its status and its words."""
    inner = re.sub(r"^\[API Error: (.*?)\]$", r"\1", message, count=1, flags=re.S | re.M)
    try:
        error = json.loads(inner)["error"]
        return int(error["code"]), str(error["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None, inner


def usage(stats: Record) -> Usage:
    return Usage(
        input_tokens=number(stats.get("input_tokens")),
        output_tokens=number(stats.get("output_tokens")),
        cached_tokens=number(stats.get("cached")),
    )


def served_by(models: Record) -> str | None:
    """The model that did most of the work: `init` may say `auto`, and a router takes part."""
    counted = [(number(table(m).get("total_tokens")) or 0, name) for name, m in models.items()]
    return max(counted)[1] if counted else None


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    """A look at `session-*.jsonl`: its first record names it, gemini's first message tells the folder."""
    id = text(records[0].get("sessionId")) if records else ""
    if not UUID.fullmatch(id):
        return None
    folder = title = ""
    for said in (said for record in records for said in _user_texts(record)):
        if said.startswith("<session_context>"):
            found = re.search(r"Workspace Directories:\*\*\s+- (/[^\n]*)", said)
            folder = found[1] if found else folder
        elif said.strip() and not title:
            title = said.strip().splitlines()[0][:200]
    return Conversation(id=id, folder=folder, title=title)


def _user_texts(record: Record) -> list[str]:
    messages = tables(table(record.get("$set")).get("messages")) or [record]
    parts = [part for m in messages if m.get("type") == "user" for part in tables(m.get("content"))]
    return [text(part.get("text")) for part in parts]
