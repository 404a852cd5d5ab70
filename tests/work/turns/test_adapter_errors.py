"""Errors in an adapter are told once for each kind."""

from ostler.model import Notice
from ostler.work.turns.adapter_errors import MOST, AdapterErrors


def raised(code: str, line: int = 1) -> Exception:
    try:
        exec(compile("\n" * (line - 1) + code, "/somewhere/adapter.py", "exec"))
    except Exception as error:
        return error
    raise AssertionError


def test_each_kind_is_told_once() -> None:
    errors = AdapterErrors("mine")
    text = "ostler could not read a record of mine and kept it as it is (KeyError in adapter.py:1: 'x')"
    assert errors.notices(raised("{}['x']")) == [Notice(code="adapter_error", text=text, quiet=True)]
    assert errors.notices(raised("{}['y']")) == []  # the same place and type
    assert len(errors.notices(raised("{}['x']", line=2))) == 1
    assert len(errors.notices(raised("1 / 0"))) == 1


def test_a_long_message_is_cut_and_an_empty_one_left_out() -> None:
    [notice] = AdapterErrors("mine").notices(ValueError("x" * 10_000))
    assert isinstance(notice, Notice) and len(notice.text) < 700
    [notice] = AdapterErrors("mine").notices(ValueError())
    assert isinstance(notice, Notice) and notice.text.endswith("(ValueError in an unknown place)")


def test_there_is_an_end_to_what_is_told() -> None:
    errors = AdapterErrors("mine")
    told = [notice for line in range(1, 3 * MOST) for notice in errors.notices(raised("1 / 0", line))]
    assert len(told) == MOST
