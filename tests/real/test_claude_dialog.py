"""claude in a dialog: what its access keeps it from, whatever people answer. The real CLI, a scripted model."""

import pytest

from ostler.model import Answered
from real.test_dialog_access import turn
from real.yard import Yard

pytestmark = [pytest.mark.parametrize("agent", ["claude"]), pytest.mark.timeout(240)]


async def test_write_stays_in_the_folder_whatever_people_allow(yard: Yard) -> None:
    """Not by a path, nor by a link, nor to what would run as somebody else's wish."""
    (yard.folder / "link").symlink_to(yard.home)
    targets = [
        yard.home / "outside.txt",
        yard.folder / "link" / "outside.txt",
        yard.folder / ".." / "outside.txt",
        yard.folder / ".git" / "hooks" / "pre-commit",
        yard.folder / ".claude" / "settings.json",
    ]
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        for target in targets:
            envelope, events = await turn(o, live, f"[[write:{target}]]", "always")
            assert envelope.outcome == "done"
            assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("reject_once", "access write")]
            assert [denial.access for denial in envelope.denied] == ["full"]
            assert not target.exists()
        envelope, events = await turn(o, live, "[[write:app.py]]")
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("allow_once", "a person")]
        assert (yard.folder / "app.py").exists()


async def test_a_model_for_one_turn_is_not_that_of_the_next(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        used, pids = [], set()
        for model in (None, "claude-haiku-4-5", None):
            yard.model.requests.clear()
            envelope, _ = await turn(o, live, "hello", model=model)
            assert envelope.ok, envelope
            used.append({x.body["model"] for x in yard.model.asked})
            pids.add(o.dialogs._live[live.id].dialog.process.pid)
        assert used[1] == {"claude-haiku-4-5"} and used[0] == used[2] != used[1]
        assert len(pids) == 1


async def test_always_lasts_for_the_session_and_writes_no_settings(yard: Yard) -> None:
    def kept() -> dict[str, bytes]:
        found = [*yard.home.rglob("settings*.json"), *yard.folder.rglob("settings*.json")]
        return {str(path): path.read_bytes() for path in found}

    before = kept()
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        # claude keeps a rule for the first; it would ask again about what is written by the second.
        for command, again in (("touch made.txt", []), ("date >> log.txt", [("allow_always", "an earlier answer")])):
            for answers in ([("allow_always", "a person")], again):
                envelope, events = await turn(o, live, f"[[shell:{command}]]", "always")
                assert envelope.ok, envelope
                assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == answers
        assert len((yard.folder / "log.txt").read_text().splitlines()) == 2
        assert kept() == before
        await o.dialogs.close()  # with the process its rules are gone
        _, events = await turn(o, live, "[[shell:date >> log.txt]]", "deny")
        assert [e.option for e in events if isinstance(e, Answered)] == ["reject_once"]
    assert kept() == before
