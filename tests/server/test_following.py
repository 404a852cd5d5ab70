"""A machine follows the others only while somebody needs to know them."""

from pathlib import Path

import pytest

from machines.conftest import database, postgres  # noqa: F401
from ostler.machines import membership, states
from server.machine_yards import joined_yard
from waiting import until

pytestmark = pytest.mark.asyncio


async def test_others_are_read_while_they_are_asked_for(
    tmp_path: Path,
    database: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (membership, states):
        monkeypatch.setattr(module, "BEAT", 0.05)
    monkeypatch.setattr(membership, "INTEREST", 0.2)
    async with joined_yard(tmp_path, "hawk", database) as hawk:
        await until(lambda: not hawk.membership.watches)
        async with joined_yard(tmp_path, "owl", database) as owl:
            first = hawk.membership.me.row.beat

            async def has_told() -> bool:  # a heartbeat, of which hawk itself knows nothing
                row = await owl.membership.directory.machine(hawk.membership.id)
                return row is not None and row.beat > first + 3

            await until(has_told)
            assert set(hawk.membership._seen) == {hawk.membership.id}
            listed = (await hawk.client.get("/api/machines")).json()["items"]
            assert [(each["name"], each["state"]) for each in listed] == [("hawk", "live"), ("owl", "live")]
            assert hawk.membership.watches
            # Who asks hawk is known, whether hawk follows the others or not; who was removed is not.
            await until(lambda: not hawk.membership.watches)
            far = owl.membership.machine("hawk")
            assert far is not None
            headers = {"authorization": f"Bearer {owl.membership.sign_for(far, 'p', 'ann', 'view')}"}
            async with hawk.as_(None, headers=headers) as asking:
                assert (await asking.get("/api/sessions")).status_code == 200
                await owl.membership._beating.stop()
                await hawk.membership.directory.forget(owl.membership.id)

                async def is_refused() -> bool:
                    return (await asking.get("/api/sessions")).status_code == 401

                await until(is_refused)
