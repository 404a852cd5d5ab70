import pytest

from ostler.agents.paths import is_inside, may_be_inside, relative_to


@pytest.mark.parametrize(
    ("path", "inside", "maybe"),
    [
        ("/w/a.py", True, True),
        ("/w", False, False),
        ("/w2/a.py", False, False),
        ("/w/../etc/x", False, False),
        ("a.py", False, True),
        ("../a.py", False, False),
        ("~/a.py", False, False),
        ("", False, True),
    ],
)
def test_whether_a_path_lies_in_the_folder(path: str, inside: bool, maybe: bool) -> None:
    for folder in ("/w", "/w/"):
        assert (is_inside(path, folder), may_be_inside(path, folder)) == (inside, maybe)


def test_everything_lies_in_the_root() -> None:
    assert is_inside("/a", "/")


def test_as_people_see_it() -> None:
    assert [relative_to(path, "/w/") for path in ("/w/a/b", "/etc/x", "c")] == ["a/b", "/etc/x", "c"]
