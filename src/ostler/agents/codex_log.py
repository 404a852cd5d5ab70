"""codex's own log on stderr: the only place that tells of commands and patches its sandbox refused."""

import json
import re
from typing import NamedTuple

from ostler.agents.adapter import title_of

# RUST_LOG: errors, and of the telemetry events those of a refusal and those with a tool's arguments.
FILTER = "error,codex_otel.log_only[{outcome}]=info,codex_otel.log_only[{arguments}]=info"

_OUTCOME = re.compile(r'event\.name="codex\.sandbox_outcome" .*?call_id=(\S+) outcome=denied')
_RESULT = re.compile(
    r'event\.name="codex\.tool_result" .*?call_id=(\S+) .*? arguments=(\{.*?\}|.*\*\*\* End Patch\s*) output=(.*)', re.S
)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
_STAMP = r"^\d{4}-\d\d-\d\dT\S+Z +[A-Z]+ "
_RECORD = re.compile(rf"{_STAMP}.*?(?={_STAMP}|^Error|\Z)", re.M | re.S)


class Refusal(NamedTuple):
    id: str
    tool: str  # as the records on stdout call it
    target: str
    reason: str
    escalated: bool  # the model asked to leave the sandbox


class ToolLog:
    """Finds refused tool calls, line by line: a patch in the log runs over several lines."""

    def __init__(self) -> None:
        self._refused: set[str] = set()
        self._record = ""

    def read(self, line: str) -> Refusal | None:
        if found := _OUTCOME.search(line):
            self._refused.add(found[1])
            return None
        if re.match(_STAMP, line):
            self._record = line
        elif self._record and len(self._record) < 1 << 20:
            self._record += "\n" + line
        if " output=" not in line or not (found := _RESULT.search(self._record)):
            return None
        self._record = ""
        return self._refusal(found[1], found[2], found[3])

    def _refusal(self, id: str, arguments: str, said: str) -> Refusal | None:
        escalated = said.startswith("approval policy is Never")
        if id in self._refused:
            reason = "the sandbox refused it"
        elif escalated or said.startswith("patch rejected"):
            reason = said.partition(" mcp_server=")[0]
        else:
            return None
        if files := _PATCHED.findall(arguments.replace("\\n", "\n")):
            return Refusal(id, "file_change", ", ".join(files), reason, escalated)
        return Refusal(id, "command_execution", _command(arguments), reason, escalated)


def without_log(stderr: str) -> str:
    """What codex said itself: its log holds numbers and outputs that tell nothing of why a turn failed."""
    return _RECORD.sub("", stderr).replace("Reading additional input from stdin...\n", "")


def _command(arguments: str) -> str:
    try:
        return title_of("", json.loads(arguments))
    except (ValueError, RecursionError):  # the log cuts long ones
        return arguments[:200]
