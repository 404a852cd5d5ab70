"""A turn and the machine it runs on, as values."""

import msgspec

from ostler.model import Host, Turn


def test_what_is_not_said_of_a_turn_takes_no_room() -> None:
    turn = Turn(id="t", session="s", agent="a", prompt="p", folder="/w")
    assert msgspec.json.encode(turn) == b'{"id":"t","session":"s","agent":"a","prompt":"p","folder":"/w"}'


def test_a_folder_that_brings_something_is_untrusted_until_the_user_trusts_it() -> None:
    plain = Host(executable="x")
    held = msgspec.structs.replace(plain, project_config=("/w/.claude/settings.json",))
    trusted = msgspec.structs.replace(held, trusted=True)
    assert [host.untrusted for host in (plain, held, trusted)] == [False, True, False]
