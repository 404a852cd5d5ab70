"""An ACP agent that calls itself codex-acp: when it is cancelled, the command that it ran lives on."""

import json
import subprocess
import sys

MODES = {"currentModeId": "agent", "availableModes": [{"id": id, "name": id} for id in ("agent", "read-only")]}
OPENED = {
    "initialize": {"protocolVersion": 1, "agentInfo": {"name": "@agentclientprotocol/codex-acp", "version": "0"}},
    "session/new": {"sessionId": "S", "modes": MODES},
    "session/set_mode": {},
}


def say(**frame: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)


subprocess.Popen(["sleep", "1001"])  # a helper of its own
prompt = None
for line in sys.stdin:
    frame = json.loads(line)
    method = frame.get("method")
    if method == "session/prompt":
        prompt = frame["id"]
        said = frame["params"]["prompt"][0]["text"]
        if said.startswith("run "):
            subprocess.Popen(said.split()[1:], start_new_session=True)
            continue
        content = {"type": "text", "text": "hello"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        say(method="session/update", params={"sessionId": "S", "update": update})
        say(id=prompt, result={"stopReason": "end_turn"})
    elif method == "session/cancel":
        say(id=prompt, result={"stopReason": "cancelled"})
    elif method in OPENED:
        say(id=frame["id"], result=OPENED[method])
