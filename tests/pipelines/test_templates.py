"""Prompts with places for results."""

import pytest

from ostler.pipelines.expressions import BadExpression
from ostler.pipelines.templates import filled, names_of, places, shown

VALUES = {"inputs": {"task": "a {{ b }}"}, "nodes": {"plan": {"structured": {"n": [1]}}}}


def test_places_are_filled_once() -> None:
    assert filled("do {{inputs.task}}, not {{ inputs.other }}.", VALUES) == "do a {{ b }}, not ."
    assert filled("{{ nodes.plan.structured }}", VALUES) == '{\n  "n": [\n    1\n  ]\n}'
    assert filled("no places", VALUES) == "no places"


def test_names_and_places() -> None:
    assert places("{{ a }} and {{ b.c }}") == ["a", "b.c"]
    assert names_of("{{ a }} and {{ b.c }}") == [("a",), ("b", "c")]
    with pytest.raises(BadExpression):
        places("{{ a")


def test_values_for_people() -> None:
    assert (shown(None), shown("x"), shown(3), shown("ü")) == ("", "x", "3", "ü")
