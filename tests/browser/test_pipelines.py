"""Pipelines in the page: started, drawn live, a gate answered in a browser, and where each node leads."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.conftest import PATIENCE, Reader
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=PATIENCE)
Visit = Callable[..., Reader]

FLOW = """
name = "stable"
cost_usd = 5.0
[inputs]
word = "hay"
[nodes.plan]
agent = "claude"
prompt = "[[say:Feed **{{ inputs.word }}**]]"
[nodes.look]
command = ["echo", "looked"]
[nodes.ship]
gate = "Ship {{ nodes.plan.text }}?"
needs = ["plan", "look"]
[nodes.done]
command = ["echo", "shipped with {{ nodes.ship.text }}"]
needs = ["ship"]
"""


def node(reader: Reader, name: str, mark: str = "") -> Any:
    return reader.page.locator(f".node[data-node={name}]{f'.{mark}' if mark else ''}")


def start(reader: Reader, text: str = FLOW, **more: Any) -> str:
    body = {"folder": str(reader.server.folder), "text": text, **more}
    return str(reader.call("POST", "/api/runs", body)["id"])


@pytest.mark.core
def test_a_run_is_started_drawn_and_its_gate_approved_with_words(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    (reader.server.folder / "stable.toml").write_text(FLOW)
    page.get_by_role("link", name="Pipelines").click()
    page.get_by_role("button", name="Run a pipeline").first.click()
    page.get_by_label("Pipeline", exact=True).select_option(label="A file in the folder")
    page.get_by_label("Folder", exact=True).fill(str(reader.server.folder))
    page.get_by_label("File", exact=True).fill("stable.toml")
    page.get_by_role("button", name="Check").click()
    page.get_by_label("word", exact=True).fill("oats")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(node(reader, "done", "queued")).to_be_visible()
    expect(node(reader, "ship", "asking")).to_be_visible()
    expect(node(reader, "plan", "done")).to_be_visible()
    side = page.locator(".side .asked")
    expect(side).to_contain_text("Ship Feed oats?")  # the gate is shown by itself, and filled in
    expect(page.locator(".rail .count[title='1 gate waiting for you']")).to_have_text("1")
    expect(page).to_have_title(re.compile(r"^\(\d+\) stable · ostler"))
    side.locator("textarea").fill("a red ribbon")
    node(reader, "ship").get_by_role("button", name="Approve").click()  # goes with what is written beside it
    expect(node(reader, "done", "done")).to_be_visible()
    expect(page.locator(".run-view .row-2")).to_contain_text("4 of 4 nodes")
    node(reader, "done").get_by_role("link").click()
    expect(page.locator(".side")).to_contain_text("shipped with a red ribbon")
    leads_to_the_journal(reader)


def leads_to_the_journal(reader: Reader) -> None:
    page = reader.page
    node(reader, "plan").get_by_role("link").focus()
    page.keyboard.press("Enter")  # the graph is walked by keyboard
    expect(page.locator(".side h2")).to_contain_text("plan")
    page.locator(".side").get_by_role("link", name="Journal").click()
    expect(page.locator(".journal")).to_contain_text("Feed oats")
    page.go_back()
    expect(page.locator(".side h2")).to_contain_text("plan")
    page.locator(".side").get_by_role("button", name="Terminal").click()
    expect(page.locator(".p-terminal .term").first).to_be_visible()
    page.goto(f"{reader.server.url}/#/grid")
    page.locator(".wall-view").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.locator(".run-row").first).to_contain_text("stable")


def test_a_gate_is_denied_by_key_only_where_it_has_the_focus(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    id = start(reader, '[nodes.ask]\ngate = "Go on?"\n')
    page.goto(f"{reader.server.url}/#/p/{id}")
    expect(node(reader, "ask", "asking")).to_be_visible()
    page.keyboard.press("d")  # nothing has the focus
    page.locator(".side textarea").focus()
    page.keyboard.type("add")  # letters belong to the field
    expect(page.locator(".side").get_by_role("button", name="Deny")).to_be_enabled()
    page.locator(".side .asked").focus()
    assert reader.call("GET", f"/api/runs/{id}")["nodes"][0]["state"] == "gate"
    page.keyboard.press("d")
    expect(node(reader, "ask", "cancelled")).to_be_visible()
    expect(page.locator(".side .error")).to_have_text("Denied by You")
    page.keyboard.press("Escape")
    expect(page.locator(f".run-row[data-run={id}]")).to_contain_text("pipeline")


def test_a_gate_that_is_shown_is_not_replaced_by_another_that_opens(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    door = reader.server.folder / "door"
    wait = f'command = ["sh", "-c", "until [ -e {door} ]; do sleep 0.05; done"]'
    id = start(reader, f'[nodes.slow]\n{wait}\n[nodes.a]\ngate = "A?"\nneeds = ["slow"]\n[nodes.b]\ngate = "B?"\n')
    page.goto(f"{reader.server.url}/#/p/{id}")
    expect(page.locator(".side .asked")).to_contain_text("B?")
    door.touch()
    expect(node(reader, "a", "asking")).to_be_visible()
    expect(page.locator(".side .asked")).to_contain_text("B?")  # a click on its way means what it meant
    assert node(reader, "a").get_by_role("button").count() == 0  # its question is not shown
    page.locator(".side").get_by_role("button", name="Approve").click()
    expect(page.locator(".side .asked")).to_contain_text("A?")
    assert [each["state"] for each in reader.call("GET", f"/api/runs/{id}")["nodes"]][1] == "gate"
    page.get_by_role("button", name="Cancel run").click()
    expect(node(reader, "a", "cancelled")).to_be_visible()


def test_a_node_that_waits_runs_with_another_prompt_and_again_in_a_fork(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    id = start(reader, '[nodes.plan]\nagent = "claude"\nprompt = "[[say:one]]"\n', mode="manual")
    page.goto(f"{reader.server.url}/#/p/{id}")
    prompt = page.locator(".side textarea")
    expect(prompt).to_have_value("[[say:one]]")
    prompt.fill("[[say:two]]")
    page.locator(".side").get_by_role("button", name="Approve").click()
    expect(node(reader, "plan", "done")).to_be_visible()
    expect(page.locator(".side")).to_contain_text("two")
    page.get_by_role("button", name="Run again from here").click()
    page.get_by_role("button", name="Start the fork").click()
    expect(page.locator(".row-2")).to_contain_text(f"fork of {id}")
    page.get_by_role("button", name="Cancel run").click()
    expect(node(reader, "plan", "cancelled")).to_be_visible()


def test_it_fits_a_phone_and_who_may_only_view_has_no_buttons(visit: Visit) -> None:
    owner = visit()
    id = start(owner)
    wait_until(lambda: owner.call("GET", f"/api/runs/{id}")["gates"] == 1)
    guest = visit("Guest", "view", viewport={"width": 390, "height": 844}, color_scheme="light")
    page = guest.page
    page.goto(f"{guest.server.url}/#/p/{id}")
    expect(page.locator(".side .asked")).to_contain_text("Ship Feed hay?")
    expect(node(guest, "plan", "done")).to_be_visible()
    assert page.get_by_role("button", name="Approve").count() == 0
    assert page.get_by_role("button", name="Cancel run").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    top = page.locator(".side").bounding_box()
    below = page.locator(".canvas").bounding_box()
    assert top and below and top["y"] < below["y"]  # the gate on top of the list
    owner.call("POST", f"/api/runs/{id}/cancel", {})
    expect(node(guest, "ship", "cancelled")).to_be_visible()  # told live
