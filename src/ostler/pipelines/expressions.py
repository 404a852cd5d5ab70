"""Conditions and paths in pipeline files: a small part of Python's expressions, evaluated on results alone. Pure."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ostler.errors import quoted

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_WORDS = {"true": True, "false": False, "null": None, "none": None}


class BadExpression(ValueError):
    """What is wrong with an expression, in words for its author."""


def parsed(text: str) -> ast.expr:
    """Raises BadExpression for what is none, or uses more than names, values, comparisons, and, or, not, in, len()."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadExpression(f"{quoted(text.strip()[:80])} is not a valid expression") from error
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise BadExpression(f"{quoted(ast.unparse(node)[:60])} is not allowed in an expression")
        if isinstance(node, ast.Call) and not _is_len(node):
            raise BadExpression("only len(…) can be called in an expression")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise BadExpression(f"{quoted(node.attr)} is not a field")
    return tree


_ALLOWED = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.List, ast.Tuple),
    *(ast.Call, ast.Load, ast.And, ast.Or, ast.Not, ast.USub, *_COMPARE),
)


def _is_len(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1 and not node.keywords


def names_in(text: str) -> list[tuple[str, ...]]:
    """The dotted names that an expression reads: `nodes.plan.text` is ("nodes", "plan", "text")."""
    found: list[tuple[str, ...]] = []

    def visit(node: ast.AST) -> None:
        if (dotted := _dotted(node)) is not None:
            if dotted != ("len",) and dotted[0] not in _WORDS:
                found.append(dotted)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(parsed(text))
    return found


def _dotted(node: ast.AST) -> tuple[str, ...] | None:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (inner := _dotted(node.value)) is not None:
        return (*inner, node.attr)
    return None


def evaluated(text: str, values: Mapping[str, Any]) -> Any:
    """The value of an expression. A field that is not there is None. Raises BadExpression."""
    try:
        return _value(parsed(text), values)
    except (TypeError, KeyError, IndexError) as error:
        raise BadExpression(f"{quoted(text.strip()[:80])} cannot be evaluated: {error}") from error


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _WORDS[name] if name in _WORDS and name not in values else values.get(name)
        case ast.Attribute(value=inner, attr=name):
            return field(_value(inner, values), name)
        case ast.Subscript(value=inner, slice=key):
            return _value(inner, values)[_value(key, values)]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, values) for item in items]
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _value(inner, values)
        case ast.UnaryOp(operand=inner):
            return -_value(inner, values)
        case ast.Call(args=[inner]):
            return len(_value(inner, values))
        case ast.Compare():
            return _compared(node, values)
    raise BadExpression(f"{quoted(ast.unparse(node))} is not allowed in an expression")


def _compared(node: ast.Compare, values: Mapping[str, Any]) -> bool:
    left = _value(node.left, values)
    for compare, other in zip(node.ops, node.comparators, strict=True):
        right = _value(other, values)
        if not _COMPARE[type(compare)](left, right):
            return False
        left = right
    return True


def field(value: Any, name: str) -> Any:
    """A field of a table, or an item of a list by its number; None where there is none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return None
