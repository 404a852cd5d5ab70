"""What a person is asked before a node runs, and what comes of the answer. Pure."""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ostler.pipelines.model import Approval, Node, NodeResult
from ostler.pipelines.templates import filled

_LONG = 200_000  # characters of all items together


def question(node: Node, items: Sequence[Mapping[str, Any]]) -> str:
    """A gate's own; of another node all that it would run. `items`: the values of each. Raises BadExpression."""
    if node.gate:
        return filled(node.gate, items[0]).strip()
    work = [_work(node, values) for values in items]
    if node.each:
        work = [_cut(text, _LONG // len(work)) for text in work]
    if node.each and node.agent:
        work = [f"{number}. {text}" for number, text in enumerate(work, 1)]
    return "\n\n".join((heading(node), *work))


def _work(node: Node, values: Mapping[str, Any]) -> str:
    """A command is indented: where the question is drawn as Markdown, nothing of it may be taken for that."""
    if node.agent:
        return filled(node.prompt, values).strip()
    return textwrap.indent(shlex.join(filled(word, values) for word in node.command), "    ")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def heading(node: Node) -> str:
    """The first line of the question."""
    return f"Run {node.name} for each of these?" if node.each else f"Run {node.name}?"


def proposed_prompt(node: Node, asked: str) -> str:
    """The prompt that an agent runs with once a person lets it go on; that of an item is made of the node's own."""
    if not node.agent or not asked:
        return ""
    return node.prompt if node.each else asked.removeprefix(heading(node)).lstrip()


def decided(node: Node, said: Approval) -> NodeResult | None:
    """What the answer makes of the node. None: it runs, as `approved` has it."""
    by = said.by or "a person"
    if not said.go:
        return NodeResult(state="cancelled", error=f"denied by {by}", kind="denied")
    if said.answer is None and not node.gate:
        return None
    return NodeResult(state="done", text=said.answer or "", notices=(f"approved by {by}",))


def approved(node: Node, said: Approval) -> Node:
    return node if said.prompt is None else structs.replace(node, prompt=said.prompt)
