import pytest

from ostler.cli.user import user_name


def test_the_name_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    monkeypatch.setenv("USER", "ada")
    assert user_name() == "ada"
    monkeypatch.delenv("USER")
    assert user_name() == "grace"


def test_a_user_that_no_list_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 3_999_999_999)
    assert user_name() == "owner"
