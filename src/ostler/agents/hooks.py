"""Hooks: callbacks that an agent makes while it works. What is asked for, how, and what an answer looks like. Pure.

Every hook is a command: a small program that POSTs what it is given to ostler and prints what ostler says. HTTP hooks
are not delivered for SessionStart by claude, go through proxies, and are unknown to the other agents.
"""

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ostler.agents.proposals import proposed
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, table, text
from ostler.errors import OstlerError
from ostler.model import Asked, AskOption, Callback, Host, Turn

SCRIPT = "hook.py"
QUICK = 0.05  # seconds that a hook waits for a word that decides nothing
MARKS = 2.0  # and for one that begins or ends something: what is late would be no evidence
ANSWER = "last_assistant_message"  # the agent's answer, in the hook by which it says that it is done
BODY_LIMIT = 1 << 20  # bytes of one hook: of a larger one nothing is taken
MARK = "a hook of ostler"  # by which records of an agent about its hooks tell ours from the user's
OPTIONS = (
    AskOption(id="allow", name="Allow", kind="allow_once"),
    AskOption(id="reject", name="Deny", kind="reject_once"),
)
LEAVING = 3  # seconds for the last hook: codex takes no more, and does not know it again if it says more
LONGEST = 86_400  # seconds: a hook that somebody thinks about; the turn's own limits end it


def denied(reason: str) -> Any:
    """A no, as claude, codex and qwen take it."""
    return {"hookSpecificOutput": _decision("deny", reason)}


def allowed() -> Any:
    """A yes, as claude and qwen take it."""
    return {"hookSpecificOutput": _decision("allow", "allowed in ostler")}


def _decision(word: str, reason: str) -> dict[str, str]:
    return {"hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": reason}


class HookFace(Struct, frozen=True, kw_only=True):
    """The hooks of an agent that ostler uses, by the agent's own names."""

    events: tuple[str, ...]
    start: str = "SessionStart"  # tells the agent's own session id
    submits: str = "UserPromptSubmit"  # a prompt was taken up; tells which
    ends: tuple[str, ...] = ("Stop",)  # the turn is over
    proves: tuple[str, ...] = ("Stop",)  # those of them by which it says that it went well
    leaves: str = "SessionEnd"  # the process is about to exit
    before_tool: str = "PreToolUse"
    after_tool: str = "PostToolUse"
    prompt_ids: tuple[str, ...] = ("prompt_id", "turn_id")  # by which all hooks of one prompt are known, if by any
    denies: Callable[[str], Any] = denied
    allows: Callable[[], Any] = allowed  # None: nothing is said, and its own rules decide
    by: str = ""  # how it is told of them, for the docs


def session_of(payload: Record) -> str:
    """The agent's own session id in what a hook told."""
    return text(payload.get("session_id"))


def asked_by(payload: Record, id: str, folder: str) -> Asked:
    """The tool call that a hook tells of, as an ask."""
    name, input = text(payload.get("tool_name")), table(payload.get("tool_input"))
    files, diff = proposed(input, folder)
    return Asked(id=id, tool=name, title=title_of(name, input), input=input, files=files, diff=diff, options=OPTIONS)


# -- the command -----------------------------------------------------------------------------------------------


def hook_settings(
    face: HookFace, turn: Turn, host: Host, files: dict[str, bytes], *, scale: int = 1, marked: bool = False
) -> dict[str, Any]:
    """The `hooks` of claude's settings, or of those that took its shape; the program goes to the private files.

    `scale`: what a second is in the agent's `timeout`. `marked`: each says on stderr whose it is.
    """
    callback = host.callback
    if callback is None:
        return {}
    command = hook_program(face, host, files)
    hooks: dict[str, Any] = {}
    for event in face.events:
        waits = event == face.before_tool and callback.decides
        usual = LEAVING if event == face.leaves else 10
        seconds = usual if not waits else round(callback.patience or LONGEST) + 10
        hook = {"type": "command", "command": command_line(command, event, marked), "timeout": seconds * scale}
        hooks[event] = [{"hooks": [hook]}]
    return hooks


def by_system_defaults(
    face: HookFace, turn: Turn, host: Host, files: dict[str, bytes], place: tuple[str, str], *, scale: int
) -> dict[str, str]:
    """The variable that names settings below all others, to which the user's own hooks are added.

    `place`: that variable, and the file that it stands for. Raises unsupported where that file is there: its settings
    would be lost.
    """
    variable, usual = place
    hooks = named_hooks(face, turn, host, files, scale=scale)
    if not hooks:
        return {}
    if usual in host.folder_names or variable in turn.env:
        raise OstlerError("unsupported", f"hooks of {turn.agent} need {usual}, which is in use", "Run it without hooks")
    path = f"{host.private}/hooks.json"
    files[path] = msgspec.json.encode({"hooks": hooks})
    return {variable: path}


def named_hooks(face: HookFace, turn: Turn, host: Host, files: dict[str, bytes], *, scale: int) -> dict[str, Any]:
    """`hook_settings` with a name for each, which is shown while it runs, instead of its command."""
    hooks = hook_settings(face, turn, host, files, scale=scale)
    for (group,) in hooks.values():
        group["hooks"][0]["name"] = "ostler"
    return hooks


def hook_program(face: HookFace, host: Host, files: dict[str, bytes]) -> tuple[str, ...]:
    """The argv of the program, to which the name of an event is added."""
    assert host.callback is not None
    path = f"{host.private}/{SCRIPT}"
    files[path] = program(host.callback, face)
    return host.callback.python, "-IS", path


def command_line(argv: Iterable[str], event: str, marked: bool = False) -> str:
    """For /bin/sh. Whatever happens it ends with 0: agents take a 2 for a no, and Python ends so without its file."""
    import shlex  # few turns have hooks

    mark = f"echo {MARK} >&2; " if marked else ""
    return f"{shlex.join((*argv, event))} 2>/dev/null; {mark}exit 0"


def program(callback: Callback, face: HookFace) -> bytes:
    """The program: imports next to nothing, and says nothing where ostler is gone or slow.

    Where a person is to be asked it waits for the next ostler instead, and says no in the end. A call that rules or a
    person decide about is denied where ostler refuses its hook (too large, too many, a full disk).
    """
    decides = callback.decides or callback.asks
    parts = urlsplit(callback.url)
    known = {
        "host": parts.hostname or "",
        "port": parts.port or 0,
        "path": parts.path,
        "token": callback.token,
        "listener": [f"/proc/{callback.listener[0]}/stat", str(callback.listener[1])] if callback.listener else [],
        "asks": face.before_tool if callback.asks else "",
        "denial": _denial(face, "nobody has answered") if callback.asks else "",
        "decides": face.before_tool if decides else "",
        "refusal": _denial(face, "ostler could not check this call") if decides else "",
        "limit": BODY_LIMIT,
        "quick": QUICK,
        "patience": {
            **dict.fromkeys((face.start, face.submits, *face.ends, face.leaves), MARKS),
            **({face.before_tool: callback.patience or LONGEST} if callback.decides else {}),
        },
    }
    return _PROGRAM.replace(b"@KNOWN@", msgspec.json.encode(known))  # which is Python, too, without true and null


def _denial(face: HookFace, reason: str) -> str:
    return msgspec.json.encode(face.denies(reason)).decode()


# Modules written in C alone, and no `site`: about 20 ms. What an agent runs as a hook delays its turn.
_PROGRAM = b"""\
# Tells ostler what a hook of the agent was told. Written for one turn, and removed after it.
KNOWN = @KNOWN@
import sys


def main(event, given=None):
    import time

    body = sys.stdin.buffer.read() if given is None else given.encode()
    known = KNOWN
    until = time.monotonic() + known["patience"].get(event, known["quick"])
    while True:
        try:
            said = ask_ostler(known, event, body, until - time.monotonic())
            break
        except OSError:
            if event != known["asks"]:
                return
        if time.monotonic() > until:
            said = known["denial"].encode()
            break
        time.sleep(0.1)
        known = by_now()
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()


def ask_ostler(known, event, body, patience):
    import _socket

    if len(body) > known["limit"]:  # the reply to it might be lost, while the rest is on its way
        return refused(known, event)
    if known["listener"] and not listens(*known["listener"]):
        raise OSError
    head = "POST %s?event=%s HTTP/1.1\\r\\nHost: %s:%d\\r\\nAuthorization: Bearer %s\\r\\n" % (
        known["path"], event, known["host"], known["port"], known["token"])
    head += "Content-Type: application/json\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(body)
    link = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    link.settimeout(1.0)
    link.connect((known["host"], known["port"]))
    link.sendall(head.encode() + body)
    link.settimeout(max(patience, 0.001))
    answer = b""
    while piece := link.recv(65536):
        answer += piece
    status, _, said = answer.partition(b"\\r\\n\\r\\n")
    if not status:
        raise OSError
    status = status.split(b" ")[1]
    if status in (b"204", b"401"):  # nothing is said of it; or its turn is over, and the access alone holds
        return b""
    return said if status == b"200" else refused(known, event)


def refused(known, event):
    return known["refusal"].encode() if event == known["decides"] else b""


def listens(stat, start):
    import posix

    file = posix.open(stat, posix.O_RDONLY)
    try:
        return posix.read(file, 4096).rpartition(b")")[2].split()[19] == start.encode()
    finally:
        posix.close(file)


def by_now():
    # Another ostler may have taken the turn up, and be asked instead.
    names = {}
    with open(__file__, "rb") as file:
        exec(file.read().partition(b"import sys")[0], names)
    return names["KNOWN"]


try:
    main(*sys.argv[1:])
except BaseException:  # no slip lets a call through that is to be decided
    sys.stdout.buffer.write(refused(KNOWN, *sys.argv[1:2]))
    sys.stdout.buffer.flush()
finally:
    import posix

    posix._exit(0)
"""
