"""What the scripted model answers, whatever the wire format: markers, rules and the scenario decide.

A marker in the newest user message comes first, then the first rule whose pattern is found in it, then the
scenario of the server. A marker, the second half of a rule and a scenario are written alike, a marker in
double square brackets:

    text               a final text                   say:TEXT        exactly TEXT
    think[:TEXT]       reasoning, then a final text   long:BYTES      a final text of that size
    shell[:CMD]        call the shell tool            write[:PATH]    write a file, by shell if need be
    tool:NAME:JSON     call exactly that tool         tools:CMD;;CMD  several shell calls in one answer
    loop[:CMD]         a shell call every time        schema          the smallest object of the asked schema
    slow[:SECONDS]     word by word                   hold[:NAME]     begin, wait for release(NAME), go on
    hang[:SECONDS]     no answer at all               error:STATUS[:TIMES[:MESSAGE]]
    cut                close the stream half-way      malformed       broken JSON inside the stream

Several markers in one message are played in order, one each time a tool result comes back; then FINAL is said.
"""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ostler.agents.tool_input import PATH_NAMES
from ostler.testing.shapes import smallest

FIRST = "I will run one tool now."
FINAL = "All done. The tool ran and this is the final answer."
TITLE = "Scripted title"
COMMAND = "echo hello-from-tool > tool_out.txt && cat tool_out.txt"
WRITTEN = "written.txt"
CONTENT = "written by the scripted model\n"
MARKER = re.compile(r"\[\[([a-z]+)(?::(.*?))?\]\]", re.S)

# The names that coding agents give their tools, in order of preference: the first one declared is called.
SHELL_TOOLS = (
    "Bash",
    "shell_command",
    "exec_command",
    "shell",
    "local_shell",
    "run_shell_command",
    "bash",
    "execute_command",
    "run_command",
)
WRITE_TOOLS = ("Write", "write_file", "write", "create_file", "create", "edit")
STRUCTURED_TOOLS = ("StructuredOutput", "structured_output")
WITH_TOOL = ("shell", "write", "tool", "tools", "loop", "schema")

Rules = Sequence[tuple[str, str]]


class Tool(Struct, frozen=True, kw_only=True):
    """A tool that the client declared."""

    schema: dict[str, Any] = {}
    kind: str = "function"  # or custom, local_shell
    namespace: str | None = None


class ModelRequest(Struct, kw_only=True):
    """What a request asks for, pulled out of any of the wire formats."""

    user: str = ""  # the newest user text
    results: int = 0  # rounds of tool results since that text
    tools: dict[str, Tool] = {}
    schema: dict[str, Any] | None = None  # of the answer that is wanted
    model: str = "scripted"
    stream: bool = True
    body: str = ""  # the whole request as text


class ModelCall(Struct, frozen=True, kw_only=True):
    """One tool call of an answer; `freeform` replaces `args` for tools that take plain text."""

    name: str
    args: dict[str, Any] = {}
    freeform: str | None = None
    namespace: str | None = None


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """A wire-neutral answer."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    thinking: str = ""
    delay: float = 0.0  # seconds between the pieces of the stream
    status: int = 200
    message: str = ""  # of an error
    times: int | None = None  # how many requests of the same text get the error; None: all
    hang: float | None = None
    hold: str | None = None
    cut: bool = False
    malformed: bool = False


def decide(asked: ModelRequest, scenario: str, rules: Rules = ()) -> ModelAnswer:
    """The answer to one request. Stateless: the request alone tells how far the dialogue is."""
    steps: list[tuple[str, str]] = MARKER.findall(asked.user)
    said = bool(steps)
    if not steps:
        ruled = next((marker for pattern, marker in rules if re.search(pattern, asked.user)), None)
        kind, _, arg = (ruled or scenario).partition(":")
        # A plain scenario says a text by default; a text that was asked for by name is said whatever the schema.
        steps = [("schema" if kind == "text" and not ruled and asked.schema is not None else kind, arg)]
    if steps[0][0] == "loop":
        return _answer("shell", steps[0][1], asked)
    if asked.results >= len(steps):
        return _after_tools(*steps[-1], asked)
    kind, arg = steps[asked.results]
    if not asked.tools and kind in WITH_TOOL and asked.schema is None:
        # Agents ask for a title or a summary on the side, with the same prompt and without tools.
        return ModelAnswer(text=FINAL if said else TITLE)
    return _answer(kind, arg, asked)


def _after_tools(kind: str, arg: str, asked: ModelRequest) -> ModelAnswer:
    """The tools ran. A model that fails, hangs, says one thing or fills a schema does so here too."""
    if kind in ("say", "error", "hang") or (asked.schema is not None and kind != "text"):
        return _answer(kind, arg, asked)
    return ModelAnswer(text=FINAL, delay=_number(arg, 5) / 200 if kind == "slow" else 0)


def _answer(kind: str, arg: str, asked: ModelRequest) -> ModelAnswer:
    if kind == "error":
        return _error(arg)
    if kind == "hang":
        return ModelAnswer(text=FINAL, hang=_number(arg, 3600))
    if asked.schema is not None and kind not in ("text", "say"):
        return ModelAnswer(text=json.dumps(smallest(asked.schema)))
    match kind:
        case "say":
            return ModelAnswer(text=arg)
        case "think":
            return ModelAnswer(text=FINAL, thinking=arg or "Let me think about this first.")
        case "long":
            return ModelAnswer(text=("word " * (int(_number(arg, 100_000)) // 5 + 1))[: int(_number(arg, 100_000))])
        case "slow":
            return ModelAnswer(text=" ".join(f"word{i}" for i in range(200)), delay=_number(arg, 5) / 200)
        case "hold":
            return ModelAnswer(text=FINAL, hold=arg)
        case "cut":
            return ModelAnswer(text=FINAL, cut=True)
        case "malformed":
            return ModelAnswer(text=FINAL, malformed=True)
        case "shell" | "write" | "tool" | "tools" | "schema":
            return _with_calls(kind, arg, asked)
    return ModelAnswer(text=FINAL)


def _error(arg: str) -> ModelAnswer:
    status, _, rest = arg.partition(":")
    times, _, message = rest.partition(":")
    code = int(_number(status, 500))
    return ModelAnswer(
        status=code,
        message=message or f"scripted {code} from the scripted model",
        times=int(times) if times.isdigit() else None,
    )


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


# -- tool calls -------------------------------------------------------------------------------------


def _with_calls(kind: str, arg: str, asked: ModelRequest) -> ModelAnswer:
    if kind == "schema":
        name = next((name for name in STRUCTURED_TOOLS if name in asked.tools), None)
        return (
            ModelAnswer(calls=(_call(name, smallest(asked.tools[name].schema), asked),))
            if name
            else ModelAnswer(text=FINAL)
        )
    if kind == "tool":
        name, _, raw = arg.partition(":")
        return ModelAnswer(text=FIRST, calls=(_exact(name, raw, asked),))
    wanted = WRITE_TOOLS if kind == "write" else SHELL_TOOLS
    name = next((name for name in wanted if name in asked.tools), None)
    if name is None and kind == "write" and any(name in asked.tools for name in SHELL_TOOLS):
        command = f"printf '%s\\n' {shlex.quote(CONTENT.strip())} > {shlex.quote(arg or WRITTEN)}"
        return _with_calls("shell", command, asked)
    if name is None:
        return ModelAnswer(text=f"{FINAL} (no {kind} tool among: {', '.join(sorted(asked.tools))})")
    texts = arg.split(";;") if kind == "tools" else [arg]
    calls = tuple(_filled("write" if kind == "write" else "shell", name, text, asked) for text in texts)
    return ModelAnswer(text=FIRST, calls=calls)


def _exact(name: str, raw: str, asked: ModelRequest) -> ModelCall:
    tool = asked.tools.get(name, Tool())
    if tool.kind == "custom":
        return ModelCall(name=name, freeform=raw)
    try:
        args = json.loads(raw or "{}")
    except ValueError:
        args = {"input": raw}
    return _call(name, args if isinstance(args, dict) else {"input": args}, asked)


def _filled(kind: str, name: str, text: str, asked: ModelRequest) -> ModelCall:
    """A shell or write call with the arguments that this client declared for it."""
    tool = asked.tools[name]
    if tool.kind == "custom":
        return ModelCall(name=name, freeform=text or COMMAND)
    if tool.kind == "local_shell":
        return ModelCall(name=name, args={"command": ["bash", "-lc", text or COMMAND]})
    return _call(name, _arguments(kind, tool.schema, working_folder(asked.body), text), asked)


def _call(name: str, args: dict[str, Any], asked: ModelRequest) -> ModelCall:
    return ModelCall(name=name, args=args, namespace=asked.tools.get(name, Tool()).namespace)


def _arguments(kind: str, schema: dict[str, Any], folder: str, text: str) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    required = schema.get("required", list(properties))
    filled: dict[str, Any] = {}
    for name, property in properties.items():
        value = _argument(kind, name.lower(), property, folder, text)
        if value is not None:
            filled[name] = value
        elif name in required:
            filled[name] = False if property.get("type") == "boolean" else smallest(property)
    return filled


_PATH_NAMES = {name.lower() for name in PATH_NAMES}


def _argument(kind: str, name: str, property: dict[str, Any], folder: str, text: str) -> Any:
    if name in ("command", "cmd", "commands"):
        command = text if kind == "shell" and text else COMMAND
        return ["bash", "-lc", command] if str(property.get("type")).lower() == "array" else command
    if kind == "write" and name in _PATH_NAMES:
        path = text or WRITTEN
        return path if path.startswith("/") or not folder else f"{folder.rstrip('/')}/{path}"
    if kind == "write" and name in ("content", "contents", "file_text", "text"):
        return CONTENT
    return "run the scripted step" if name == "description" else None


_FOLDERS = (
    re.compile(r"<cwd>([^<]+)</cwd>"),
    re.compile(
        r"(?:[Ww]orking directory|[Ww]orking in the (?:following )?director\w+|[Ww]orkspace [Dd]irector\w+)"
        r"(?:[^/\n]{0,40}|:\*\*\n\s*- )(/[^\s\\\"`'<*]+)"
    ),
)


def working_folder(body: str) -> str:
    """The folder that the agent told its model about, or ''."""
    for pattern in _FOLDERS:
        if found := pattern.findall(body):
            return str(found[-1]).rstrip(".,")
    return ""
