"""Shadows of state folders, and the logins that come back from them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.work.leftovers import note, remove_leftovers
from ostler.work.shadows import Shadow, added, bring_back, lend, make_shadow, merged, without_comments

FIELDS = ("access_token", "refresh_token", "expiry_date")
OLD = {"access_token": "a1", "refresh_token": "r1", "expiry_date": 10, "resource_url": "good.example"}


@pytest.fixture
def real(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".agent"
    (folder / "talks").mkdir(parents=True)
    for name, text in {"settings.json": "{}", "projects.json": "{}", "usage.db": "", "x.lock": ""}.items():
        (folder / name).write_text(text)
    (folder / "login.json").write_text(json.dumps(OLD))
    return folder


def shadow_of(real: Path, **more: Any) -> Shadow:
    place = real.parents[1] / "tmp" / "s1" / "home"
    return Shadow(real=str(real), place=str(place), logins={"login.json": FIELDS, "other.json": FIELDS}, **more)


def test_what_is_there_is_linked_copied_or_left_out(real: Path) -> None:
    shadow = shadow_of(real, copied=("projects.json", "talks"), anew=("usage*", "*.lock"))
    make_shadow(shadow)
    place = Path(shadow.place)
    assert sorted(os.listdir(place)) == ["login.json", "projects.json", "settings.json", "talks"]
    assert [name for name in sorted(os.listdir(place)) if (place / name).is_symlink()] == ["settings.json", "talks"]
    (place / "projects.json").write_text("changed")
    assert (real / "projects.json").read_text() == "{}"
    assert place.stat().st_mode & 0o777 == 0o700 and (place / "login.json").stat().st_mode & 0o777 == 0o600


def test_a_shadow_within_a_home_has_its_neighbours_beside_it(real: Path) -> None:
    (real.parent / ".env").write_text("X=1")
    place = real.parents[1] / "s"
    make_shadow(Shadow(real=str(real), place=str(place / ".agent"), beside=str(real.parent)))
    assert sorted(os.listdir(place)) == [".agent", ".env"] and (place / ".env").read_text() == "X=1"
    assert not (place / ".agent").is_symlink()


def test_an_agent_that_never_ran(tmp_path: Path) -> None:
    make_shadow(Shadow(real=str(tmp_path / "none"), place=str(tmp_path / "s")))
    assert os.listdir(tmp_path / "s") == []


# -- settings -----------------------------------------------------------------------------------------

OWN = b"""{
  // as people write it: "//" within a text is none
  "url": "http://models.example/v1", /* and { so "on */
  "hooks": {"AfterTool": [{"mine": 1}]}, "general": {"vim": true, "sessionRetention": {"maxAge": "30d"}}
}"""
MORE = {"hooks": {"AfterTool": [{"ours": 1}], "AfterAgent": []}, "general": {"sessionRetention": {"enabled": False}}}


def test_settings_are_added_to_a_copy_of_the_users(real: Path) -> None:
    (real / "settings.json").write_bytes(OWN)
    shadow = shadow_of(real, settings_file="settings.json", settings=MORE)
    make_shadow(shadow)
    copy = Path(shadow.place, "settings.json")
    assert not copy.is_symlink() and copy.stat().st_mode & 0o777 == 0o600
    assert json.loads(copy.read_bytes()) == {
        "url": "http://models.example/v1",
        "hooks": {"AfterTool": [{"mine": 1}, {"ours": 1}], "AfterAgent": []},
        "general": {"vim": True, "sessionRetention": {"maxAge": "30d", "enabled": False}},
    }
    assert (real / "settings.json").read_bytes() == OWN


def test_the_user_may_have_no_settings_or_broken_ones(real: Path) -> None:
    (real / "settings.json").unlink()
    shadow = shadow_of(real, settings_file="settings.json", settings=MORE)
    make_shadow(shadow)
    assert json.loads(Path(shadow.place, "settings.json").read_bytes()) == MORE
    (real / "settings.json").write_text('{"general": ')
    broken = structs.replace(shadow, place=f"{shadow.place}-2")
    make_shadow(broken)
    assert Path(broken.place, "settings.json").is_symlink()  # the agent says what is wrong with them


def test_values_that_do_not_fit_together() -> None:
    assert added({"a": [1], "b": {"c": 1}}, {"a": {"d": 2}, "b": [3]}) == {"a": {"d": 2}, "b": [3]}
    assert without_comments(rb'{"a": "\"//", "b": "/*"} // "c') == rb'{"a": "\"//", "b": "/*"}  '


# -- without a wall -----------------------------------------------------------------------------------


def test_without_a_wall_what_is_new_or_replaced_is_kept(real: Path) -> None:
    shadow = shadow_of(real, keeps_new=True, settings_file="settings.json", settings=MORE)
    shadow = structs.replace(shadow, logins={})
    make_shadow(shadow)
    lent, place = lend(shadow, str(Path(shadow.place).parent)), Path(shadow.place)
    (place / "memory.md").write_text("new")
    (place / "notes").mkdir()
    (place / "notes" / "one").write_text("1")
    (place / "login.json").unlink()
    (place / "login.json").write_text("another login")
    (place / "talks" / "t1").write_text("in the real one")
    bring_back([lent], ended=False)
    assert not (real / "memory.md").exists()  # the agent may be just writing it
    bring_back([lent], ended=True)
    kept = {path.relative_to(real).as_posix(): path.read_text() for path in real.rglob("*") if path.is_file()}
    assert kept == {
        "settings.json": "{}",
        "projects.json": "{}",
        "usage.db": "",
        "x.lock": "",
        "login.json": "another login",
        "memory.md": "new",
        "notes/one": "1",
        "talks/t1": "in the real one",
    }


# -- logins -------------------------------------------------------------------------------------------


def renewed(real: Path, new: object) -> tuple[Shadow, str]:
    shadow = shadow_of(real)
    make_shadow(shadow)
    scratch = str(Path(shadow.place).parent)
    lent = lend(shadow, scratch)
    copy = Path(shadow.place) / "login.json"
    copy.unlink()  # many write a new file and rename it
    copy.write_text(new if isinstance(new, str) else json.dumps(new))
    return shadow, lent


def test_tokens_come_back_and_nothing_else(real: Path) -> None:
    new = {"access_token": "a2", "refresh_token": "r2", "expiry_date": 20, "resource_url": "evil.example", "x": 1}
    _, lent = renewed(real, new)
    bring_back([lent], ended=True)
    kept = json.loads((real / "login.json").read_text())
    assert kept == {**OLD, "access_token": "a2", "refresh_token": "r2", "expiry_date": 20}
    assert (real / "login.json").stat().st_mode & 0o777 == 0o600
    assert not (real / "other.json").exists()


def written(path: Path) -> tuple[int, int, int]:
    """Which file it is, and when it was written last; that somebody reads it is no matter."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@pytest.mark.parametrize("new", ["{", "[]", "x" * 300_000, json.dumps(OLD), "[" * 100_000, '{"access_token": {}}'])
def test_what_is_no_renewed_login_does_not(real: Path, new: str) -> None:
    before = written(real / "login.json")
    _, lent = renewed(real, new)
    bring_back([lent], ended=True)
    assert written(real / "login.json") == before


def test_a_link_or_a_pipe_in_its_place_is_not_read(real: Path, tmp_path: Path) -> None:
    shadow, lent = renewed(real, "{}")
    copy = Path(shadow.place) / "login.json"
    copy.unlink()
    (tmp_path / "planted").write_text(json.dumps({**OLD, "access_token": "other"}))
    copy.symlink_to(tmp_path / "planted")
    bring_back([lent], ended=True)
    copy.unlink()
    os.mkfifo(copy)
    bring_back([lent], ended=True)
    assert json.loads((real / "login.json").read_text()) == OLD


def test_another_process_has_renewed_it_meanwhile(real: Path) -> None:
    _, lent = renewed(real, {**OLD, "access_token": "a2", "expiry_date": 20})
    (real / "login.json").write_text(json.dumps({**OLD, "access_token": "a3", "expiry_date": 30}))
    bring_back([lent], ended=True)
    assert json.loads((real / "login.json").read_text())["access_token"] == "a3"


def test_a_login_that_is_a_link_stays_one(real: Path, tmp_path: Path) -> None:
    (real / "login.json").rename(tmp_path / "dotfile")
    (real / "login.json").symlink_to(tmp_path / "dotfile")
    _, lent = renewed(real, {**OLD, "access_token": "a2"})
    bring_back([lent], ended=True)
    assert (real / "login.json").is_symlink()
    assert json.loads((tmp_path / "dotfile").read_text())["access_token"] == "a2"


def test_the_next_ostler_brings_it_back_where_this_one_was_killed(real: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    shadow, lent = renewed(real, {**OLD, "refresh_token": "r2"})
    scratch = str(Path(shadow.place).parent)
    noted = Path(note(state, {lent: b"", scratch: b""}))
    noted.write_text(noted.read_text().replace(f'"pid":{os.getpid()}', '"pid":999999999'))
    remove_leftovers(state)
    assert json.loads((real / "login.json").read_text())["refresh_token"] == "r2"
    assert not noted.exists()


def test_merging() -> None:
    assert merged({"a": 1, "b": 2}, {"a": 3, "b": 4, "c": 5}, ("a", "c")) == {"a": 3, "b": 2}
    assert merged({"a": 1}, {"a": 1}, ("a",)) is None
    assert merged(None, {"a": 1}, ("a",)) is merged({"a": 1}, [], ("a",)) is None
