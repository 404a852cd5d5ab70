"""opencode in a dialog: `opencode acp`, with an agent of ours that asks where one-shot turns may."""

import json
from collections.abc import Callable
from typing import Any

from ostler.agents.acp.face import acp_face, bare
from ostler.agents.acp.protocol import Acp, tool_and_input
from ostler.agents.dialog import DialogFace
from ostler.agents.opencode.reader import own_agent
from ostler.agents.values import Record, text
from ostler.model import Host, Launch, Turn

QUIET = ("read", "glob", "grep", "list", "skill", "todowrite", "todoread")  # what needs no question


def tool(call: Record) -> tuple[str, Any]:
    """The title that a call begins with is the tool's name."""
    name, input = tool_and_input(call)
    return text(call.get("firstTitle")) or name, input


def denied(call: Record, output: str) -> bool:
    return output.startswith(("The user has specified a rule", "Model tried to call unavailable tool"))


ACP = Acp(
    mode_of=own_agent,
    keeps_mode=True,
    system="launch",
    counts="no",  # it counts the last step alone
    tool=tool,
    denied=denied,
)


def face(launch: Callable[[Turn, Host], Launch], rules: Callable[[Turn], dict[str, Any]]) -> DialogFace:
    def launched(turn: Turn, host: Host) -> Launch:
        once = launch(bare(turn), host)
        config = json.loads(once.env["OPENCODE_CONFIG_CONTENT"])
        name = own_agent(turn)
        once_agent = config.get("agent", {}).get(name, {"mode": "primary"})
        config |= {"default_agent": name, "agent": {name: {**once_agent, "permission": asking(rules(turn))}}}
        env = {**once.env, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
        return Launch(argv=(host.executable, "acp"), env=env, files=once.files, notices=once.notices)

    kept = "`acp`, the same agent of ostler's own, with `ask` for what it was allowed; leaving it ends the dialog"
    return acp_face(ACP, launched, access=kept)


def asking(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules of an access, but what they allow beyond reading is asked. The last rule that matches wins."""
    asked = {name: "ask" if rule == "allow" and name not in QUIET else rule for name, rule in rules.items()}
    if asked.get("*") != "ask":
        return asked
    return {"*": "ask", **dict.fromkeys(QUIET, "allow"), **{n: rule for n, rule in asked.items() if n != "*"}}
