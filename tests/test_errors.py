"""Errors: what each kind becomes at the edges, and what an error of the system means."""

import errno
from typing import get_args

import pytest

from ostler.errors import KINDS, ErrorKind, OstlerError, kind_of_os_error, quoted


@pytest.mark.parametrize("kind", get_args(ErrorKind))
def test_every_kind_is_a_failure_at_each_edge(kind: ErrorKind) -> None:
    error = OstlerError(kind, "it failed")
    assert error.exit_code in (1, 2, 124, 130)
    assert 400 <= error.http_status < 600
    assert (error.exit_code, error.http_status) == (KINDS[kind].exit, KINDS[kind].http)


def test_codes_that_shells_and_scripts_know() -> None:
    codes = {kind: KINDS[kind].exit for kind in KINDS if KINDS[kind].exit != 1}
    assert codes == {"bad_request": 2, "unsupported": 2, "not_found": 2, "timed_out": 124, "cancelled": 130}


def test_an_error_says_what_failed_and_what_to_do() -> None:
    error = OstlerError("limited", "slow down", "Wait a minute", retry_at=5.0)
    assert str(error) == "slow down. Wait a minute"
    assert (error.kind, error.message, error.hint, error.retry_at) == ("limited", "slow down", "Wait a minute", 5.0)
    assert str(OstlerError("busy", "busy")) == "busy"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *(
            (errno.EMFILE, "too_many"),
            (errno.ENFILE, "too_many"),
            (errno.ENOMEM, "too_many"),
            (errno.EAGAIN, "too_many"),
        ),
        *((errno.ENOSPC, "store"), (errno.EDQUOT, "store"), (errno.EROFS, "store"), (errno.EIO, "store")),
        *((errno.ENOENT, "crashed"), (errno.EACCES, "crashed"), (None, "crashed"), (0, "crashed")),
    ],
)
def test_errors_of_the_system(number: int | None, kind: str) -> None:
    error = OSError(number, "x") if number is not None else OSError("x")
    assert kind_of_os_error(error, "crashed") == kind


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *(("k3", "'k3'"), ("it's", "'it's'"), (r"C:\src\d+", r"'C:\src\d+'"), ("naïve 🐎", "'naïve 🐎'"), ("", "''")),
        *(("two\nlines", r"'two\nlines'"), ("\x1b[31m", r"'\x1b[31m'"), ("a\u202eb", r"'a\u202eb'")),
        *((True, "true"), (None, "null"), (1.5, "1.5"), (["a", 1], '["a", 1]'), ({"a": None}, '{"a": null}')),
    ],
)
def test_a_value_in_a_message_stands_as_it_was_typed(value: object, shown: str) -> None:
    assert quoted(value) == shown
