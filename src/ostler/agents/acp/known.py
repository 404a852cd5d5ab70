"""ACP agents of the settings that ostler knows by their program: what keeps each of them to its access.

Their command lines stand in the settings. What is known adds the mode, the flags and the options of an access. A
program of that name has to call itself so, too: else what is known is of another one.
"""

import json
import re
from collections.abc import Sequence

from msgspec import structs

from ostler.agents.acp.face import acp_face, bare
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.reader import AcpReader
from ostler.agents.adapter import Agent
from ostler.agents.claude import agent as claude
from ostler.agents.codex import agent as codex
from ostler.agents.codex.items import retry_of
from ostler.agents.gemini import agent as gemini
from ostler.agents.gemini.dialog import ACP as GEMINI_ACP
from ostler.agents.launches import ARGUMENT_LIMIT, refuse_tool_lists, refuse_untrusted
from ostler.agents.qwen import agent as qwen
from ostler.agents.values import Record, table, text
from ostler.model import Host, Launch, Limited, Turn

SPEAKS = {"--acp", "--experimental-acp"}  # what makes an ACP agent of a program that is one among other things
ASKS = "whatever it asks for beyond that is refused"
_COMMAS = re.compile(r",(?![^(]*\))")  # between rules, not within one: `Bash(git log, x)`


def known(argv: Sequence[str]) -> Agent | None:
    """The agent that a command line starts, where ostler knows it; its name is its program's."""
    found = [name for word in argv if not word.startswith("-") for name in _programs(word)]
    speaks = bool(SPEAKS & {*argv})
    return next((KNOWN[name] for name in found if name in KNOWN and (speaks or name in ADAPTERS)), None)


def _programs(word: str) -> list[str]:
    """The names that a word of a command line may mean: of a program, of a package, of a file of a package."""
    parts = word.split("/")
    package = parts[parts.index("node_modules") + 1 :][:2] if "node_modules" in parts else []
    return [part.partition("@")[0] for part in (*package, parts[-1])]


# -- claude-agent-acp -------------------------------------------------------------------------------


def claude_options(turn: Turn, host: Host) -> Record:
    """The flags of claude's own turns as options of its SDK, which the adapter takes with each session."""
    once = claude.launch(_plain(turn), host)
    flags = dict(flag.removeprefix("--").partition("=")[::2] for flag in once.argv[1:])
    lists = ("tools", "allowedTools", "disallowedTools")
    options: Record = {name: _COMMAS.split(flags[name]) for name in lists if name in flags}
    options["strictMcpConfig"] = "strict-mcp-config" in flags
    if "settings" in flags:
        options["settings"] = json.loads(flags["settings"])
    if "setting-sources" in flags:
        options["settingSources"] = flags["setting-sources"].split(",")
    if turn.access != "full":
        options["allowDangerouslySkipPermissions"] = False
    system = turn.system if turn.system_mode == "replace" else {"append": turn.system}
    return {"claudeCode": {"options": options}, **({"systemPrompt": system} if turn.system else {})}


def _claude_launch(turn: Turn, host: Host) -> Launch:
    once = claude.launch(_plain(turn), host)
    return Launch(argv=(host.executable,), env=once.env, notices=once.notices)


def _plain(turn: Turn) -> Turn:
    """Without what goes by the protocol."""
    return structs.replace(bare(turn), system=None, model=None, mcp=())


# -- codex-acp --------------------------------------------------------------------------------------


def _codex_launch(turn: Turn, host: Host) -> Launch:
    refuse_tool_lists(turn)
    refuse_untrusted(turn, host)
    return Launch(argv=(host.executable,))


def _codex_failed(update: Record) -> bool | None:
    status = text(table(_codex_meta(update).get("threadStatus")).get("type"))
    return status == "systemError" if status in ("systemError", "active") else None


def _codex_retrying(update: Record) -> Limited | None:
    error = table(_codex_meta(update).get("error"))
    return retry_of(error) if error.get("willRetry") is True else None


def _codex_meta(update: Record) -> Record:
    return table(table(update.get("_meta")).get("codex"))


CODEX_ACP = Acp(
    names=("@agentclientprotocol/codex-acp",),
    # Its own default, `agent`, has a model answer what it asks. Under full it begins where it asks most.
    modes={"read": "read-only", "write": "workspace-write", "full": "read-only"},
    safe_modes=("read-only",),
    failed=_codex_failed,
    retrying=_codex_retrying,
    always_counts=True,
    leaves_commands=True,  # it passes an interrupt on to codex, which leaves the command that ran alive
)


# -- qwen and gemini --------------------------------------------------------------------------------


def _qwen_tool(call: Record) -> tuple[str, object]:
    return text(table(call.get("_meta")).get("toolName")) or "tool", call.get("rawInput")


def _qwen_launch(turn: Turn, host: Host) -> Launch:
    assert qwen.AGENT.dialog is not None
    once = qwen.AGENT.dialog.launch(structs.replace(bare(turn), mcp=()), host)
    stream = ("--input-format=", "--output-format=", "--include-partial-messages")
    flags = [flag for flag in once.argv[1:] if not flag.startswith(stream)]
    return structs.replace(once, argv=(host.executable, *flags))


def _gemini_launch(turn: Turn, host: Host) -> Launch:
    assert gemini.AGENT.dialog is not None
    once = gemini.AGENT.dialog.launch(turn, host)
    return structs.replace(once, argv=tuple(word for word in once.argv if word not in SPEAKS))


# -- all of them ------------------------------------------------------------------------------------


def _of_settings(like: Agent, **changes: object) -> Agent:
    """An agent that shares the variables, keys and helper programs of another one."""
    own = {
        "reader": AcpReader,
        "one_shot": False,
        "needs": (),
        "tested": None,
        "models": (),
        "mcp": (),
        "images": "native",
    }
    other = {"forks": False, "chooses_id": False, "schema": "extracted", "conversations": (), "conversation": None}
    return structs.replace(like, **{**own, **other, **changes})


_CLAUDE = Acp(
    names=("@agentclientprotocol/claude-agent-acp",),
    modes={"read": "default", "write": "default", "full": "default"},
    safe_modes=("plan",),
    meta=claude_options,
    system="launch",
)
_QWEN = Acp(
    names=("qwen-code",),
    modes={"read": "default", "write": "default", "full": "default"},
    safe_modes=("plan",),
    tool=_qwen_tool,
    model_by_flag=True,
    system="launch",
    system_limit=ARGUMENT_LIMIT,
)
_RULES = "it trusts the folder: `allow` rules of its `.codex`, and yours, run commands outside of the sandbox"

ADAPTERS = {
    "claude-agent-acp": _of_settings(
        claude.AGENT,
        launch=_claude_launch,
        dialog=acp_face(_CLAUDE, _claude_launch),
        access={
            "read": f"mode `default`, the tools of `claude` under `read` (`_meta.claudeCode.options`); {ASKS}",
            "write": f"mode `default`, the tools and the sandbox of `claude` under `write`; {ASKS}",
            "full": "mode `default`: it asks",
        },
    ),
    "codex-acp": _of_settings(
        codex.AGENT,
        launch=_codex_launch,
        dialog=acp_face(CODEX_ACP, _codex_launch),
        access={
            "read": f"mode `read-only`, a sandbox; {ASKS}",
            "write": f"mode `workspace-write`, a sandbox in which it does not ask; {ASKS}",
            "full": "mode `read-only`: it asks to leave that sandbox",
        },
        unpromised={"read": _RULES, "write": _RULES},
        instructions=(),
        system="prompt",
        replaces_system=False,
        deltas=True,
    ),
}
KNOWN = {
    **ADAPTERS,
    "qwen": _of_settings(qwen.AGENT, launch=_qwen_launch, dialog=acp_face(_QWEN, _qwen_launch)),
    "gemini": _of_settings(
        gemini.AGENT,
        launch=_gemini_launch,
        dialog=acp_face(structs.replace(GEMINI_ACP, names=("gemini-cli",)), _gemini_launch),
    ),
}
KNOWN |= {"qwen-code": KNOWN["qwen"], "gemini-cli": KNOWN["gemini"]}  # their packages
