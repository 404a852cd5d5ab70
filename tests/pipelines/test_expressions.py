"""Conditions: values, names and comparisons, and nothing that could do something."""

import pytest

from ostler.pipelines.expressions import BadExpression, evaluated, field, names_in, parsed

VALUES = {"nodes": {"plan": {"text": "long", "structured": {"risk": "high", "n": 3, "list": [1, 2]}, "ok": True}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nodes.plan.ok", True),
        ("nodes.plan.structured.risk == 'high'", True),
        ("nodes.plan.structured.n >= 3 and not nodes.plan.missing", True),
        ("1 < nodes.plan.structured.n < 3", False),
        ("'lon' in nodes.plan.text or false", True),
        ("nodes.plan.structured.list[1]", 2),
        ("len(nodes.plan.structured.list) == 2", True),
        ("[1, -2]", [1, -2]),
        ("nodes.nobody.text", None),
        ("true", True),
        ("null", None),
        ("2 not in [1]", True),
        ("1 != 1", False),
        ("2 <= 2", True),
    ],
)
def test_what_an_expression_says(text: str, value: object) -> None:
    assert evaluated(text, VALUES) == value


@pytest.mark.parametrize("text", ["", "a b", "f(1)", "a.__class__", "lambda: 1", "[x for x in y]", "a + 1", "'" * 9])
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(BadExpression):
        parsed(text)


def test_what_cannot_be_evaluated() -> None:
    for text in ("nodes.plan.text > 3", "nodes.plan.structured.list[9]", "len(nodes.plan.ok)"):
        with pytest.raises(BadExpression, match="cannot be evaluated"):
            evaluated(text, VALUES)


def test_names_are_found_whole() -> None:
    assert names_in("nodes.a.text == inputs.b and len(item) > 1 or true") == [
        ("nodes", "a", "text"),
        ("inputs", "b"),
        ("item",),
    ]


def test_fields_of_tables_alone() -> None:
    assert (field({"a": 1}, "a"), field({"a": 1}, "b"), field("text", "upper")) == (1, None, None)
