"""Processes that stay for several turns behind one wall: what is there stays as long, what is renewed comes back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from needs import needs
from ostler.agents import AGENTS
from ostler.agents.adapter import State
from ostler.work.leftovers import note, remove_leftovers
from ostler.work.panes.notes import PaneNotes
from waiting import until
from work.panes.own_tmux import own_tmux, panes, tmux
from work.scripted import Stable, collect

pytestmark = needs("landlock")
STATE = ".local/state/ostler-script"
OLD = {"access_token": "a0", "refresh_token": "r0"}
# One more line in the turn's own temporary folder, all of them in the folder, and a login that is renewed; and a try.
WORK = (
    'echo x > "$HOME/outside"; '
    'echo x >> "$TMPDIR/kept"; cp "$TMPDIR/kept" kept; n=$(grep -c x kept); '
    'echo "{\\"access_token\\": \\"a$n\\", \\"refresh_token\\": \\"r$n\\"}" > "$OSTLER_SCRIPT_HOME/login.json"'
)


@pytest.fixture
def shadowed(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stable]:
    """The scripted agent keeps its state as gemini and qwen do: a shadow stands in for it, and has a login in it."""
    import ostler.agents.script.agent as module

    state = State(shadowed=STATE, kept=(f"{STATE}/sessions",), anew=("launches*",), logins={"login.json": tuple(OLD)})
    monkeypatch.setattr(module, "AGENT", structs.replace(AGENTS["script"], state=state))
    stable.script.env |= {"OSTLER_WALLS": "required"}
    stable.script.plays([{"run": WORK}, {"history": True}])
    (stable.script.home / "login.json").write_text(json.dumps(OLD))
    with own_tmux(stable.state, monkeypatch):
        yield stable


def refresh_token(stable: Stable) -> str:
    return str(json.loads((stable.script.home / "login.json").read_text())["refresh_token"])


@pytest.mark.parametrize("transport", ["pty", "tmux", "dialog", "visible"])
async def test_what_is_behind_a_wall_stays_as_long_as_its_process(shadowed: Stable, transport: Any) -> None:
    """Under write, in another ostler process, then under read; a login that was renewed is there after each turn."""
    kept = shadowed.folder / "kept"
    async with shadowed.ostler() as o:
        session = await o.session("script", folder=str(shadowed.folder), access="write")
        for number in (1, 2, 3):
            await collect(session, str(number), transport=transport)
            assert session.last is not None and session.last.ok, session.last
            assert session.last.text == ("\n".join("123"[: number - 1]) or "nothing")
            assert kept.read_text().count("x") == number
            assert refresh_token(shadowed) == f"r{number}"
        own = [row for row in o.terminals.list(session.id) if row.source != "turn"]
        assert len(own) == (0 if transport == "dialog" else 1)
    async with shadowed.ostler() as o:
        session = await o.session(session=session.id)
        await collect(session, "4", transport=transport)
        assert session.last is not None and session.last.text == "1\n2\n3", session.last
        assert kept.read_text().count("x") == (4 if transport == "tmux" else 1)
        for number in (5, 6):
            await collect(session, str(number), transport=transport, access="read")
            assert session.last.ok and session.last.text.endswith(f"\n{number - 1}"), session.last
        await o.close_session(session.id)
    assert panes(shadowed.state) == [] and list((shadowed.state / "tmp").iterdir()) == []
    assert not (shadowed.home / "outside").exists()


@pytest.mark.parametrize("shows", ["tui", "output"])
async def test_a_login_is_kept_when_its_pane_is_closed_by_somebody_else(shadowed: Stable, shows: str) -> None:
    """The pane's own warden ends it, and must not remove what has to come back; the next ostler does that."""
    async with shadowed.ostler(OSTLER_TMUX_SHOWS=shows) as o:
        session = await o.session("script", folder=str(shadowed.folder), access="write")
        await collect(session, "1", transport="tmux")
        assert refresh_token(shadowed) == "r1"
        scratch = [path for path in (shadowed.state / "tmp").iterdir() if path.is_dir()]
        assert bool(scratch) is (shows == "tui")
    for each in scratch:  # as if it were renewed while no ostler runs
        (each / "home" / "login.json").write_text(json.dumps({"access_token": "late", "refresh_token": "late"}))
    notes = PaneNotes(shadowed.state)
    tmux(shadowed.state, "kill-server")
    await until(lambda: not any(each.lives for each in notes.all()))
    async with shadowed.ostler() as o:
        assert refresh_token(shadowed) == ("late" if shows == "tui" else "r1")
        await o.prune()
    assert list((shadowed.state / "tmp").iterdir()) == [] and not (shadowed.home / "outside").exists()


async def test_a_pane_whose_wall_was_another_is_not_used_again(shadowed: Stable) -> None:
    """What the settings opened once is not open to a turn that has other ones."""
    opened = shadowed.home / "opened"
    opened.mkdir()
    config = shadowed.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    shadowed.script.plays([{"run": f"echo x >> {opened}/x"}, {"history": True}])
    for number, (paths, lines) in enumerate(((["~/opened"], 1), (["~/opened"], 2), ([], 2))):
        config.write_text(f"wall_paths = {json.dumps(paths)}\n")
        async with shadowed.ostler() as o:
            session = await o.session(
                **({"session": "mine"} if number else {"agent": "script", "name": "mine"}), folder=str(shadowed.folder)
            )  # type: ignore[arg-type]
            await collect(session, str(number), transport="tmux", access="write")
            assert session.last is not None and session.last.text == ("\n".join("01"[:number]) or "nothing")
            assert (opened / "x").read_text().count("x") == lines
            assert len(o.terminals.list(session.id)) == number + 1


def test_a_folder_of_the_agents_goes_although_ostler_and_its_warden_were_killed(tmp_path: Path) -> None:
    state, own, other = tmp_path / "state", tmp_path / "session-env" / "an-id", tmp_path / "theirs"
    for folder in (state, own, other):
        folder.mkdir(parents=True)
    (own / "hook.sh").write_text("echo planted")
    link = tmp_path / "link"
    link.symlink_to(other)
    noted = Path(note(state, {}, folders=[str(own), str(link)]))
    noted.write_text(noted.read_text().replace('"pid":', '"pid":99999999'))
    remove_leftovers(state)
    assert not own.exists() and own.parent.exists() and other.exists() and not noted.exists()
