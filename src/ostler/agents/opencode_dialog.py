"""opencode in a dialog: `opencode acp`, with an agent of ours that asks where one-shot turns may."""

import json
from collections.abc import Callable
from typing import Any

from ostler.agents.acp import AcpDialog, bare
from ostler.agents.acp_words import Acp, told_tool
from ostler.agents.adapter import Record
from ostler.agents.dialog import DialogFace
from ostler.agents.mcp import TRANSPORTS
from ostler.agents.values import text
from ostler.words import Host, Launch, Turn

QUIET = ("read", "glob", "grep", "list", "skill", "todowrite", "todoread")  # what needs no question


def tool(call: Record) -> tuple[str, Any]:
    """The title that a call begins with is the tool's name."""
    name, input = told_tool(call)
    return text(call.get("firstTitle")) or name, input


def denied(call: Record, output: str) -> bool:
    return output.startswith(("The user has specified a rule", "Model tried to call unavailable tool"))


class OpencodeDialog(AcpDialog):
    acp = Acp(keeps_mode=True, system="launch", counts="no", tool=tool, denied=denied)  # it counts the last step alone

    def mode_for(self, turn: Turn) -> str:
        return own_agent(turn)


def own_agent(turn: Turn) -> str:
    """The agent that keeps the access. Nobody can guess its name, so no project can add rules to it."""
    return f"ostler-{turn.id}"


def face(launch: Callable[[Turn, Host], Launch], rules: Callable[[Turn], dict[str, Any]]) -> DialogFace:
    def launched(turn: Turn, host: Host) -> Launch:
        once = launch(bare(turn), host)
        config = json.loads(once.env["OPENCODE_CONFIG_CONTENT"])
        name = own_agent(turn)
        config |= {"default_agent": name, "agent": {name: {"mode": "primary", "permission": asking(rules(turn))}}}
        env = {**once.env, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
        return Launch(argv=(host.executable, "acp"), env=env, files=once.files, notices=once.notices)

    kept = "`acp`, the same agent of ostler's own, with `ask` for what it was allowed; leaving it ends the dialog"
    return DialogFace(launch=launched, dialog=OpencodeDialog, images=True, mcp=TRANSPORTS, protocol="acp", access=kept)


def asking(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules of an access, but what they allow beyond reading is asked. The last rule that matches wins."""
    asked = {name: "ask" if rule == "allow" and name not in QUIET else rule for name, rule in rules.items()}
    if asked.get("*") != "ask":
        return asked
    return {"*": "ask", **dict.fromkeys(QUIET, "allow"), **{n: rule for n, rule in asked.items() if n != "*"}}
