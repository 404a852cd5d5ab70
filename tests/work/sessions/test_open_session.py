"""Sessions opened: a new one, or one that exists, which can be given nothing that only a new one has."""

from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import TurnDefaults
from ostler.work import Ostler, plug_ins
from ostler.work.sessions.open_session import SessionOptions, open_session
from work.scripted import Stable


async def opened(o: Ostler, **options: Any) -> Any:
    return await open_session(o.session_context, SessionOptions(**options))


async def kept(o: Ostler, stable: Stable) -> str:
    live = await opened(o, agent="script", folder=str(stable.folder), name="barn", access="write")
    return str((await live.keep()).id)


async def test_a_new_session_is_stored_by_nobody_yet(stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await opened(o, agent="script", folder=str(stable.folder), model="m", system="Be brief.")
        assert (live.row.agent, live.row.model, live.row.system, live.row.access) == (
            "script",
            "m",
            "Be brief.",
            "read",
        )
        assert o.sessions() == [] and live.options == TurnDefaults()


async def test_what_holds_for_the_turns_of_one_that_exists(stable: Stable) -> None:
    async with stable.ostler() as o:
        id = await kept(o, stable)
        for key in ({"session": "barn"}, {"resume_last": True, "folder": str(stable.folder)}):
            live = await opened(o, access="full", model="m", **key)
            assert (live.id, live.row.access) == (id, "write")
            assert live.options == TurnDefaults(access="full", model="m")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"session": "barn", "name": "loft"}, "bad_request"),
        ({"session": "barn", "agent_session": "other"}, "bad_request"),
        ({"session": "barn", "agent": "claude"}, "bad_request"),
        ({"session": "barn", "folder": "/"}, "bad_request"),
        ({"session": "nobody"}, "not_found"),
        ({"resume_last": True, "folder": "/"}, "not_found"),
        ({"agent": "script", "folder": "/", "name": "barn"}, "exists"),
        ({"agent": "script", "folder": "/", "system_mode": "replace"}, "bad_request"),
        ({"agent": "script", "folder": "/nowhere"}, "not_found"),
    ],
)
async def test_what_cannot_be_opened(stable: Stable, options: dict[str, Any], kind: str) -> None:
    async with stable.ostler() as o:
        await kept(o, stable)
        with pytest.raises(OstlerError) as caught:
            await opened(o, **options)
        assert caught.value.kind == kind
        assert len(o.sessions()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "loft"}, "session barn already exists; its name cannot be set here"),
        ({"agent_session": "other"}, "session barn already exists; its agent session cannot be set here"),
        ({"agent": "claude"}, "session barn uses script, not claude"),
    ],
)
async def test_a_session_that_has_a_name_is_called_by_it(stable: Stable, options: dict[str, Any], message: str) -> None:
    async with stable.ostler() as o:
        await kept(o, stable)
        with pytest.raises(OstlerError) as caught:
            await opened(o, session="barn", **options)
        assert caught.value.message == message


async def test_plug_ins_are_loaded_for_a_name_that_they_might_have(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stable.ostler() as o:
        monkeypatch.setattr(plug_ins, "_loaded", None)
        await opened(o, agent="claude", folder=str(stable.folder))
        assert plug_ins._loaded is None
        with pytest.raises(OstlerError):
            await opened(o, agent="stranger", folder=str(stable.folder))
        assert plug_ins._loaded is not None
