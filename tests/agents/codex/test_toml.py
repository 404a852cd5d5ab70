import tomllib

import pytest

from ostler.agents.codex.toml import toml


@pytest.mark.parametrize("value", [{"a b": ['ä"\n', 1, True], "c": {"d": ""}}, "\x7f", [], {}, -1.5])
def test_a_value_is_read_back(value: object) -> None:
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value
