"""A gate in a pipeline of real CLIs, which a person reads and approves in a real browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import PATIENCE, Reader, chromium, playwright
from browser.test_pipelines import node
from real.test_pipelines import FLOW, git
from real.test_takeover import in_front_of
from real.yard import Yard, setup_of
from waiting import wait_until

__all__ = ["chromium", "playwright"]
pytestmark = [pytest.mark.timeout(600), pytest.mark.parametrize("agent", ["claude"])]
expect.set_options(timeout=2 * PATIENCE)  # three CLIs start one after the other

GATED = (
    FLOW.partition("[nodes.judge]")[0]
    + """
[nodes.ship]
gate = "Ship it?\\n\\n{{ nodes.first.diff }}"
needs = ["first", "second"]

[nodes.judge]
agent = "claude"
needs = ["ship"]
prompt = "[[say:shipped]] A person says: {{ nodes.ship.text }}"
"""
)


def test_a_person_reads_what_real_agents_made_and_lets_the_next_one_go_on(
    yard: Yard, chromium: Browser, tmp_path: Path
) -> None:
    for other in ("codex", "gemini"):
        yard.env |= setup_of(other).setup(yard.home, yard.folder, yard.model.url, False)
    git(yard.folder, "add", ".")
    git(yard.folder, "commit", "-qm", "first")
    with in_front_of(yard, chromium, tmp_path) as reader:
        wait_until(lambda: _are_known(reader, "claude", "codex", "gemini"), 180)
        run = reader.call("POST", "/api/runs", {"folder": str(yard.folder), "text": GATED})["id"]
        page = reader.page
        page.goto(f"{reader.server.url}/#/p/{run}")
        expect(node(reader, "ship", "asking")).to_be_visible()
        for name in ("plan", "first", "second"):
            expect(node(reader, name, "done")).to_be_visible()
        side = page.locator(".side .asked")
        expect(side).to_contain_text("Ship it?")
        expect(side.locator(".diff")).to_contain_text("one.txt")  # what codex made, to be looked at first
        expect(node(reader, "judge", "queued")).to_be_visible()
        assert not _said(yard)  # nobody goes on without a person
        side.locator("textarea").fill("with a red ribbon")
        side.get_by_role("button", name=re.compile("Approve")).click()
        expect(node(reader, "judge", "done")).to_be_visible()
        expect(page.locator(".run-view .row-2")).to_contain_text("5 of 5 nodes")
        node(reader, "judge").get_by_role("link").click()
        expect(page.locator(".side")).to_contain_text("shipped")
        wait_until(lambda: reader.call("GET", f"/api/runs/{run}")["state"] == "done")
        assert reader.call("GET", f"/api/runs/{run}/nodes/ship")["approved_by"] == "You"
    assert _said(yard)  # claude was told what the person said
    assert (yard.folder / "one.txt").exists() and (yard.folder / "two.txt").exists()


def _said(yard: Yard) -> bool:
    return any("A person says: with a red ribbon" in request.text for request in yard.model.asked)


def _are_known(reader: Reader, *agents: str) -> bool:
    """On a busy machine a CLI may take longer to tell its version than a turn waits for that."""
    told = {each["name"]: each for each in reader.call("GET", "/api/agents?refresh=true")["items"]}
    return all(told[name]["installed"] and not told[name]["problem"] for name in agents)
