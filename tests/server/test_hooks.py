"""Hooks of a server's turns come in by its own port, with the token of their turn and nothing else."""

import json
from pathlib import Path

import httpx
import pytest

from server.test_running import Process
from waiting import until


@pytest.fixture
async def process(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Process(tmp_path)
    yield made
    for each in made.started:
        if each.poll() is None:
            each.kill()
        each.communicate()


async def test_a_turn_of_the_server_has_its_hooks(process: Process) -> None:
    await process.start()
    async with process.client() as client:
        session = await process.session(client)
        kept = process.folder / "kept.txt"
        names = "OSTLER_CALLBACK_URL OSTLER_CALLBACK_TOKEN OSTLER_API_URL"
        prompt = f"[[run:printenv {names} > kept.txt]] [[wait_for:go]] [[say:done]]"
        wanted = {"prompt": prompt, "hooks": True, "access": "full"}
        made = await client.post(f"/api/sessions/{session}/turns", json=wanted)
        assert made.status_code == 202, made.text
        await until(lambda: kept.exists() and len(kept.read_text().split()) == 3)
        url, token, api = kept.read_text().split()
        assert url == f"{api}/api/hooks" and api == process.facts["url"]
        told = {"hook_event_name": "Notification", "message": "hay?"}
        async with httpx.AsyncClient() as stranger:
            known = {"authorization": f"Bearer {token}"}
            said = [
                await stranger.post(url, json=told),
                await stranger.post(url, json=told, headers={"authorization": "Bearer x"}),
                await stranger.post(url, json=told, headers=process.bearer),
                await stranger.post(url, json=told, headers={**known, "origin": api}),
                await stranger.post(url, json=told, headers={**known, "host": "evil.example"}),
                await stranger.post(url, content=json.dumps(told), headers={**known, "content-type": "text/plain"}),
                await stranger.post(f"{api}/api/sessions", json={}, headers=known),
                await stranger.get(url, headers=known),
            ]
            assert [each.status_code for each in said] == [401, 401, 401, 403, 421, 415, 401, 401]
            assert (await stranger.post(url, json=told, headers=known)).status_code == 204
        (process.folder / "go").touch()

        async def ended() -> bool:
            return bool((await client.get(f"/api/turns/{made.json()['id']}")).json()["state"] == "ended")

        await until(ended)
        events = (await client.get(f"/api/sessions/{session}/events")).json()["items"]
        names_told = [event["name"] for event in events if event["kind"] == "hook"]
        assert names_told.count("Notification") == 1
        assert {"SessionStart", "Stop", "SessionEnd"} <= {*names_told}
