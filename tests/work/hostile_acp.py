"""ACP agents that behave badly, one for each name: `python hostile_acp.py NAME`. Imports nothing of ostler."""

import json
import os
import sys
import time
from typing import Any

NAME = sys.argv[1]
SESSION = "S"


def send(*frames: dict[str, Any], **frame: Any) -> None:
    """All of them in one write, however slow the machine is."""
    lines = (json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in (*frames, frame) if each)
    write(b"".join(lines))


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def say(text: str, **more: Any) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}
    send(method="session/update", params={"sessionId": SESSION, "update": update})


def receive() -> dict[str, Any]:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return dict(json.loads(line))


def end(id: Any, **result: Any) -> None:
    send(id=id, result={"stopReason": "end_turn", **result})


def prompt(id: Any) -> None:
    """Answers one prompt, as NAME does."""
    match NAME:
        case "invalid-utf8":
            chunk = (
                b'{"method":"session/update","params":{"sessionId":"S","update":{"sessionUpdate":"agent_message_chunk"'
            )
            write(chunk + b',"content":{"type":"text","text":"a\xff\xfeb\\ud800c"}}}}\n')
            write(b"\xff\xfe\x00\x80\n")
            end(id)
        case "not-objects":
            write(b'123\n[]\nnull\n"x"\n{"jsonrpc"\n\n   \n{}\n{"id":null}\n[{"method":"session/update"}]\n')
            say("fine")
            end(id)
        case "ends-well-when-cancelled":
            say("working")
            while receive().get("method") != "session/cancel":
                pass
            say(" and done")
            end(id)
        case "garbage-after":
            say("fine")
            end(id)
            write(b"}}}} garbage \x00\x01\n" * 100)
        case "wrong-id":
            say("fine")
            for other in (id + 1000, str(id), None, -1, [id]):
                end(other)
            end(id)
        case "late-update":
            say("fine")
            text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "too late"}}
            call = {"sessionUpdate": "tool_call", "toolCallId": "late", "title": "late", "status": "in_progress"}
            updates = ({"sessionId": SESSION, "update": update} for update in (text, call))
            late = ({"method": "session/update", "params": params} for params in updates)
            send({"id": id, "result": {"stopReason": "end_turn"}}, *late)
        case "never-responds":
            say("hm")
            while True:
                receive()
        case "never-responds-twice":
            signal_proof()
        case "exits":
            say("bye")
            sys.exit(0)
        case "both":
            say("fine")
            send(id=id, result={"stopReason": "end_turn"}, error={"code": -32603, "message": "or not"})
        case "long-line":
            write(b'{"jsonrpc":"2.0","method":"x","params":"' + b"x" * (70 << 20) + b'"}\n')
            say("fine")
            end(id)
        case "big-line":  # under the cap
            write(b'{"jsonrpc":"2.0","method":"x","params":"' + b"x" * (60 << 20) + b'"}\n')
            say("fine")
            end(id)
        case "stderr":
            os.write(2, b"blah blah\n" * 105_000)
            say("fine")
            end(id)
            os.write(2, b"blah blah\n" * 105_000)
        case "forged-meta":
            meta = {"sessionId": "other", "update": {"sessionUpdate": "plan"}, "path": "/etc/passwd", "content": "evil"}
            update = {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "fine"},
                "_meta": meta,
            }
            send(method="session/update", params={"sessionId": SESSION, "update": update, "_meta": meta})
            target = {"sessionId": SESSION, "path": os.path.abspath("ok.txt"), "content": "ok", "_meta": meta}
            send(id="w", method="fs/write_text_file", params=target)
            receive()
            end(id)
        case "flood":
            for number in range(40_000):
                say(f"{number} ")
            end(id)
        case "tool-flood":
            body = [{"type": "content", "content": {"type": "text", "text": "o" * 200}}]
            for number in range(5_000):
                call = {
                    "toolCallId": f"c{number}",
                    "title": "t",
                    "kind": "read",
                    "status": "completed",
                    "content": body,
                }
                update = {"sessionUpdate": "tool_call", **call}
                send(method="session/update", params={"sessionId": SESSION, "update": update})
            end(id)
        case "request-flood":
            for number in range(2000):
                send(id=number, method="mine/please", params={"x": "y" * 100})
            say("fine")
            end(id)
        case "never-reads":
            while True:
                send(id="x", method="mine/please")
        case "asks-for-all":
            for number in range(150):
                call = {"toolCallId": f"c{number}", "title": f"t{number}", "kind": "read"}
                options = [{"optionId": "a", "name": "a", "kind": "allow_once"}]
                params = {"sessionId": SESSION, "toolCall": call, "options": options}
                send(id=number, method="session/request_permission", params=params)
            for _ in range(50):
                receive()
            say("fine")
            end(id)
            for _ in range(100):
                receive()
        case "strange-updates":
            for update in (
                {"sessionUpdate": "of tomorrow", "deep": {"x": [1, None, 2.5]}},
                {"sessionUpdate": "tool_call", "toolCallId": {}, "title": 5},
                {
                    "sessionUpdate": "tool_call",
                    "toolCallId": "c",
                    "title": None,
                    "kind": [],
                    "status": {},
                    "content": 3,
                },
                {"sessionUpdate": "plan", "entries": [None, 1, {"content": 5, "status": []}]},
                {"sessionUpdate": "agent_message_chunk"},
                {"sessionUpdate": "usage_update", "cost": {"amount": "NaN"}},
                {"sessionUpdate": "config_option_update", "configOptions": [None, {"category": "model", "options": 5}]},
                {"sessionUpdate": "current_mode_update", "currentModeId": 5},
                {"sessionUpdate": ["x"]},
            ):
                send(method="session/update", params={"sessionId": SESSION, "update": update})
            send(method="session/update", params=[1, 2])
            send(id=[], method="session/request_permission", params=None)
            send(id={}, method="fs/read_text_file", params="x")
            say("fine")
            end(id)
        case "malformed":
            malformed()
            end(id)
        case "asks-and-calls":
            call = {"toolCallId": "c", "title": "t", "kind": "execute"}
            options = [{"optionId": "a", "name": "a", "kind": "allow_once"}]
            send(
                id=1,
                method="session/request_permission",
                params={"sessionId": SESSION, "toolCall": call, "options": options},
            )
            send(id=2, method="terminal/create", params={"sessionId": SESSION, "command": "true"})
            say(json.dumps([frame for _ in range(2) for frame in [receive()]]))
            end(id)
        case _:
            say("fine")
            end(id)


# Every request that a client serves, with good params, and what is wrong for each of its fields.
STRANGE: tuple[Any, ...] = (5, -1, 1.5, True, {}, {"x": 1}, [5], [None], [[]])
TEXTS = (*STRANGE, [], None)
REQUESTS: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "fs/read_text_file": (
        {"path": os.path.abspath("here.txt")},
        {
            "path": (*TEXTS, "", "a\0b"),
            "line": (-1, 1.5, True, "1", [], {}),
            "limit": (-1, 1.5, True, "1", [], {}),
        },
    ),
    "fs/write_text_file": (
        {"path": os.path.abspath("new.txt"), "content": "x"},
        {"path": (*TEXTS, "", "a\0b"), "content": TEXTS},
    ),
    "terminal/create": (
        {"command": "true"},
        {
            "command": (*TEXTS, "", " ", "a\0b"),
            "args": (5, 1.5, True, False, 0, "", "x", {}, [5], [None], ["a\0b"]),
            "env": (5, 0, True, "", "x", {}, {"A": "b"}, [5], [{}], [{"name": "A"}], [{"name": 5, "value": "b"}]),
            "cwd": (*STRANGE, [], "", "relative", "/a\0b"),
            "outputByteLimit": (-1, 1.5, True, "1", [], {}),
        },
    ),
    **{
        f"terminal/{verb}": ({"terminalId": "none"}, {"terminalId": TEXTS})
        for verb in ("output", "wait_for_exit", "kill", "release")
    },
    "session/request_permission": (
        {
            "toolCall": {"toolCallId": "c", "kind": "read"},
            "options": [{"optionId": "a", "name": "a", "kind": "allow_once"}],
        },
        {
            "toolCall": (5, 1.5, True, "x", [], None),
            "options": (
                5,
                True,
                "x",
                {},
                None,
                [5],
                [None],
                [{}],
                [{"optionId": 5, "kind": "allow_once"}],
                [{"optionId": "a"}],
            ),
        },
    ),
}


def malformed() -> None:
    """Sends each request with each wrong value, waits for all answers, and says them."""
    sent: dict[int, list[Any]] = {}
    for method, (good, fields) in REQUESTS.items():
        wrong = {"sessionId": (*TEXTS, "other"), **fields}
        for field, values in wrong.items():
            for value in values:
                number = len(sent)
                sent[number] = [method, field, repr(value)]
                send(id=number, method=method, params={"sessionId": SESSION, **good, field: value})
        for params in (5, "x", [], None):
            number = len(sent)
            sent[number] = [method, "params", repr(params)]
            send(id=number, method=method, params=params)
    answers = {}
    while len(answers) < len(sent):
        frame = receive()
        answers[frame["id"]] = frame.get("error", {}).get("code")
    say(json.dumps([[*what, answers[number]] for number, what in sent.items()]))


def signal_proof() -> None:
    """Neither a cancel, nor the end of its input, nor INT and TERM end it."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    say("hm")
    while True:
        time.sleep(1)


def main() -> None:
    if NAME == "banner":
        write(b"Welcome to the friendly agent!\n\x1b[1mv1.0\x1b[0m\n\n")
    if NAME == "exits-at-once":
        sys.exit(0)
    if NAME == "help":
        print("usage: friendly [OPTION]…\n  --help  this")
        sys.exit(0)
    if NAME == "dies-in-initialize":
        receive()
        print("Segmentation fault", file=sys.stderr)
        os.kill(os.getpid(), 11)
    if NAME == "mute":
        while True:
            receive()
    if NAME == "echo":
        while line := sys.stdin.buffer.readline():
            write(line)
    while True:
        frame = receive()
        method, id = frame.get("method"), frame.get("id")
        if id is None or method is None:
            if NAME == "answers-notifications" and method:
                send(id=None, result={})
                send(result={})
                send(id=method, error={"code": -32601, "message": "what?"})
            continue
        if method == "initialize":
            version = {"version-2": 2, "version-none": None}.get(NAME, 1)
            methods = [{"id": "x", "name": "Log in", "description": "Run `friendly login`"}]
            send(id=id, result={"protocolVersion": version, "authMethods": methods})
        elif method == "session/new" and NAME == "needs-login":
            send(id=id, error={"code": -32000, "message": "Authentication required"})
        elif method == "session/new" and NAME == "no-session":
            send(id=id, result={})
        elif method == "session/new":
            send(id=id, result={"sessionId": SESSION})
        elif method == "session/prompt":
            prompt(id)


main()
