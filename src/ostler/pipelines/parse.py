"""Reads a pipeline file and checks all of it before anything runs; what is wrong is told with its line. Pure."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from ostler.errors import OstlerError, quoted
from ostler.model import TurnOptions
from ostler.pipelines.expressions import BadExpression, names_in
from ostler.pipelines.model import Input, MergeMode, Node, NodeKind, NodeLoop, Pipeline, Worktree
from ostler.pipelines.schedule import CRON_HINT, is_cron
from ostler.pipelines.templates import names_of
from ostler.settings.check import KeyPath, Where, checked, nearest
from ostler.settings.toml import parsed

_TOP = ("name", "description", "mode", "inputs", "nodes", "cost_usd", "schedule", "takeover")
# The options of a turn under their own names, but for two that mean something else of a node: its command is a program,
# its mode says who lets it go on.
_RENAMED = {"slash": "command", "agent_mode": "mode"}
_OPTIONS = {field.name: field.type for field in msgspec.structs.fields(TurnOptions)}
_OPTIONS = {
    **{name: kind for name, kind in _OPTIONS.items() if name not in _RENAMED.values()},
    **{name: _OPTIONS[option] for name, option in _RENAMED.items()},
}
_OWN = (
    *("agent", "prompt", "command", "gate", "mode", "needs", "when", "each", "loop", "retry"),
    *("folder", "worktree", "on"),
)
_FIELDS = ("text", "summary", "structured", "diff", "artifacts", "stdout", "exit", "error", "state", "ok", "items")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


class _File:
    """A pipeline file, and how its mistakes are told."""

    def __init__(self, path: str, text: str) -> None:
        self.where = Where(path, text or "\n")

    def wrong(self, path: KeyPath, what: str, hint: str = "") -> OstlerError:
        name = ".".join(path)
        return OstlerError("bad_request", f"{self.where.at(path)}{f'{name}: ' if name else ''}{what}", hint)

    def unknown(self, path: KeyPath, known: Iterable[str]) -> OstlerError:
        guess = nearest(path[-1], known)
        hint = f"Did you mean {guess}?" if guess else f"Known here: {', '.join(known)}"
        return OstlerError("bad_request", f"{self.where.at(path)}unknown key {'.'.join(path)}", hint)

    def convert(self, value: Any, kind: Any, path: KeyPath, expected: str) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self.wrong(path, f"expected {expected}") from error


def parse_pipeline(path: str, text: str) -> Pipeline:
    """The pipeline of a file. Raises bad_request with file, line and remedy for the first mistake."""
    file = _File(path, text)
    try:
        data = parsed(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        said = re.sub(r" \(at (line|end).*", "", str(error))
        at = f"{path}:{line[1] if line else text.count(chr(10)) + 1}: "
        hint = "A pipeline file is TOML: strings stand in quotes, tables in [brackets]"
        raise OstlerError("bad_request", f"{at}{said[:1].lower()}{said[1:]}", hint) from error
    return _pipeline(file, data, path)


def check_pipeline(path: str, pipeline: Pipeline) -> Pipeline:
    """One that was made in Python, with the checks of a file and its nodes in order. Raises bad_request."""
    file = _File(path, "")
    file.where = Where(path)  # it has no lines
    nodes = {node.name: node for node in pipeline.nodes}
    if not nodes or len(nodes) != len(pipeline.nodes):
        raise file.wrong(("nodes",), "a pipeline needs nodes, each with a name of its own")
    for node in nodes.values():
        if not _NAME.fullmatch(node.name):
            raise file.wrong(
                ("nodes", node.name), f"{quoted(node.name)} cannot be the name of a node", "Write a-z, 0-9 and _"
            )
        _check_kind(file, node, msgspec.structs.asdict(node), ("nodes", node.name))
        _check_needs(file, node, nodes)
    _schedule(file, pipeline.schedule or None)
    ordered = _ordered(file, nodes)
    for node in ordered:
        _check_names(file, node, nodes, pipeline.inputs)
    return msgspec.structs.replace(pipeline, nodes=ordered)


def _pipeline(file: _File, data: Mapping[str, Any], path: str) -> Pipeline:
    for key in data:
        if key not in _TOP:
            raise file.unknown((key,), _TOP)
    name = file.convert(data.get("name", _stem(path)), str, ("name",), "a string")
    if not re.fullmatch(r"[A-Za-z0-9][\w .-]{0,80}", name):
        raise file.wrong(
            ("name",), f"{quoted(name[:50])} cannot be the name of a pipeline", "Write letters, digits and -"
        )
    mode = data.get("mode", "auto")
    if mode not in ("auto", "manual"):
        raise file.wrong(
            ("mode",), f"{quoted(mode)} is neither auto nor manual", 'Write mode = "auto" or mode = "manual"'
        )
    cost = data.get("cost_usd")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or cost <= 0):
        raise file.wrong(("cost_usd",), "expected dollars, more than 0", "Write cost_usd = 2.50")
    schedule = _schedule(file, data.get("schedule"))
    takeover = data.get("takeover", False)
    if not isinstance(takeover, bool):
        raise file.wrong(("takeover",), "expected true or false", "Write takeover = true")
    inputs = _inputs(file, data.get("inputs", {}))
    nodes = _nodes(file, data.get("nodes"), inputs)
    return Pipeline(
        name=name,
        description=file.convert(data.get("description", ""), str, ("description",), "a string"),
        mode=mode,
        inputs=inputs,
        nodes=nodes,
        cost_usd=float(cost) if cost is not None else None,
        schedule=schedule,
        takeover=takeover,
    )


def _schedule(file: _File, value: Any) -> str:
    if value is not None and not (isinstance(value, str) and is_cron(value)):
        raise file.wrong(("schedule",), f"{quoted(value)} is not a valid cron line", CRON_HINT)
    return value or ""


def _stem(path: str) -> str:
    return re.sub(r"\.toml$", "", path.rpartition("/")[2]) or "pipeline"


def _inputs(file: _File, table: Any) -> dict[str, Input]:
    if not isinstance(table, dict):
        raise file.wrong(("inputs",), "expected a table", "Write [inputs] and a line for each: task = {}")
    found = {}
    for name, value in table.items():
        at = ("inputs", name)
        if not _NAME.fullmatch(name):
            raise file.wrong(at, f"{quoted(name)} cannot be the name of an input", "Write a-z, 0-9 and _")
        if isinstance(value, str):
            value = {"default": value}
        if not isinstance(value, dict):
            raise file.wrong(at, "expected its default as a string, or a table", 'Write task = "…" or task = {}')
        for key in value:
            if key not in Input.__struct_fields__:
                raise file.unknown((*at, key), Input.__struct_fields__)
        found[name] = file.convert(value, Input, at, "strings for default and description")
    return found


def _nodes(file: _File, table: Any, inputs: Mapping[str, Input]) -> tuple[Node, ...]:
    if not isinstance(table, dict) or not table:
        raise file.wrong(("nodes",), "a pipeline needs at least one node", 'Write [nodes.NAME] with agent = "…"')
    nodes = {}
    for name, value in table.items():
        if not _NAME.fullmatch(name):
            raise file.wrong(("nodes", name), f"{quoted(name)} cannot be the name of a node", "Write a-z, 0-9 and _")
        if not isinstance(value, dict):
            raise file.wrong(("nodes", name), "expected a table", f"Write [nodes.{name}]")
        nodes[name] = _node(file, name, value)
    for node in nodes.values():
        _check_needs(file, node, nodes)
    ordered = _ordered(file, nodes)
    for node in ordered:
        _check_names(file, node, nodes, inputs)
    return ordered


def _node(file: _File, name: str, table: Mapping[str, Any]) -> Node:
    at: KeyPath = ("nodes", name)
    for key in table:
        if key not in _OWN and key not in _OPTIONS:
            raise file.unknown((*at, key), (*_OWN, *_OPTIONS))
    node = Node(
        name=name,
        agent=file.convert(table.get("agent", ""), str, (*at, "agent"), "the name of an agent or profile"),
        prompt=file.convert(table.get("prompt", ""), str, (*at, "prompt"), "a string"),
        command=_command(file, table.get("command", ()), (*at, "command")),
        gate=file.convert(table.get("gate", ""), str, (*at, "gate"), "the question for a person, as a string"),
        mode=_mode(file, table.get("mode"), at),
        needs=_needs(file, table.get("needs", ()), at),
        when=file.convert(table.get("when", ""), str, (*at, "when"), "an expression in quotes"),
        each=_each(file, table.get("each", ""), at),
        loop=_loop(file, table.get("loop"), (*at, "loop")),
        retry=_retry(file, table.get("retry", 0), at),
        folder=file.convert(table.get("folder", ""), str, (*at, "folder"), "a path"),
        worktree=_worktree(file, table.get("worktree"), (*at, "worktree")),
        on=_on(file, table.get("on", ""), (*at, "on")),
        options=_turn_options(file, table, at),
    )
    _check_kind(file, node, table, at)
    return node


def _mode(file: _File, value: Any, at: KeyPath) -> Any:
    if value in (None, "auto", "manual"):
        return value
    raise file.wrong((*at, "mode"), f"{quoted(value)} is neither auto nor manual", 'Write mode = "manual" for a gate')


def _command(file: _File, value: Any, at: KeyPath) -> tuple[str, ...]:
    if isinstance(value, str):
        raise file.wrong(at, "expected a list of words, since no shell is used", 'Write ["make", "test"]')
    words: tuple[str, ...] = file.convert(value, tuple[str, ...], at, 'a list of words, such as ["make", "test"]')
    if isinstance(value, list) and not (words and words[0].strip()):
        raise file.wrong(at, "a command needs a program", 'Write ["make", "test"]')
    return words


def _needs(file: _File, value: Any, at: KeyPath) -> tuple[str, ...]:
    if isinstance(value, str):
        raise file.wrong((*at, "needs"), "expected a list of names", f'Write needs = ["{value}"]')
    needs: tuple[str, ...] = file.convert(value, tuple[str, ...], (*at, "needs"), "a list of names of nodes")
    return tuple(dict.fromkeys(needs))


def _each(file: _File, value: Any, at: KeyPath) -> str:
    if isinstance(value, list):
        return msgspec.json.encode(value).decode()
    if not isinstance(value, str):
        raise file.wrong((*at, "each"), "expected a list, or an expression in quotes", 'Write each = ["a", "b"]')
    return value


def _retry(file: _File, value: Any, at: KeyPath) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10:
        raise file.wrong((*at, "retry"), "expected a number from 0 to 10", "Write retry = 2")
    return value


def _on(file: _File, value: Any, at: KeyPath) -> str:
    """The words with commas between them; "" where it is not given."""
    words = value.split(",") if isinstance(value, str) else value
    words = file.convert(words, list[str], at, "the name of a machine, or labels")
    words = [word.strip() for word in words]
    if value != "" and not all(words):
        raise file.wrong(at, "expected the name of a machine, or labels", 'Write on = "gpu", or on = "any"')
    return ",".join(words)


def _loop(file: _File, value: Any, at: KeyPath) -> NodeLoop | None:
    if value is None:
        return None
    example = 'Write loop = { times = 3, check = ["make", "test"] }'
    if not isinstance(value, dict):
        raise file.wrong(at, "expected a table", example)
    for key in value:
        if key not in NodeLoop.__struct_fields__:
            raise file.unknown((*at, key), NodeLoop.__struct_fields__)
    times = value.get("times")
    if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= 100:
        raise file.wrong(at, "a loop needs a bound: times, from 1 to 100", example)
    check = _command(file, value.get("check", ()), (*at, "check"))
    until = file.convert(value.get("until", ""), str, (*at, "until"), "an expression in quotes")
    if bool(check) == bool(until):
        raise file.wrong(at, "a loop needs either check or until", example)
    return NodeLoop(times=times, check=check, until=until)


def _worktree(file: _File, value: Any, at: KeyPath) -> Worktree | None:
    if value is None or value is False:
        return None
    if value is True:
        return Worktree()
    if not isinstance(value, dict):
        raise file.wrong(at, "expected true or a table", 'Write worktree = true or worktree = { then = "merge" }')
    for key in value:
        if key not in Worktree.__struct_fields__:
            raise file.unknown((*at, key), Worktree.__struct_fields__)
    if value.get("then", "keep") not in get_args(MergeMode):
        raise file.wrong(
            (*at, "then"),
            f"{quoted(value['then'])} is not one of {', '.join(get_args(MergeMode))}",
            'Write then = "merge"',
        )
    found: Worktree = file.convert(value, Worktree, at, 'strings for base and then, such as base = "main"')
    if found.base.startswith("-"):
        raise file.wrong((*at, "base"), f"{quoted(found.base)} cannot be a branch or commit", 'Write base = "main"')
    return found


def _turn_options(file: _File, table: Mapping[str, Any], at: KeyPath) -> TurnOptions:
    values = {}
    for key, kind in _OPTIONS.items():
        if key in table:
            values[key] = checked(table[key], kind, file.where, (*at, key))
    values = {_RENAMED.get(key, key): value for key, value in values.items()}
    try:
        return msgspec.convert(values, TurnOptions)
    except msgspec.ValidationError as error:
        raise file.wrong(at, str(error)) from error


def _check_kind(file: _File, node: Node, table: Mapping[str, Any], at: KeyPath) -> None:
    kinds = [key for key in get_args(NodeKind) if table.get(key)]
    if len(kinds) != 1:
        said = f"it has {' and '.join(kinds)}; " if kinds else ""
        raise file.wrong(
            at,
            f"{said}a node needs exactly one of {', '.join(get_args(NodeKind))}",
            'Write agent = "claude", command = […] or gate = "…"',
        )
    if node.agent and not node.prompt.strip():
        raise file.wrong(at, "an agent needs a prompt", 'Write prompt = "…"')
    if not node.agent and node.prompt:
        raise file.wrong((*at, "prompt"), "only an agent has a prompt", "Remove it, or name an agent")
    if not node.agent and (
        given := next((key for key in _OPTIONS if key in table and key not in ("limits", "env")), "")
    ):
        raise file.wrong((*at, given), "this is an option of an agent's turn", "Remove it, or name an agent")
    if node.gate and (given := next((key for key in ("loop", "each", "worktree", "retry") if table.get(key)), "")):
        raise file.wrong((*at, given), "a gate can only ask", "Remove it")
    if node.each and node.loop:
        raise file.wrong((*at, "loop"), "a node has either each or a loop", "Make two nodes of it")
    _check_folder(file, node, (*at, "folder"))
    if node.on:
        _check_on(file, node, at)


def _check_folder(file: _File, node: Node, at: KeyPath) -> None:
    folder = node.folder
    if node.on:
        if folder and not folder.startswith(("/", "~/")):
            hint = "Write its whole path on that machine, or remove it: then it is the same repository"
            raise file.wrong(
                at, f"{quoted(folder)} is below the folder of the pipeline, which is on this machine", hint
            )
    elif folder.startswith("/") or ".." in folder.split("/"):
        raise file.wrong(at, f"{quoted(folder)} leaves the pipeline's folder", "Write a path below it")


def _check_on(file: _File, node: Node, at: KeyPath) -> None:
    """What only the machine of the pipeline can do."""
    if not node.agent:
        hint = "Remove on, or have an agent do it"
        raise file.wrong((*at, "on"), "only an agent's turn can run on another machine", hint)
    if node.worktree:
        raise file.wrong((*at, "worktree"), "a worktree is made on this machine", "Remove it, or remove on")
    if node.loop and node.loop.check:
        hint = "Write until, or have the check in a node of its own"
        raise file.wrong((*at, "loop"), "a check runs on this machine, and the node does not", hint)
    if node.options.wait_for == "forwarded":
        hint = "Remove it, or remove on"
        raise file.wrong((*at, "wait_for"), "results of another machine are forwarded by that machine", hint)
    if not all(isinstance(server, str) for server in node.options.mcp or ()):
        hint = "Name servers that the settings of that machine have"
        raise file.wrong((*at, "mcp"), "another machine takes only the names of MCP servers", hint)


def _check_needs(file: _File, node: Node, nodes: Mapping[str, Node]) -> None:
    for need in node.needs:
        at = ("nodes", node.name, "needs")
        if need == node.name:
            raise file.wrong(at, "a node cannot need itself", "Use loop to repeat it")
        if need not in nodes:
            guess = nearest(need, nodes)
            hint = f"Did you mean {guess}?" if guess else f"Choose one of: {', '.join(nodes)}"
            raise file.wrong(at, f"there is no node {quoted(need)}", hint)


def _ordered(file: _File, nodes: Mapping[str, Node]) -> tuple[Node, ...]:
    """Each after those that it needs, else as in the file. Raises for a circle."""
    left, ordered = dict(nodes), []
    while left:
        ready = next((node for node in left.values() if not any(need in left for need in node.needs)), None)
        if ready is None:
            circle = _circle(left)
            raise file.wrong(
                ("nodes", circle[0], "needs"),
                f"these nodes need each other: {' → '.join((*circle, circle[0]))}",
                "Remove one of these needs, or use loop",
            )
        ordered.append(left.pop(ready.name))
    return tuple(ordered)


def _circle(left: Mapping[str, Node]) -> list[str]:
    path = [next(iter(left))]
    while True:
        follows = next(need for need in left[path[-1]].needs if need in left)
        if follows in path:
            return path[path.index(follows) :]
        path.append(follows)


# -- names that templates and conditions read


def _check_names(file: _File, node: Node, nodes: Mapping[str, Node], inputs: Mapping[str, Input]) -> None:
    texts = {"prompt": node.prompt, "gate": node.gate}
    reading = dict.fromkeys(texts, names_of) | {"when": names_in, "each": names_in}
    for key, text in {**texts, "when": node.when, "each": node.each}.items():
        if text:
            _check_read(file, node, key, lambda text=text, key=key: reading[key](text), nodes, inputs)
    for word in node.command:
        _check_read(file, node, "command", lambda word=word: names_of(word), nodes, inputs)
    if node.loop and node.loop.until:
        until = node.loop.until
        _check_read(file, node, "loop", lambda: names_in(until), nodes, inputs)


def _check_read(
    file: _File, node: Node, key: str, read: Any, nodes: Mapping[str, Node], inputs: Mapping[str, Input]
) -> None:
    at: KeyPath = ("nodes", node.name, key)
    try:
        names = read()
    except BadExpression as error:
        raise file.wrong(at, str(error), "Write names, values, ==, !=, <, >, in, and, or, not") from error
    for name in names:
        _check_name(file, at, node, name, nodes, inputs)


def _check_name(
    file: _File,
    at: KeyPath,
    node: Node,
    name: tuple[str, ...],
    nodes: Mapping[str, Node],
    inputs: Mapping[str, Input],
) -> None:
    first, second = name[0], name[1] if len(name) > 1 else ""
    if first == "inputs":
        if second not in inputs:
            known = ", ".join(inputs) or "none"
            raise file.wrong(at, f"there is no input {quoted(second)}", f"Add it to [inputs]. Known inputs: {known}")
    elif first == "nodes":
        if second not in node.needs:
            hint = f'Add it: needs = ["{second}"]' if second in nodes else f"Choose one of: {', '.join(nodes)}"
            raise file.wrong(at, f"it reads {'.'.join(name[:2])}, which it does not need", hint)
        if len(name) > 2 and name[2] not in _FIELDS:
            guess = nearest(name[2], _FIELDS)
            hint = f"Did you mean {guess}?" if guess else f"Choose one of: {', '.join(_FIELDS)}"
            raise file.wrong(at, f"a result has no {quoted(name[2])}", hint)
    elif first == "item" and not node.each:
        raise file.wrong(at, "item is there only with each", "Add each, or read an input")
    elif first in ("last", "check") and not node.loop:
        raise file.wrong(at, f"{first} is there only in a loop", "Add loop, or read a node")
    elif first not in ("item", "last", "check", "self", "run"):
        hint = "Write inputs.NAME, nodes.NAME.text, item, last.text or check.stdout"
        raise file.wrong(at, f"{quoted('.'.join(name))} is not known", hint)
