"""ACP, the Agent Client Protocol (version 1): its words, and what differs between the agents that speak it."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from ostler.access import Access
from ostler.agents.dialog import CallName
from ostler.agents.values import Record, table, text
from ostler.errors import ErrorKind
from ostler.model import AnyEvent, AskOptionKind, Host, Limited, Turn

PROTOCOL = 1
GUARD = "\u200b"  # before a prompt that must not be taken for a command: several agents trim before they look
CALLS: dict[str, CallName] = {
    "fs/read_text_file": "read_file",
    "fs/write_text_file": "write_file",
    "terminal/create": "terminal_create",
    "terminal/output": "terminal_output",
    "terminal/wait_for_exit": "terminal_wait",
    "terminal/kill": "terminal_kill",
    "terminal/release": "terminal_release",
}
CODES: dict[ErrorKind, int] = {"not_found": -32002, "bad_request": -32602, "unsupported": -32601, "cancelled": -32800}
ERRORS: dict[int, ErrorKind] = {-32000: "unauthenticated", -32002: "not_found", -32800: "cancelled"}
OPTIONS: dict[AskOptionKind, str] = {
    "allow_once": "Allow",
    "allow_always": "Allow for this session",
    "reject_once": "Deny",
    "reject_always": "Deny always",
}
# ostler's words for the kinds of tools, which ACP has for all agents alike.
TOOLS = {
    **{"execute": "shell", "read": "read", "search": "search", "fetch": "web"},
    **{"edit": "edit", "delete": "edit", "move": "edit"},
}


def tool_and_input(call: Record) -> tuple[str, Any]:
    """A tool call's name, as its agent calls it or else in ostler's words, and its input."""
    own = text(call.get("name")) or text(table(table(call.get("_meta")).get("claudeCode")).get("toolName"))
    kind = text(call.get("kind"))
    return own or TOOLS.get(kind) or kind or "tool", call.get("rawInput")


def _never(call: Record, output: str) -> bool:
    return False


def _nothing(said: str) -> None:
    return None


def _silent(update: Record) -> None:
    return None


def _no_meta(turn: Turn, host: Host) -> Record:
    return {}


# Modes in which an agent acts unasked, whatever it is: their ids and names, in small letters and nothing else.
UNASKING = frozenset(
    (
        *("auto", "yolo", "autopilot", "never", "bypass", "bypasspermissions", "fullaccess", "agentfullaccess"),
        *("dangerfullaccess", "fullauto", "autoreview", "autoapprove", "autoaccept", "autoedit", "autoedits"),
        *("acceptedits", "acceptall", "allowall", "approveall", "dontask", "unrestricted", "trust", "trustall"),
    )
)


def unasking(mode: str) -> bool:
    return "".join(filter(str.isalnum, mode.rpartition("#")[2])).lower() in UNASKING


class Acp(Struct, frozen=True, kw_only=True):
    """What differs between agents that speak ACP: one of these describes an agent, and needs no class of its own."""

    names: tuple[str, ...] = ()  # one of which it has to call itself; none: whoever it is
    meta: Callable[[Turn, Host], Record] = _no_meta  # `_meta` of a session that begins: what its own words know
    modes: dict[Access, str] = {}  # the mode for each access, by id or by the end of one after `#`
    mode_of: Callable[[Turn], str] | None = None  # instead of `modes`: a mode that the launch of this turn made
    options: dict[str, str] = {}  # config options that a session begins with, where the agent has them
    safe_modes: tuple[str, ...] = ()  # others that go beyond no access, named in the same way
    keeps_mode: bool = False  # the mode is what keeps the access
    model_by_flag: bool = False  # its launch names the model
    mcp_by_flag: bool = False  # its launch names the MCP servers
    reads: bool = True  # it may read files through us
    writes: bool = True
    terminals: bool = True
    embeds: bool = True  # text that goes with a prompt is embedded, where the agent says that it can be
    images_by_path: bool = False  # an image of the folder goes as a file; sent as data, it would be lost
    quotes_paths: bool = True  # in the addresses of files; if not, it takes `%20` as it stands
    marks: str = "/"  # what makes of a prompt a command
    system: Literal["launch", "prompt"] = "prompt"  # where a system prompt goes
    system_limit: int | None = None  # bytes of it that a launch takes; a longer one goes before the first prompt
    tool: Callable[[Record], tuple[str, Any]] = tool_and_input
    aside: Callable[[str], AnyEvent | None] = _nothing  # what a message means that is not the model's but the program's
    error_mark: str = ""  # what an error begins with that is told as a message
    failed: Callable[[Record], bool | None] = _silent  # whether an update says that the turn failed, or that it goes on
    retrying: Callable[[Record], Limited | None] = _silent  # what holds the model up, where an update says so
    always_counts: bool = False  # `usage: null` says that no model answered
    denied: Callable[[Record, str], bool] = _never  # whether a call failed since a rule forbids it, and its output
    counts: Literal["turn", "process", "no"] = "turn"  # what the tokens of an answer are a sum of
    loads_as: str = ""  # stands before the id of a session that is loaded
    replays_late: bool = False  # what it replays of a loaded session comes after its answer, too
    leaves_commands: bool = False  # an interrupt leaves the command alive that ran

    def mode_for(self, turn: Turn) -> str:
        """The mode that asks, within the access; "" where the agent has none."""
        return self.mode_of(turn) if self.mode_of else self.modes.get(turn.access, "")
