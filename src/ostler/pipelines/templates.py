"""Prompts with places for results: `{{ nodes.plan.text }}`. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

from ostler.pipelines.expressions import BadExpression, evaluated, names_in

_PLACE = re.compile(r"\{\{(.*?)\}\}", re.S)


def places(text: str) -> list[str]:
    """The expressions of a template. Raises BadExpression for one that is not closed."""
    rest = _PLACE.sub("", text)
    if "{{" in rest:
        raise BadExpression("a {{ is never closed: write {{ nodes.NAME.text }}")
    return [place.strip() for place in _PLACE.findall(text)]


def names_of(text: str) -> list[tuple[str, ...]]:
    """The dotted names that a template reads."""
    return [name for place in places(text) for name in names_in(place)]


def filled(text: str, values: Mapping[str, Any]) -> str:
    """The template with its values. Tables and lists are written as JSON, what is not there as nothing."""
    return _PLACE.sub(lambda found: shown(evaluated(found[1], values)), text)


def shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
